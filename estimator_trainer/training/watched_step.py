"""What every training task looks at in every step: is the loss a number, should we stop?"""

import errno
import math
import signal
import time

import numpy as np
import tensorflow as tf

from estimator_trainer.compat import agreement
from estimator_trainer.compat.patches import sync_training
from estimator_trainer.lifecycle import lifeline as lifelines
from estimator_trainer.run_dir import checkpoint_errors

EARLY_STOPPING = 'early_stopping'
MAX_SECS = 'max_secs'
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_REASONS = (EARLY_STOPPING, MAX_SECS)
_ASK_SECS = 0.5  # between two looks for a reason, which reads a file


class NotFiniteError(ArithmeticError):
    """The loss or a weight is NaN or infinite. Its text says what and at which step."""


class StepWatch:
    """Tells the lifeline of each step, and knows what all synchronous tasks wish to do after it.

    Args:
        lifeline: lifecycle.lifeline.Lifeline.
        is_chief: of the tasks exactly one.
        asynchronous: other tasks move the global step as well.
        reason: () -> EARLY_STOPPING, MAX_SECS or None; the chief is asked, or every asynchronous
            task, about twice a second.
        start_step: of the checkpoint that training goes on from.
        profiler: profiles.profiler.Profiler; is told of each call.
        after_call: called after each call, when its steps are known.

    Attributes:
        why: the reason that stopped training, None if none did.
    """

    WISHES = len(_SIGNALS) + len(_REASONS)

    def __init__(
        self, lifeline, is_chief: bool, asynchronous: bool, reason, start_step=0, profiler=None, after_call=lambda: None
    ):
        self._lifeline, self._is_chief = lifeline, is_chief
        self.asynchronous, self._reason = asynchronous, reason
        self._start_step = start_step
        self._profiler, self._after_call = profiler, after_call
        self._asked = self._asked_at = None
        self.why = None

    def start(self, step: int) -> None:
        """Training begins, or goes on, after this step.

        Raises:
            checkpoint_errors.CannotRead: the checkpoint was not restored. Where TensorFlow may not read the file that
                names it, it starts from the beginning without a word.
        """
        if step < self._start_step and not self.asynchronous:
            raise checkpoint_errors.CannotRead(
                errno.EIO, f'training would begin at step {step}', f'the checkpoint of step {self._start_step}'
            )
        self._lifeline.trains_from(step)
        if self._profiler:
            self._profiler.start(step)

    def stepped(self, step: int, losses) -> None:
        """Some steps have been finished, the last of them `step`. Raises NotFiniteError."""
        for number, loss in enumerate(losses, step - len(losses) + 1):
            if not math.isfinite(loss):
                raise NotFiniteError(f'the loss is {loss} at step {number}')
        self._lifeline.stepped(step)
        if self._profiler:
            self._profiler.stepped(step, len(losses))
        self._after_call()

    def begins_call(self) -> None:
        """A call of TensorFlow begins, which takes some steps."""
        if self._profiler:
            self._profiler.begins_call()

    def border_of_profile(self, step: int, alone: bool) -> int | None:
        """The step after `step` at which a call has to end for a profile, or None.

        Args:
            alone: whether this task may end its calls where other tasks do not.
        """
        return self._profiler.border(step, alone) if self._profiler else None

    def wishes(self) -> list:
        """This task's, of which there are WISHES."""
        signum = self._lifeline.signum
        now = time.monotonic()
        if (self._is_chief or self.asynchronous) and (self._asked_at is None or now - self._asked_at >= _ASK_SECS):
            self._asked, self._asked_at = self._reason(), now
        return [signum == number for number in _SIGNALS] + [self._asked == name for name in _REASONS]

    def obey(self, agreed) -> bool:
        """Whether the wishes of all tasks say to stop."""
        signals, reasons = agreed[: len(_SIGNALS)], agreed[len(_SIGNALS) :]
        if any(signals):
            self._lifeline.obey(_SIGNALS[signals.index(True)])
        elif any(reasons):
            self.why = _REASONS[reasons.index(True)]
        return any(agreed)

    def finish(self) -> None:
        """Training is over, and the last step is saved or about to be."""
        if self._profiler:
            self._profiler.finish()
        self._lifeline.enter(lifelines.CLOSING)


def losses_of_call():
    """What to fetch for the loss of each step of a session's call: its value has one number for each step.

    Estimator adds the loss that it reports last.
    """
    losses = tf.compat.v1.get_collection(sync_training.LOSSES_OF_CALL)
    return losses[0] if losses else tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.LOSSES)[-1:]


class WatchedStepHook(tf.estimator.SessionRunHook):
    """Brings a StepWatch into Estimator. Stops all synchronous tasks at the same step.

    A signal to any task, or a reason of the chief's, is obeyed by all after the next step.
    """

    def __init__(self, watch: StepWatch):
        self._watch = watch

    def begin(self):
        self._global_step = tf.compat.v1.train.get_global_step()
        self._losses = losses_of_call()
        self._voice = agreement.join(self._watch.wishes, self._watch.WISHES)

    def after_create_session(self, session, coord):
        self._step = int(session.run(self._global_step))
        self._watch.start(self._step)
        # Before the first step: what ended the last run may still stand.
        if self._watch.obey(self._voice.meet(session, self._watch.wishes())):
            coord.request_stop()

    def before_run(self, run_context):
        self._watch.begins_call()
        step = [self._global_step] if self._watch.asynchronous else []
        fetches, feeds = self._voice.before_run()
        return tf.estimator.SessionRunArgs([self._losses, fetches, *step], feeds)

    def after_run(self, run_context, run_values):
        losses, fetched, *step = run_values.results
        self._step = int(step[0]) if step else self._step + len(losses)
        self._watch.stepped(self._step, losses)
        if self._watch.obey(self._voice.after_run(fetched)):
            run_context.request_stop()

    def end(self, session):
        self._watch.finish()


class SavedListener(tf.estimator.CheckpointSaverListener):
    """Lets no weight that is not finite into a checkpoint, and tells the lifeline of each."""

    def __init__(self, lifeline):
        self._lifeline = lifeline

    def begin(self):
        self._finite = {
            variable.op.name: tf.reduce_all(tf.math.is_finite(variable))
            for variable in tf.compat.v1.trainable_variables()
            if variable.dtype.base_dtype.is_floating
        }

    def before_save(self, session, global_step_value):
        finite = session.run(self._finite)
        broken = sorted(name for name, yes in finite.items() if not np.all(yes))
        if broken:
            raise NotFiniteError(f'{broken[0]} is not finite at step {int(global_step_value)}')

    def after_save(self, session, global_step_value):
        self._lifeline.saved(int(global_step_value))
