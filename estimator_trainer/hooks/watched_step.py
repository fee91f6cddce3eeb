"""What every training task looks at in every step: is the loss a number, should we stop?"""

import errno
import math
import signal

import numpy as np
import tensorflow as tf

from estimator_trainer import checkpoints, protocol
from estimator_trainer.compat.agreement import Agreement
from estimator_trainer.watch import lifeline as lifelines

EARLY_STOPPING = 'early_stopping'
MAX_SECS = 'max_secs'
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_REASONS = (EARLY_STOPPING, MAX_SECS)


class NotFiniteError(ArithmeticError):
    """The loss or a weight is NaN or infinite. Its text says what and at which step."""


class StepWatch:
    """Tells the lifeline of each step, and knows what all synchronous tasks wish to do after it.

    Args:
        lifeline: watch.Lifeline.
        is_chief: of the tasks exactly one.
        asynchronous: other tasks move the global step as well.
        reason: () -> EARLY_STOPPING, MAX_SECS or None; asked of the chief, or of every asynchronous
            task.
        start_step: of the checkpoint that training goes on from.

    Attributes:
        why: the reason that stopped training, None if none did.
    """
    WISHES = len(_SIGNALS) + len(_REASONS)

    def __init__(self, lifeline, is_chief: bool, asynchronous: bool, reason, start_step: int = 0):
        self._lifeline, self._is_chief = lifeline, is_chief
        self._asynchronous, self._reason = asynchronous, reason
        self._start_step = start_step
        self.why = None

    def start(self, step: int) -> None:
        """Training begins, or goes on, after this step.

        Raises:
            checkpoints.CannotRead: the checkpoint was not restored. Where TensorFlow may not read the file that
                names it, it starts from the beginning without a word.
        """
        if step < self._start_step and not self._asynchronous:
            raise checkpoints.CannotRead(
                errno.EIO, f'training would begin at step {step}', f'the checkpoint of step {self._start_step}')
        self._lifeline.step = step
        self._lifeline.enter(protocol.TRAINING)

    def stepped(self, step: int, loss: float) -> None:
        """A step has been finished. Raises NotFiniteError."""
        if not math.isfinite(loss):
            raise NotFiniteError(f'the loss is {loss} at step {step}')
        self._lifeline.stepped(step)

    def wishes(self) -> list:
        """This task's, of which there are WISHES."""
        signum = self._lifeline.signum
        reason = self._reason() if self._is_chief or self._asynchronous else None
        return [signum == number for number in _SIGNALS] + [reason == name for name in _REASONS]

    def obey(self, agreed) -> bool:
        """Whether the wishes of all tasks say to stop."""
        signals, reasons = agreed[:len(_SIGNALS)], agreed[len(_SIGNALS):]
        if any(signals):
            self._lifeline.obey(_SIGNALS[signals.index(True)])
        elif any(reasons):
            self.why = _REASONS[reasons.index(True)]
        return any(agreed)


class WatchedStepHook(StepWatch, tf.estimator.SessionRunHook):
    """A StepWatch for Estimator. Stops all synchronous tasks at the same step.

    A signal to any task, or a reason of the chief's, is agreed on by all (`Agreement`), at most about
    half a second later.
    """

    def begin(self):
        self._global_step = tf.compat.v1.train.get_global_step()
        self._loss = tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1]
        self._agreement = Agreement(self.WISHES, self._is_chief)

    def after_create_session(self, session, coord):
        self._step = int(session.run(self._global_step))
        self.start(self._step)
        if self._stops(session):  # before the first step: what ended the last run may still stand
            coord.request_stop()

    def before_run(self, run_context):
        step = [self._global_step] if self._asynchronous else []
        return tf.estimator.SessionRunArgs([self._loss, *step])

    def after_run(self, run_context, run_values):
        loss, *step = run_values.results
        self._step = int(step[0]) if step else self._step + 1
        self.stepped(self._step, loss)
        if self._agreement.due() and self._stops(run_context.session):
            run_context.request_stop()

    def end(self, session):
        self._lifeline.enter(lifelines.CLOSING)

    def _stops(self, session) -> bool:
        return self.obey(self._agreement.meet(session, self.wishes()))


class SavedListener(tf.estimator.CheckpointSaverListener):
    """Lets no weight that is not finite into a checkpoint, and tells the lifeline of each."""

    def __init__(self, lifeline):
        self._lifeline = lifeline

    def begin(self):
        self._finite = {
            variable.op.name: tf.reduce_all(tf.math.is_finite(variable))
            for variable in tf.compat.v1.trainable_variables() if variable.dtype.base_dtype.is_floating}

    def before_save(self, session, global_step_value):
        finite = session.run(self._finite)
        broken = sorted(name for name, yes in finite.items() if not np.all(yes))
        if broken:
            raise NotFiniteError(f'{broken[0]} is not finite at step {int(global_step_value)}')

    def after_save(self, session, global_step_value):
        self._lifeline.saved(int(global_step_value))


class EvaluatingHook(tf.estimator.SessionRunHook):
    """Tells the lifeline that the task evaluates: whatever was trained is saved."""

    def __init__(self, lifeline):
        self._lifeline = lifeline

    def begin(self):
        self._lifeline.enter(protocol.EVALUATING)
