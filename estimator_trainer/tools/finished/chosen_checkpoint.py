"""Which checkpoint of a run is taken up. Imports no TensorFlow."""

import os
import re

from estimator_trainer.errors import UsageError
from estimator_trainer.storage import names

_V1 = re.compile(r'model\.ckpt-\d+(?:-\d{5}-of-\d{5})?')
_INDEX = re.compile(r'model\.ckpt-(\d+)\.index')


def find(model_dir: str, step: int | None) -> tuple[str, int]:
    """The prefix and the step of the checkpoint of a step; None: of the newest one, which a run would go on from.

    Raises:
        UsageError: there is none; the message lists the steps that exist.
        OSError: the folder cannot be read.
    """
    there = _steps(model_dir)
    if not there:
        old = sorted(filter(_V1.fullmatch, os.listdir(model_dir)))
        if old:
            raise UsageError(
                f'--model_dir={model_dir}: {old[-1]} has the old format V1 of TensorFlow; start the training '
                'command of the run once, which writes it in format V2 too.'
            )
        raise UsageError(f'--model_dir={model_dir}: holds no checkpoint; name the model_dir of a run that has trained.')
    if step is None:
        step = _newest(model_dir, there)
    elif step not in there:
        shown = ', '.join(map(str, there))
        raise UsageError(f'--checkpoint_step={step}: {model_dir} has no checkpoint of this step; it has {shown}.')
    return os.path.join(model_dir, f'model.ckpt-{step}'), step


def _steps(model_dir) -> list[int]:
    return sorted(int(found[1]) for found in map(_INDEX.fullmatch, os.listdir(model_dir)) if found)


def _newest(model_dir, there) -> int:
    try:
        with open(os.path.join(model_dir, names.POINTER), 'rb') as file:
            named = names.named_by(file.read())
    except FileNotFoundError:
        named = None
    found = named and _INDEX.fullmatch(f'{named}.index')
    return int(found[1]) if found and int(found[1]) in there else there[-1]
