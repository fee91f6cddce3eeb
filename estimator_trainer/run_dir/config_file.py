"""config.json in the model_dir: what this run is, and whether the flags still say so."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import file_errors, file_names, files_of_others, protocol
from estimator_trainer.run_dir import files as files_of_run
from estimator_trainer.run_dir.run_folder import RunFolder

JOB_FILE = 'job.pkl'  # a Job that no module holds; config.json names it so, wherever the model_dir is
KEYS = frozenset(('job', 'loop', 'params', 'flags', 'global_batch_size', 'seed'))  # without them it tells of no run
_TAKEN_UP_AT = 'taken_up_at'
_KEPT_EXAMPLES = 1000  # entries of examples.json, beside those of checkpoints that are here
_MATTERS = ('job', 'loop', 'dataset', 'global_batch_size', 'seed', 'mixed_precision', 'params')


def initial_replicas(plan: Any, environ: Mapping[str, str]) -> int:
    """The number of replicas with which the run of a plan began; the plan's own where it begins now. One that
    accumulates K batches counts as K replicas.

    A run may go on with fewer replicas and the same global batch, as it does under `--min_workers`. Its learning
    rate, where it is scaled, stays what it was. With another global batch a run begins anew.
    """
    old = _object(plan.config.model_dir, file_names.CONFIG)
    began: Any = old.get('initial_replicas')
    if old.get('global_batch_size') == plan.global_batch_size and type(began) is int and began > 0:
        return began
    workers = environ.get(protocol.WORKERS, '')
    if workers.isdecimal() and int(workers) > plan.num_training_tasks and not plan.asynchronous:
        each = int(plan.config.num_replicas) * int(plan.config.accumulate_steps)
        return int(workers) * each  # it was killed before it had written config.json
    return int(plan.batches_per_step)


def resolved(
    plan: Any, versions: Mapping[str, str], replicas: int | None = None, environ: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """The whole of a run, as config.json holds it.

    Args:
        plan: training.plan.Plan, with its job.
        versions: of what computes.
        replicas: `initial_replicas`; by default those of the plan.
        environ: says what flags the user gave, if the run is in a store.
    """
    config = plan.config
    flags = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in vars(config).items()
        if name not in ('dry_run', 'progress')
    } | protocol.given_flags(config.model_dir, environ or {})
    return {
        'job': JOB_FILE if config.job_is_file else config.job,
        'loop': config.loop,
        'dataset': config.dataset,
        'own_data': bool(plan.job and plan.job.input_fn),  # then the data set is not read
        'params': dict(plan.job_params),
        'best_metric': plan.job and plan.job.best_metric,
        'best_mode': plan.job and plan.job.best_mode,
        'seed': config.seed,
        'mixed_precision': config.mixed_precision,
        'strategy': plan.strategy,
        'global_batch_size': plan.global_batch_size,
        'num_replicas': plan.num_replicas,
        'initial_replicas': replicas or plan.batches_per_step,
        'cluster': {
            role: list(plan.cluster.addresses(role))
            for role in ('chief', 'worker', 'ps', 'evaluator')
            if plan.cluster.addresses(role)
        },
        'flags': flags,
        'versions': versions,
    }


def refuse_another_run(model_dir: str, new: dict[str, Any], added: Mapping[str, Any] | None = None) -> bool:
    """Compares a run with the one that the model_dir holds. Without a checkpoint of that run nothing has been trained,
    and any run may begin there: the first start may have failed because of what has now been corrected.

    Args:
        model_dir: the folder.
        new: `resolved` of the run that is to begin.
        added: params that an earlier version of the job may have lacked, with the values that mean what it did then.

    Returns:
        Whether the model_dir holds one.

    Raises:
        UsageError: they differ in something that matters; every difference is shown. Or it holds files of others that
            have names of ours. ModelDirUnreadable: it cannot be read.
    """
    try:
        old = protocol.read_object(os.path.join(model_dir, file_names.CONFIG))
        if not isinstance(old.get('params', {}), dict):
            raise ValueError('not an object of a run')
    except FileNotFoundError:
        files_of_others.refuse_in_run(model_dir)
        _refuse_other_job_file(model_dir, new)
        return False
    except NotADirectoryError as error:
        raise UsageError(f'--model_dir={model_dir}: {error.strerror}; name a folder.') from error
    except OSError as error:
        raise file_errors.ModelDirUnreadable(model_dir, file_names.CONFIG, error) from error
    except ValueError as error:
        raise UsageError(
            f'--model_dir={model_dir}: its config.json cannot be read ({error}); mend or remove it.'
        ) from error
    files_of_others.refuse_in_run(model_dir)
    _refuse_other_job_file(model_dir, new)
    old = {**old, 'params': {**(added or {}), **old.get('params', {})}}
    differences, run = _differences(old, new), RunFolder(model_dir)
    if differences and not new['flags']['allow_config_change'] and _has_trained(run, old):
        raise UsageError(
            f'--model_dir={model_dir}: holds a run with another configuration:\n'
            + '\n'.join(f'  {name}: {was!r} there, {now!r} now' for name, was, now in differences)
            + f'\nGive it as it was{_cure_of_batch(differences, new)}, another --model_dir, or --allow_config_change.'
        )
    return True


def _has_trained(run: RunFolder, config: Mapping[str, Any]) -> bool:
    """Whether the run that has written this config has written a checkpoint too."""
    return run.has_checkpoint and (_TAKEN_UP_AT not in config or run.named_step != config[_TAKEN_UP_AT])


def _refuse_other_job_file(model_dir: str, new: dict[str, Any]) -> None:
    path, given = os.path.join(model_dir, JOB_FILE), new['flags']['job']
    if new['job'] != JOB_FILE or not os.path.lexists(path) or _same_file(path, given):
        return
    if _object(model_dir, file_names.CONFIG).get('job') != JOB_FILE:  # it is written before the other
        raise UsageError(
            f'--model_dir={model_dir}: its {JOB_FILE} is not of a run; move it away, or name another folder.'
        )


def keep_job(model_dir: str, job: str) -> None:
    """Keeps the file that --job names: evaluate, export and a later start need the job.

    config.json is there already. Raises OSError: it cannot be read or written.
    """
    path = os.path.join(model_dir, JOB_FILE)
    if _same_file(path, job):
        return
    with open(job, 'rb') as source, files_of_run.replacing(path, durable=True) as temporary:
        with files_of_run.create(temporary, 'wb') as file:
            file.write(source.read())


def _same_file(path: str, other: str) -> bool:
    try:
        return os.path.samefile(path, other)
    except OSError:
        return False


def job_of(model_dir: str, config: Mapping[str, Any]) -> str:
    """The value of --job for the run of a config.json."""
    return os.path.join(model_dir, JOB_FILE) if config['job'] == JOB_FILE else str(config['job'])


def files(model_dir: str) -> dict[str, Any]:
    """What the training files held as the run last began; {} where it reads none. Raises OSError."""
    return _object(model_dir, file_names.CONFIG).get('files') or {}


def trained_files(model_dir: str) -> dict[str, Any]:
    """`files` of a run that has written a checkpoint; {} of others, for nothing was trained on them. Raises OSError."""
    config = _object(model_dir, file_names.CONFIG)
    return config.get('files') or {} if _has_trained(RunFolder(model_dir), config) else {}


def history(model_dir: str, global_batch: int, step: int) -> dict[str, Any]:
    """What config.json keeps from start to start: the global batches that the run has had, and the step of the
    checkpoint of another program from which it has begun.

    Args:
        global_batch: of this start.
        step: of the newest checkpoint, 0: there is none.
    """
    old, parts = _object(model_dir, file_names.CONFIG), batches(model_dir, global_batch, step)
    taken_up_at = old.get(_TAKEN_UP_AT) if old else step
    beside = examples_beside(model_dir, step)
    return (
        ({'batches': parts} if len(parts) > 1 else {})
        | ({files_of_others.BESIDE: [step, beside]} if beside else {})
        | ({_TAKEN_UP_AT: taken_up_at} if taken_up_at else {})
    )


def batches(model_dir: str, global_batch: int, step: int) -> list[list[int]]:
    """[step, examples, global batch] of each part of a run: from that step on, at which so many examples had been
    trained, with that global batch. The last part begins at `step`, if it has another global batch than before, or if
    the steps before it have not trained a batch each.

    One part means that neither has ever happened.
    """
    old = _object(model_dir, file_names.CONFIG)
    before = old.get('batches') or [[0, 0, old.get('global_batch_size') or global_batch]]
    parts = [part for part in before if part[0] <= step]
    expected = _examples_of(parts[-1], step)
    examples = _kept_examples(model_dir).get(str(step), expected)
    if parts[-1][2] != global_batch or examples != expected:
        parts.append([step, examples, global_batch])
    return [part for part, after in zip(parts, [*parts[1:], [None]]) if part[0] != after[0]]


def position_shift(model_dir: str, global_batch: int, step: int) -> int:
    """Examples that a run has trained beyond step x global_batch: it has had another global batch before, or its
    train_op does not move the global step by 1 for each batch."""
    return _examples_of(batches(model_dir, global_batch, step)[-1], step) - step * global_batch


def trained_shift(model_dir: str, global_batch: int, step: int) -> int:
    """`position_shift` without the examples that only hooks of the job have read: --epochs counts those of steps."""
    return position_shift(model_dir, global_batch, step) - examples_beside(model_dir, step)


def examples_beside(model_dir: str, step: int) -> int:
    """How many of the examples before the checkpoint of a step hooks of the job have read outside the steps."""
    began, beside = _object(model_dir, file_names.CONFIG).get(files_of_others.BESIDE) or [0, 0]
    return _kept_examples(model_dir, files_of_others.BESIDE).get(str(step), beside if step >= began else 0)


def keep_examples(model_dir: str, global_batch: int, step: int, examples: int, beside: int = 0) -> None:
    """Keeps how many examples the run has read before the checkpoint of a step, where its step does not say it, and how
    many of them beside the steps. Comes before the checkpoint: a run that resumes from it reads its next example there.
    What it says of earlier checkpoints stays: the store may name one that is no longer in this folder.
    """
    stale = str(step) in _kept_examples(model_dir, files_of_others.BESIDE)  # the run has been here before
    if not beside and not stale and examples - step * global_batch == position_shift(model_dir, global_batch, step):
        return
    there = RunFolder(model_dir).steps

    def kept(key: str | None) -> dict[str, Any]:
        before = {name: number for name, number in _kept_examples(model_dir, key).items() if name != str(step)}
        near = set(sorted(before, key=lambda name: abs(int(name) - step))[:_KEPT_EXAMPLES])
        return {name: number for name, number in before.items() if name in near or int(name) in there}

    read_beside = kept(files_of_others.BESIDE) | ({str(step): beside} if beside else {})
    new = kept(None) | {str(step): examples} | ({files_of_others.BESIDE: read_beside} if read_beside else {})
    protocol.write_json(os.path.join(model_dir, file_names.EXAMPLES), new, durable=True)


def _kept_examples(model_dir: str, key: str | None = None) -> dict[str, int]:
    """{step of a checkpoint: examples that it has trained}, of those whose step does not say it; or what another key of
    the file has for steps."""
    said: Any = _object(model_dir, file_names.EXAMPLES)
    if key is not None:
        said = said.get(key) if isinstance(said.get(key), dict) else {}
    return {step: examples for step, examples in said.items() if step.isdecimal() and type(examples) is int}


def _object(model_dir: str, name: str) -> dict[str, Any]:
    """The object in a JSON file; {} if there is none. Raises OSError: it cannot be read now. If that counted as none,
    the run would go on at another place of its data."""
    try:
        return protocol.read_object(os.path.join(model_dir, name))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return {}


def _examples_of(part: list[int], step: int) -> int:
    began, examples, batch = part
    return examples + (step - began) * batch


def write(model_dir: str, new: Mapping[str, Any]) -> None:
    """Writes config.json, whole or not at all."""
    try:
        os.makedirs(model_dir, exist_ok=True)
    except OSError as error:
        raise UsageError(f'--model_dir={model_dir}: {error.strerror}; name another folder.') from error
    protocol.write_json(os.path.join(model_dir, file_names.CONFIG), new, durable=True)


def _cure_of_batch(differences: Sequence[tuple[str, Any, Any]], new: Mapping[str, Any]) -> str:
    """Words that say with which --batch_size the global batch is the run's; '' if it is that, or none gives it."""
    replicas = new['global_batch_size'] // new['flags']['batch_size']
    batches = [was for name, was, _ in differences if name == 'global_batch_size']
    if not batches or not isinstance(batches[0], int) or batches[0] % replicas:
        return ''
    return f' (--batch_size={batches[0] // replicas} makes the same global batch here)'


def _differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    differences = []
    for name in _MATTERS:
        was, now = old.get(name), new[name]
        if isinstance(now, dict):
            was = was or {}
            differences += [
                (f'param {key}', was.get(key), now.get(key))
                for key in sorted({*was, *now})
                if was.get(key) != now.get(key)
            ]
        elif was != now:
            differences.append((name, was, now))
    return differences
