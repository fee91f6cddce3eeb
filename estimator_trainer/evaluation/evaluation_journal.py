"""What still has to be done for the checkpoint whose evaluation was begun last: `eval/last.json`.

The evaluation of a checkpoint has three pieces: a line in `eval/metrics.jsonl`, the decision to stop early, and the
exports. The process that evaluates writes an entry before it begins, and marks the entry as done at the end. If the
next process finds an entry that is not done, it does the pieces that are missing. The entry also holds what was there
before the evaluation, so that the process can tell which pieces are finished. As long as the checkpoint is there, no
kill loses a piece or repeats one.
"""

import dataclasses
import math
import os

from estimator_trainer.run_dir import file_names, metrics_log, protocol
from estimator_trainer.run_dir.run_folder import RunFolder


@dataclasses.dataclass(frozen=True)
class EvaluationEntry:
    """One checkpoint that was taken up.

    Attributes:
        checkpoint: its name in the model_dir, 'model.ckpt-60'.
        step: its global step.
        digest: of its index, which holds the checksums of its weights.
        final: whether training ended with it, so that the final export is owed as well.
        lines: how many lines eval/metrics.jsonl had before its evaluation.
        final_exports: the names in export/final before its evaluation.
        done: whether nothing is owed any more.
    """

    checkpoint: str
    step: int
    digest: str
    final: bool
    lines: int
    final_exports: tuple
    done: bool = False


def take_up(last: EvaluationEntry | None, new: EvaluationEntry, lines) -> EvaluationEntry:
    """The entry of a checkpoint that is to be evaluated now.

    Args:
        last: the entry so far; what it says of the same weights stands.
        new: the entry of the checkpoint if nobody has evaluated it before.
        lines: of eval/metrics.jsonl, oldest first.
    """
    if last is None or not new.digest or last.digest != new.digest or last.step != new.step:
        return new
    entry = dataclasses.replace(last, checkpoint=new.checkpoint, final=last.final or new.final)
    if recorded(entry, lines) is None:  # nobody got so far, or somebody has removed the line
        return dataclasses.replace(entry, lines=new.lines, done=False)
    return dataclasses.replace(entry, done=last.done and entry.final == last.final)


def recorded(entry: EvaluationEntry, lines) -> dict | None:
    """The results of the entry's evaluation, if its line is there."""
    for line in reversed(lines[entry.lines :]):
        if line['step'] == entry.step:
            results = {name: value for name, value in line.items() if name not in metrics_log.NOT_METRICS}
            return {name: math.nan if value is None else value for name, value in results.items()}
    return None


def read(model_dir: str) -> EvaluationEntry | None:
    """The entry of eval/last.json; None where there is none."""
    entry = RunFolder(model_dir).last_evaluation
    names = {field.name for field in dataclasses.fields(EvaluationEntry)}
    if names - entry.keys():
        return None
    return EvaluationEntry(
        **{name: entry[name] for name in names - {'final_exports'}}, final_exports=tuple(entry['final_exports'])
    )


def write(model_dir: str, entry: EvaluationEntry) -> None:
    """Writes eval/last.json, whole or not at all. Raises OSError."""
    os.makedirs(os.path.dirname(_path(model_dir)), exist_ok=True)
    protocol.write_json(_path(model_dir), dataclasses.asdict(entry))


def remove_unfinished(model_dir: str) -> None:
    """Removes what a process that was killed within `write` has left."""
    protocol.remove_unfinished(_path(model_dir))


def _path(model_dir) -> str:
    return os.path.join(model_dir, file_names.LAST_EVALUATION)
