"""What is in a model_dir: whole checkpoints, the same as those of a run that nothing disturbed?"""

import json
import pathlib
import re


def parts(model_dir, step) -> list:
    """The names of a checkpoint's index and of its data files: one, or one of each parameter server."""
    return sorted(
        path.name
        for pattern in (f'model.ckpt-{step}.index', f'model.ckpt-{step}.data-*')
        for path in pathlib.Path(model_dir).glob(pattern)
    )


def steps(model_dir) -> list:
    """Of the checkpoints that have an index."""
    return sorted(int(path.stem.rpartition('-')[2]) for path in pathlib.Path(model_dir).glob('model.ckpt-*.index'))


def named(model_dir) -> int | None:
    """The step of the checkpoint that the file `checkpoint` names."""
    try:
        text = (pathlib.Path(model_dir) / 'checkpoint').read_text()
    except FileNotFoundError:
        return None
    match = re.search(r'^model_checkpoint_path: ".*-(\d+)"', text, re.MULTILINE)
    return int(match.group(1)) if match else None


def differences(model_dir, undisturbed, besides=()) -> list:
    """What keeps the checkpoints of a run from being, bit for bit, those of another of the same steps.

    A data file is nothing but the bytes of every variable, one after the other, and an index their names,
    shapes and checksums: equal files are equal weights.

    Args:
        besides: steps whose checkpoints are not compared.
    """
    found = []
    for step in sorted(set(steps(model_dir)) - set(besides)):
        for name in parts(model_dir, step):
            theirs = pathlib.Path(undisturbed) / name
            if not theirs.exists():
                found.append(f'the undisturbed run has no {name}')
            elif (pathlib.Path(model_dir) / name).read_bytes() != theirs.read_bytes():
                found.append(f'{name} differs')
    return found


def halves(model_dir) -> list:
    """Data files without an index, which a task killed within a checkpoint has left. Nobody reads them."""
    model_dir = pathlib.Path(model_dir)
    return sorted(
        path.name for path in model_dir.glob('model.ckpt-*.data-*') if not path.with_suffix('.index').exists()
    )


def partial(model_dir) -> list:
    """What is not whole under a final name; of a checkpoint that is its index, which is written last."""
    model_dir = pathlib.Path(model_dir)
    found = [
        f'model.ckpt-{step} lacks data: {names}'
        for step in steps(model_dir)
        if len(names := [name for name in parts(model_dir, step) if '.data-' in name]) == 0
        or len(names) != int(names[0][-5:])  # model.ckpt-60.data-00000-of-00002
    ]
    last = named(model_dir)
    if last is not None and last not in steps(model_dir):
        found.append(f'`checkpoint` names step {last}, which is not there')
    for path in [*model_dir.glob('*.json'), *model_dir.glob('eval/*.json')]:
        found += _unreadable(path, path.read_text())
    for path in [*model_dir.glob('*.jsonl'), *model_dir.glob('eval/*.jsonl')]:
        *lines, end = path.read_text().split('\n')
        found += [f'{path.name} ends within a line'] if end else []
        for line in lines:
            found += _unreadable(path, line)
    for folder in model_dir.glob('export/*/*'):
        whole = (folder / 'saved_model.pb').exists() and (folder / 'variables/variables.index').exists()
        if folder.name.isdigit() and not whole:
            found.append(f'{folder} is no SavedModel')
    return found


def _unreadable(path, text):
    try:
        json.loads(text)
    except ValueError:
        return [f'{path.name}: {text[:60]!r}']
    return []
