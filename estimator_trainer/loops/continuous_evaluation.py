"""The evaluator's loop: every checkpoint it can, always the last, until training has ended."""

import logging
import os
import time

import tensorflow as tf

from estimator_trainer import checkpoints, protocol
from estimator_trainer.watch import training

_log = logging.getLogger('estimator_trainer')
_POLL_SECS = 1


class TrainingStopped(Exception):
    """Training was stopped by a signal; it will be resumed."""


class TrainingLost(Exception):
    """The chief has not come, or is gone. `ever_seen`: it had come."""

    def __init__(self, ever_seen: bool, secs: float):
        never = '' if ever_seen else ' in this model_dir, which has to be shared with it'
        super().__init__(f'the chief has given no sign of life for {secs:.0f} s{never}')
        self.ever_seen = ever_seen


class ContinuousEvaluation:
    """Evaluates the checkpoints of a run that other tasks train.

    Args:
        make_estimator: () -> Estimator, or a KerasEvaluation, of this process alone.
        spec: EvalSpec; its first exporter hears of every evaluation, the others export.
        watch: a TrainingWatch.
        max_steps: an evaluation from this step on is the last one.
        skip: the step of an evaluation that need not be repeated, or None.
        on_look: called each time round with what is known of training.
    """

    def __init__(self, make_estimator, spec, watch, max_steps, skip=None, on_look=lambda: None):
        self._make_estimator, self._spec, self._watch = make_estimator, spec, watch
        self._max_steps, self._skip, self._on_look = max_steps, skip, on_look
        self._done = None  # checkpoint
        self._evaluated, self._results = None, None  # the last checkpoint that could be
        self._exported = False  # as the final one
        self._tried_again = None  # the last checkpoint that the file system refused once

    def run(self) -> None:
        """Returns when the last checkpoint has been evaluated and exported.

        Raises:
            TrainingStopped, TrainingLost: there is nothing more to wait for.
        """
        model_dir = self._make_estimator().model_dir
        while True:
            self._on_look()
            news = self._watch.look()  # before the checkpoint: what was saved before the end is seen
            ended = news.state == protocol.ENDED
            checkpoint = checkpoints.latest(model_dir)
            if checkpoint and checkpoint != self._done:
                self._evaluate(checkpoint, ended)
            elif ended:
                self._finish()
                return
            elif news.state == protocol.STOPPED:
                raise TrainingStopped()
            elif news.state in (training.LOST, training.ABSENT):
                raise TrainingLost(news.state == training.LOST, news.secs)
            else:
                time.sleep(_POLL_SECS)

    def _evaluate(self, checkpoint, ended) -> None:
        self._done = checkpoint
        try:
            step = checkpoints.step_of(checkpoint)
            final = ended or step >= self._max_steps
            if step == self._skip and final:  # a finished run that was started again
                self._exported = True
                return
            estimator = self._make_estimator()
            self._results = estimator.evaluate(
                self._spec.input_fn, steps=self._spec.steps, hooks=self._spec.hooks,
                checkpoint_path=checkpoint)
            self._evaluated = checkpoint
            self._export(self._spec.exporters, estimator, final)
        except checkpoints.UNREADABLE as error:
            if checkpoints.damage(checkpoint) is None:
                if checkpoint == self._tried_again or not checkpoints.was_refused(error, checkpoint):
                    raise
                self._tried_again, self._done = checkpoint, None  # it can be read by now
                return
            _log.warning('WARNING: %s is gone or cannot be read (%s): not evaluated', checkpoint,
                         str(error).strip().splitlines()[0])
        finally:
            tf.keras.backend.clear_session()

    def _finish(self) -> None:
        """Exports as the final one what was evaluated before training was known to have ended."""
        if self._results and not self._exported:
            self._export(self._spec.exporters[1:], self._make_estimator(), True)

    def _export(self, exporters, estimator, final) -> None:
        for exporter in exporters:
            exporter.export(estimator, os.path.join(estimator.model_dir, 'export', exporter.name),
                            self._evaluated, self._results, is_the_final_export=final)
        self._exported = final
