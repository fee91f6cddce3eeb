"""The journal of evaluations: `eval/last.json` says what still has to be done, and the log how far one is. Imports no
TensorFlow.

The evaluation of a checkpoint has three pieces: a line in `eval/metrics.jsonl`, the decision to stop early, and the
exports. The process that evaluates writes an entry before it begins, and marks the entry as done at the end. If the
next process finds an entry that is not done, it does the pieces that are missing. The entry also holds what was there
before the evaluation, so that the process can tell which pieces are finished. As long as the checkpoint is there, no
kill loses a piece or repeats one.
"""

import dataclasses
import logging
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from estimator_trainer.run_dir import file_names, metrics_log, protocol
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.this_process.log import duration

_log = logging.getLogger('estimator_trainer')
_FIRST_SECS, _LONGEST_SECS = 10, 60  # before the first line of progress, and between two lines
_WITHOUT_END_SECS = 60
_FAR_MORE = 20  # times the training examples: few evaluations read so many
NO_EXAMPLES = (
    "the input_fn gives no batch when mode is 'eval', so there is nothing to evaluate. Look at the files that it "
    'reads, at what it filters, and at drop_remainder.'
)


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
        data: what it is evaluated on, as the data set describes it (`evaluation_data`); '' for unknown.
        since: the lines of eval/metrics.jsonl before the first evaluation on these data.
    """

    checkpoint: str
    step: int
    digest: str
    final: bool
    lines: int
    final_exports: tuple[str, ...]
    done: bool = False
    data: str = ''
    since: int = 0

    def is_on_other_data(self, data: str) -> bool:
        return are_other_data(self.data, data)


def are_other_data(before: str, now: str) -> bool:
    """Whether these are two descriptions of data (`evaluation_data`) that say of other data.

    '' says nothing. Those of earlier versions said less at the end, so what they did not say is no difference.
    """
    return bool(before and now) and before != now and not now.startswith(f'{before}/')


def take_up(last: EvaluationEntry | None, new: EvaluationEntry, lines: Sequence[Mapping[str, Any]]) -> EvaluationEntry:
    """The entry of a checkpoint that is to be evaluated now.

    Args:
        last: the entry so far; what it says of the same weights stands.
        new: the entry of the checkpoint if nobody has evaluated it before.
        lines: of eval/metrics.jsonl, oldest first.
    """
    if last is None or not new.digest or last.digest != new.digest or last.step != new.step:
        return new
    if last.is_on_other_data(new.data):
        return new
    final = last.final or new.final
    entry = dataclasses.replace(last, checkpoint=new.checkpoint, final=final, data=new.data, since=new.since)
    if recorded(entry, lines) is None:  # nobody got so far, or somebody has removed the line
        return dataclasses.replace(entry, lines=new.lines, done=False)
    return dataclasses.replace(entry, done=last.done and entry.final == last.final)


def recorded(entry: EvaluationEntry, lines: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
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
    if names - entry.keys() - {'data', 'since'}:  # which earlier versions did not write
        return None
    known = {name: entry[name] for name in names & entry.keys()}
    return EvaluationEntry(**{**known, 'final_exports': tuple(entry['final_exports'])})


def write(model_dir: str, entry: EvaluationEntry) -> None:
    """Writes eval/last.json, whole or not at all. Raises OSError."""
    os.makedirs(os.path.dirname(_path(model_dir)), exist_ok=True)
    protocol.write_json(_path(model_dir), dataclasses.asdict(entry), durable=True)


def remove_unfinished(model_dir: str) -> None:
    """Removes what a process that was killed within `write` has left."""
    protocol.remove_unfinished(_path(model_dir))


def _path(model_dir: str) -> str:
    return os.path.join(model_dir, file_names.LAST_EVALUATION)


class EvaluationProgress:
    """Tells when an evaluation begins, how far it is, and once in a process that its data may have no end. Afterwards
    it knows whether there were any.

    Args:
        batch_size: examples of a batch of all replicas of the evaluation.
        train_examples: how many the job trains on; None: not known.
        steps: batches after which the evaluation ends, if the data do not end before; None: no bound.
        ends: whether the data are known to end.
        warns_of_none: where there was no batch; False: the caller says it.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        batch_size: int = 1,
        train_examples: int | None = None,
        steps: int | None = None,
        ends: bool = False,
        warns_of_none: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._batch_size, self._train_examples, self._steps, self._clock = batch_size, train_examples, steps, clock
        self._warns, self._warns_of_none = not ends and steps is None, warns_of_none

    def begins(self, checkpoint: str) -> None:
        self._batches, self._began, self._first = 0, self._clock(), math.inf
        self._wait, self._due = _FIRST_SECS, self._began + _FIRST_SECS
        _log.info('evaluates %s', os.path.basename(checkpoint))

    def batch(self) -> None:
        """A batch has been evaluated."""
        self._batches += 1
        now = self._clock()
        self._first = min(self._first, now)  # before it, the graph and the data began
        took = now - self._began
        if self._warns and (now - self._first >= _WITHOUT_END_SECS or self._has_read_far_more()):
            self._warns = False
            _log.warning(
                'WARNING: evaluation: %s batches in %s, and the data have not ended. If they repeat without end, the '
                "evaluation does so as well: leave repeat() out of the input_fn when mode is 'eval', or bound the "
                'evaluation by --eval_steps',
                f'{self._batches:,}',
                duration(took),
            )
        if now >= self._due:
            self._wait = min(2 * self._wait, _LONGEST_SECS)
            self._due = now + self._wait
            of_all = '' if self._steps is None else f' of {self._steps:,}'
            batches = 'batch' if self._batches == 1 and not of_all else 'batches'
            _log.info('evaluates: %s%s %s after %s', f'{self._batches:,}', of_all, batches, duration(took))

    @property
    def is_empty(self) -> bool:
        """No batch has been evaluated since `begins`."""
        return not self._batches

    def checked(self, results: dict[str, Any]) -> dict[str, Any]:
        """The results of the evaluation. Where there was no batch, no metric of them is a number: the zeros that
        metrics begin with would be the best loss."""
        if not self.is_empty:
            return results
        if self._warns_of_none:
            _log.warning('WARNING: evaluation: %s', NO_EXAMPLES)
        return {name: value if name == 'global_step' else math.nan for name, value in results.items()}

    def _has_read_far_more(self) -> bool:
        return self._batches * self._batch_size > _FAR_MORE * (self._train_examples or math.inf)
