"""What is not whole in a store: what no reader may ever see."""

from estimator_trainer.storage import names


def problem(remote, named_before) -> str | None:
    """What is not whole in a store, whose file `checkpoint` has named those checkpoints so far."""
    units = {}
    for name, digest in remote.items():
        if names.unit_of(name):
            units.setdefault(names.unit_of(name), {})[name] = digest
    checkpoints = names.with_data(remote)
    for unit, files in units.items():
        # An index of another name without data, and a folder without saved_model.pb, are files of the job.
        is_one = names.is_export(unit) or names.is_of_run(unit) or unit in checkpoints
        if is_one and any(map(names.is_last_of_unit, files)):
            if len(set(files.values())) > 1 or not names.is_whole(unit, files):
                return f'{unit} is not of one save: {files}'
    pointed = remote.get(names.POINTER)
    if pointed and not names.is_whole(pointed, units.get(pointed, ())):
        return f'checkpoint names {pointed}'
    best = remote.get('export/best/best.json')
    if best and not names.is_whole(best, units.get(best, ())):
        return f'best.json names {best}'
    evaluated = remote.get('eval/last.json')
    if evaluated and names.step_of(evaluated) > max(map(names.step_of, named_before)):
        return f'eval/last.json names {evaluated}, which was never there'
    if pointed and not {'config.json', 'metrics.jsonl'} <= remote.keys():
        return 'a file that a resumed run looks at is missing'
    return None
