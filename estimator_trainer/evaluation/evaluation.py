"""Evaluates a checkpoint: keeps the results, decides whether training stops early, and exports.

Every loop and the evaluator evaluate through this module. Before it begins with a checkpoint, it writes to
`eval/last.json` that these pieces have to be done (`evaluation_journal`). If the process is killed or fails in between,
the next process does the rest: it calls `make_up`, or the evaluator's loop calls `find_undone`.
"""

import contextlib
import dataclasses
import functools
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from estimator_trainer.errors import UsageError, nearest
from estimator_trainer.evaluation import early_stopping, evaluation_journal
from estimator_trainer.run_dir import checkpoints, file_names, metrics_log, ownership

if TYPE_CHECKING:
    from estimator_trainer.evaluation.exporters import Exports
    from estimator_trainer.evaluation.serving_inputs import ServingInputFn

_log = logging.getLogger('estimator_trainer')


class Evaluator(Protocol):
    """The model of a run in one process, as `evaluation.estimator_evaluator` and `keras_evaluator` have it."""

    def metric_names(self) -> set[str]:
        """The names that the results of `evaluate` will have, without `global_step`."""

    def evaluate(self, checkpoint: str) -> dict[str, Any]:
        """The metrics of a checkpoint over the whole evaluation data, and `global_step`."""

    def predictions(self, checkpoint: str) -> list[dict[str, Any]]:
        """What the model predicts for each batch of the evaluation data, as NumPy arrays [batch, ...]."""

    def export_saved_model(
        self, folder: str, serving_input_fn: 'ServingInputFn', checkpoint_path: str, **options: Any
    ) -> str | bytes:
        """Writes folder/<seconds since the epoch>, and returns its path. Exporters call it as Estimator's."""


