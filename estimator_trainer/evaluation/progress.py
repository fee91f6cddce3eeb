"""Tells the user how far an evaluation is, and warns if its data may never end. Imports no TensorFlow."""

import logging
import os
import time

from estimator_trainer.this_process.log import duration

_log = logging.getLogger('estimator_trainer')
_FIRST_SECS, _LONGEST_SECS = 10, 60  # before the first line of progress, and between two lines
_WITHOUT_END_SECS = 60
_FAR_MORE = 20  # times the training examples: few evaluations read so many


class EvaluationProgress:
    """Tells when an evaluation begins, how far it is, and once in a process that its data may have no end.

    Args:
        batch_size: examples of a batch of all replicas of the evaluation.
        train_examples: how many the job trains on; None: not known.
        steps: batches after which the evaluation ends, if the data do not end before; None: no bound.
        ends: whether the data are known to end.
        clock: seconds, monotonic.
    """

    def __init__(self, batch_size=1, train_examples=None, steps=None, ends=False, clock=time.monotonic):
        self._batch_size, self._train_examples, self._steps, self._clock = batch_size, train_examples, steps, clock
        self._warns = not ends and steps is None

    def begins(self, checkpoint: str) -> None:
        self._batches, self._began = 0, self._clock()
        self._wait, self._due = _FIRST_SECS, self._began + _FIRST_SECS
        _log.info('evaluates %s', os.path.basename(checkpoint))

    def batch(self) -> None:
        """A batch has been evaluated."""
        self._batches += 1
        now = self._clock()
        took = now - self._began
        if self._warns and (took >= _WITHOUT_END_SECS or self._has_read_far_more()):
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

    def _has_read_far_more(self) -> bool:
        return bool(self._train_examples) and self._batches * self._batch_size > _FAR_MORE * self._train_examples
