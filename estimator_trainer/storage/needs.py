"""Which files of a run a tool needs, and how much of their content. Pure.

A tool's need is a function (names, newest) -> {name: Need}. `names` are those of all objects of the run; `newest` is
the checkpoint that the file `checkpoint` names, or None. The tool's copy does not have the files that the answer leaves
out.
"""

import enum
from collections.abc import Callable, Collection

from estimator_trainer.run_dir import file_names
from estimator_trainer.storage import names

_STATUS = (
    *(file_names.TRAINING, file_names.STATUS, file_names.REPORT, file_names.EARLIER_STARTS),
    *(file_names.CONFIG, file_names.STOP),
)
_METRICS = (file_names.METRICS, file_names.EVALUATIONS)


class Need(enum.Enum):
    WHOLE = 'whole'
    END = 'end'  # its last bytes; what is before them is a hole
    SIZE = 'size'  # nothing but a hole of its size


Needs = Callable[[Collection[str], str | None], dict[str, Need]]


def of_status(objects: Collection[str], newest: str | None) -> dict[str, Need]:
    needed = dict.fromkeys((*_STATUS, names.POINTER), Need.WHOLE) | dict.fromkeys(_METRICS, Need.END)
    return {name: need for name, need in needed.items() if name in objects}


def of_result(objects: Collection[str], newest: str | None) -> dict[str, Need]:
    """What a run has reached: its evaluations, and which checkpoints and exports there are."""
    whole = {*_STATUS, file_names.EVALUATIONS, file_names.LAST_EVALUATION, names.POINTER}
    return {
        name: Need.WHOLE if name in whole else Need.SIZE
        for name in objects
        if name in whole or names.export_of(name) or names.checkpoint_of(name)
    }


def of_report(objects: Collection[str], newest: str | None) -> dict[str, Need]:
    """What is small, and files of events where there are no metrics. A copy has names.POINTER whole in any case."""

    def need(name: str) -> Need:
        folder, slash, last = name.rpartition('/')
        if names.is_of_tensorboard(last):
            return Need.SIZE if f'{folder}{slash}{file_names.METRICS}' in objects else Need.WHOLE
        small = last.endswith(('.json', '.jsonl')) or names.checkpoint_of(last) and last.endswith('.index')
        return Need.WHOLE if small and not names.export_of(name) else Need.SIZE

    return {
        name: need(name) for name in objects if names.is_mirrored(name) or name.startswith(f'{file_names.DAMAGED}/')
    }


def of_exports(objects: Collection[str], newest: str | None) -> dict[str, Need]:
    """Which exports there are, which is the best one, and what the run is; for what reads one of them afterwards."""
    return {
        name: Need.WHOLE if name.endswith('/best.json') or name in ('best.json', file_names.CONFIG) else Need.SIZE
        for name in objects
        if not names.checkpoint_of(name)
    }


def of_tracking(objects: Collection[str], newest: str | None) -> dict[str, Need]:
    """What is sent to a tracker, and what was sent."""
    return {
        name: Need.WHOLE
        for name in objects
        if name in (*_STATUS, *_METRICS)
        or names.export_of(name)
        or name.startswith('track/')
        or name.endswith('.hparams')
    }


def of_newest_checkpoint(objects: Collection[str], newest: str | None) -> dict[str, Need]:
    """What a trainer would go on from, but for exports and logs."""
    return _of_checkpoints(objects, {newest})


def _of_checkpoints(objects: Collection[str], checkpoints: Collection[str | None]) -> dict[str, Need]:
    return {
        name: Need.WHOLE
        for name in objects
        if names.is_fetched(name, checkpoints) and not name.startswith(('export/', 'logs/'))
    }


def of_checkpoint(step: int | None) -> Needs:
    """As `of_newest_checkpoint`, but for the checkpoint of a step; and which others there are."""

    def needs(objects: Collection[str], newest: str | None) -> dict[str, Need]:
        of_step = f'model.ckpt-{step}'
        needed = _of_checkpoints(objects, {newest} if step is None else {of_step, names.twin_of(of_step)})
        others = {name: Need.SIZE for name in objects if names.checkpoint_of(name) and name.endswith('.index')}
        return others | needed

    return needs


def of_inspection(verify: str, only: str = '') -> Needs:
    """All but the data of those checkpoints and exports whose checksums are not verified.

    Args:
        verify: of `inspect`.
        only: the checkpoint that is inspected, or a file of it; '' for all.
    """
    chosen = names.checkpoint_of(only) or only

    def needs(objects: Collection[str], newest: str | None) -> dict[str, Need]:
        def is_read(name: str) -> bool:
            checkpoint = names.checkpoint_of(name)
            if verify == 'all' and not (chosen and checkpoint):
                return True
            return verify != 'sizes' and checkpoint is not None and checkpoint == (chosen or newest)

        return {name: Need.SIZE if '.data-' in name and not is_read(name) else Need.WHOLE for name in objects}

    return needs
