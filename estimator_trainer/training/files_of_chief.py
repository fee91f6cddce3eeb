"""Whether a task trains on the files that the chief trains on. Imports no TensorFlow."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from estimator_trainer.data.files import dataset
from estimator_trainer.run_dir import config_file

_LOOK_SECS = 0.5


def difference(own: Mapping[str, Any] | None, of_chief: Mapping[str, Any] | None) -> str:
    """How the training files of a task differ from the chief's, as the end of a sentence. Asked where they differ.

    Args:
        own, of_chief: what they hold, as FileDataset.contents; None: none are read.
    """
    own, of_chief = (contents or {'files': 0, 'examples': 0} for contents in (own, of_chief))
    if dataset.difference(of_chief, own) <= dataset.OF_WINDOWS:
        return (
            f'forms other windows of the training files than the chief ({dataset.WHY_OTHER_WINDOWS}): give all tasks '
            'the same'
        )
    return (
        f'finds other training files than the chief: {own["files"]} with {own["examples"]} examples, the chief '
        f'{of_chief["files"]} with {of_chief["examples"]}. Let all files be there, the same on every machine, before '
        'the run starts'
    )


def look(
    model_dir: str,
    own: Mapping[str, Any] | None,
    secs: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> str:
    """Compares the files of a task with those that the chief has written into config.json, for tasks that parameter
    servers connect: they tell each other nothing before they train.

    A chief that has just started may not have written it yet, and a network file system may show an older one, so this
    looks again for at most `secs`.

    Returns:
        What is wrong, as `difference`; '': nothing, or config.json names no files, as where the folder is not shared.
    """
    deadline = clock() + secs
    while True:
        of_chief = config_file.files(model_dir)
        if not of_chief or not dataset.difference(of_chief, own or {}):
            return ''
        if clock() >= deadline:
            return difference(own, of_chief)
        sleep(_LOOK_SECS)
