"""Which checkpoint of a run is taken up. Imports no TensorFlow."""

import os
import re

from estimator_trainer.errors import UsageError
from estimator_trainer.storage import names

_V1 = re.compile(r'model\.ckpt-\d+(?:-\d{5}-of-\d{5})?')
_INDEX = re.compile(r'(model\.ckpt-(?:again-)?(\d+))\.index')  # a store may hold a checkpoint under a second name


def find(model_dir: str, step: int | None) -> tuple[str, int]:
    """The prefix and the step of the checkpoint of a step; None: of the newest one, which a run would go on from.

    Raises:
        UsageError: there is none; the message lists the steps that exist.
        OSError: the folder cannot be read.
    """
    there = _checkpoints(model_dir)
    if not there:
        old = sorted(filter(_V1.fullmatch, os.listdir(model_dir)))
        if old:
            raise UsageError(
                f'--model_dir={model_dir}: {old[-1]} has the old format V1 of TensorFlow; start the training '
                'command of the run once, which writes it in format V2 too.'
            )
        raise UsageError(f'--model_dir={model_dir}: holds no checkpoint; name the model_dir of a run that has trained.')
    named = _named(model_dir)
    if step is None:
        step = next((step for step, found in there.items() if named in found), max(there))
    elif step not in there:
        shown = ', '.join(map(str, sorted(there)))
        raise UsageError(f'--checkpoint_step={step}: {model_dir} has no checkpoint of this step; it has {shown}.')
    found = there[step]
    return os.path.join(model_dir, named if named in found else min(found, key=len)), step


def _checkpoints(model_dir) -> dict[int, list[str]]:
    """Step -> the names of its checkpoint."""
    there: dict[int, list[str]] = {}
    for found in filter(None, map(_INDEX.fullmatch, sorted(os.listdir(model_dir)))):
        there.setdefault(int(found[2]), []).append(found[1])
    return there


def _named(model_dir) -> str | None:
    """What the run would go on from."""
    try:
        with open(os.path.join(model_dir, names.POINTER), 'rb') as file:
            return names.named_by(file.read())
    except FileNotFoundError:
        return None
