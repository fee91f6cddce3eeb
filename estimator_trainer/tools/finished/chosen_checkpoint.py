"""Which checkpoint of a run is taken up. Imports no TensorFlow."""

import os

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import file_names
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.storage import names


def find(model_dir: str, step: int | None) -> tuple[str, int]:
    """The prefix and the step of the checkpoint of a step; None: of the newest one, which a run would go on from.

    Raises:
        UsageError: there is none; the message lists the steps that exist.
        OSError: the folder cannot be read.
    """
    run = RunFolder(model_dir)
    by_step: dict[int, list[str]] = {}
    for each in run.checkpoints:
        if each.step is not None and names.is_of_run(each.name) and not each.is_damaged:
            by_step.setdefault(each.step, []).append(each.name)  # a store may hold one under a second name
    if not by_step:
        old = list(filter(file_names.V1.fullmatch, run.entries))
        if old:
            raise UsageError(
                f'--model_dir={model_dir}: {old[-1]} has the old format V1 of TensorFlow; start the training '
                'command of the run once, which writes it in format V2 too.'
            )
        raise UsageError(f'--model_dir={model_dir}: holds no checkpoint; name the model_dir of a run that has trained.')
    if step is None:
        named_step = next((step for step, checkpoints in by_step.items() if run.pointer.name in checkpoints), None)
        step = max(by_step) if named_step is None else named_step
    elif step not in by_step:
        steps = ', '.join(map(str, sorted(by_step)))
        raise UsageError(f'--checkpoint_step={step}: {model_dir} has no checkpoint of this step; it has {steps}.')
    checkpoints = by_step[step]
    chosen = run.pointer.name if run.pointer.name in checkpoints else min(checkpoints, key=len)
    return os.path.join(model_dir, chosen), step