class Evaluation:
    """Evaluates the checkpoints of one model_dir, one after the other. One process at a time may do so.

    Args:
        make_evaluator: () -> Evaluator, called when the first one is needed: it holds a model of its own.
        exports: evaluation.exporters.Exports.
        rule: early_stopping.EarlyStopping, or None.
        start_step: the step at which this process began to train; None if it does not train.
        after_last: (evaluator, checkpoint, step) -> None, called after the last checkpoint is evaluated and exported.
        data: what is evaluated on, as the data set describes it; '' for unknown.

    Attributes:
        results: step -> metrics, of the checkpoints that this process has dealt with.
    """

    def __init__(
        self,
        model_dir: str,
        make_evaluator: Callable[[], Evaluator],
        exports: 'Exports',
        rule: early_stopping.EarlyStopping | None = None,
        start_step: int | None = None,
        after_last: Callable[[Evaluator, str, int], None] | None = None,
        data: str = '',
    ):
        self._model_dir, self._make_evaluator, self._after_last = model_dir, make_evaluator, after_last
        self._exports, self._rule, self._start_step, self._data = exports, rule, start_step, data
        self._lines = metrics_log.MetricsLog(os.path.join(model_dir, file_names.EVALUATIONS))
        self._last: evaluation_journal.EvaluationEntry | None = None
        self._last_done: evaluation_journal.EvaluationEntry | None = None  # unless it could not be read
        self.results: dict[int, dict[str, Any]] = {}

    @contextlib.contextmanager
    def held(self) -> Iterator[Callable[[], bool]]:
        """Holds the run's evaluation, of which one process is the owner. Yields () -> whether it is ours now.

        An evaluator that TF_CONFIG's cluster does not list is unknown to the chief otherwise. The process that has the
        evaluation may give it up or end at any time: ask before each evaluation. Once it is ours, what others have
        left undone is made up for.
        """
        with ownership.lock(self._model_dir, file_names.EVALUATOR_LOCK) as evaluation_lock:
            taken, named_holder = False, None

            def is_ours() -> bool:
                nonlocal taken, named_holder
                if taken:
                    return True
                taken = ownership.take_unless_held(evaluation_lock)
                holder = evaluation_lock.holder()
                if taken:
                    self.make_up()
                elif holder != named_holder:
                    named_holder = holder
                    _log.info('evaluation: %s evaluates this run; this process does so once that one has ended', holder)
                return taken

            yield is_ours

    def check_early(self) -> None:
        """Looks whether the evaluation will give what the rule and the exports go by, and what the exports take.

        Raises:
            UsageError: it will not, and the message names what there is; or the serving_input_fn returns no receiver.
        """
        self._exports.check()
        metrics_by_flag = {f'--stop_metric={self._rule.metric}': self._rule.metric} if self._rule else {}
        if self._exports.metric:
            metrics_by_flag[f"the job's best_metric={self._exports.metric!r}"] = self._exports.metric
        if set(metrics_by_flag.values()) <= {'loss'}:  # which every evaluation gives
            return
        names = self._evaluator.metric_names()
        for flag, metric in metrics_by_flag.items():
            if metric not in names:
                raise UsageError(
                    f'{flag}: the evaluation has no metric of this name{nearest(metric, names)}. '
                    f'It has: {", ".join(sorted(names))}.'
                )

    def prepare(self) -> None:
        """Makes the evaluator now, and not at the first evaluation."""
        _ = self._evaluator

    def make_up(self) -> None:
        """Does what an earlier process has left undone, if its checkpoint is still there."""
        entry = self.find_undone()
        if entry:
            self.evaluate_checkpoint(os.path.join(self._model_dir, entry.checkpoint), entry.final)

    def find_undone(self) -> evaluation_journal.EvaluationEntry | None:
        """Reads what an earlier process has left undone and can still be done; None for nothing.

        Half-written exports and files are removed. Where the checkpoint is gone, a warning says what is missing.
        """
        self._exports.remove_unfinished()
        early_stopping.remove_unfinished(self._model_dir)
        evaluation_journal.remove_unfinished(self._model_dir)
        newest = checkpoints.newest(self._model_dir)
        self._last = evaluation_journal.read(self._model_dir) or self._of_an_earlier_version(newest)
        if self._last is None or self._last.done:
            return None
        known = evaluation_journal.recorded(self._last, self._lines.read()) is not None
        name, missing = self._last.checkpoint, 'the exports' if known else 'the evaluation and the exports'
        if self._last.digest and self._last.digest == checkpoints.digest(os.path.join(self._model_dir, name)):
            _log.info(
                'evaluation: %s of %s may be missing, because a process was stopped there; made up for', missing, name
            )
            return self._last
        self._decide()
        self._keep(dataclasses.replace(self._last, done=True))
        _log.warning(
            'WARNING: evaluation: %s of %s may be missing, because a process was stopped there, and '
            'cannot be made up for: the checkpoint is no longer there',
            missing,
            name,
        )
        return None

    def evaluate_checkpoint(self, checkpoint: str, final: bool) -> None:
        """Does what has not been done of a checkpoint's evaluation.

        Args:
            final: training has ended with this checkpoint.
        """
        lines = self._lines.read()
        new = evaluation_journal.EvaluationEntry(
            os.path.basename(checkpoint),
            checkpoints.step_of(checkpoint),
            checkpoints.digest(checkpoint),
            final,
            len(lines),
            self._exports.finals(),
            data=self._data,
            since=self._since(lines),
        )
        known = self._last_done if self._last_done and self._last_done.digest == new.digest else self._last
        if self._last and self._last.is_on_other_data(self._data):
            _log.warning(
                'WARNING: evaluation: the evaluation data or --eval_steps have changed, or the batch with '
                '--eval_steps: earlier evaluations count neither for export/best nor for --stop_metric'
            )
        entry = evaluation_journal.take_up(known, new, lines)
        if entry.done:
            self.results[entry.step] = evaluation_journal.recorded(entry, lines) or {}
            return
        self._keep(entry)
        evaluator, metrics = self._evaluator, evaluation_journal.recorded(entry, lines)
        if metrics is None:
            metrics = self._evaluate(evaluator, checkpoint)
        self.results[entry.step] = metrics
        self._decide()
        exported = {**metrics, 'global_step': entry.step}
        self._exports.write(evaluator, checkpoint, exported, entry.final, entry.final_exports)
        if entry.final and self._after_last:
            self._after_last(evaluator, checkpoint, entry.step)
        self._keep(dataclasses.replace(entry, done=True))

    def of_last(self) -> None:
        """`of` the last checkpoint, with which training has ended."""
        checkpoint = checkpoints.newest(self._model_dir)
        if checkpoint:
            self.evaluate_checkpoint(checkpoint, final=True)
        else:
            _log.warning('WARNING: evaluation: there is no checkpoint in %s', self._model_dir)

    @functools.cached_property
    def _evaluator(self) -> Evaluator:
        return self._make_evaluator()

    def _evaluate(self, evaluator: Evaluator, checkpoint: str) -> dict[str, Any]:
        metrics = dict(evaluator.evaluate(checkpoint))
        step = int(metrics.pop('global_step'))
        self._lines.write('eval', step, metrics)
        _log.info('evaluation at step %d: %s', step, metrics_log.in_words(metrics))
        warning = metrics_log.warning(step, metrics)
        if warning:
            decides = self._exports.metric and {'loss', self._exports.metric} & {*metrics_log.not_finite(metrics)}
            _log.warning('%s%s', warning, ' This checkpoint will not be export/best.' if decides else '')
        return metrics

    def _decide(self) -> None:
        if self._rule is None or early_stopping.decision(self._rule, self._model_dir, self._data):
            return
        lines = self._lines.read()
        verdict = early_stopping.decide(self._rule, lines[self._since(lines) :], self._model_dir, self._data)
        if verdict:
            _log.info('early stopping: %s', early_stopping.sentence(verdict))

    def _since(self, lines: Sequence[Mapping[str, Any]]) -> int:
        """How many of the lines are of evaluations on other data."""
        if self._last and self._last.is_on_other_data(self._data):
            return len(lines)
        return self._last.since if self._last else 0

    def _keep(self, entry: evaluation_journal.EvaluationEntry) -> None:
        self._last = entry
        self._last_done = entry if entry.done else self._last_done
        evaluation_journal.write(self._model_dir, entry)

    def _of_an_earlier_version(self, newest: str | None) -> evaluation_journal.EvaluationEntry | None:
        """What a model_dir without eval/last.json says: its newest checkpoint may have been evaluated. Whether
        it was exported as the final one is seen by whether there is a final export at all."""
        lines = self._lines.read()
        if not newest or not lines:
            return None
        step = checkpoints.step_of(newest)
        if lines[-1]['step'] != step or self._start_step not in (None, step):
            return None
        return evaluation_journal.EvaluationEntry(
            os.path.basename(newest),
            step,
            checkpoints.digest(newest),
            final=False,
            lines=len(lines) - 1,
            final_exports=(),
            done=True,
        )
