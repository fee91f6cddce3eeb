"""How many steps each call of a training session takes, while it trains.

A call ends where something is due, where it has taken too long, and after a step that has not moved the global step by
1; from then on each call takes one step.
"""

import logging
import threading
import time

import tensorflow as tf

from estimator_trainer.training.dues import every

_log = logging.getLogger('estimator_trainer')
_CALL_SECS = 0.2  # that a call should take: a signal or another task is heard after it
MOST_STEPS = 1000
LONGEST_CALL_SECS = 0.5  # after which a call ends early: steps may become slower at any time
_MOST_IN_STEP = 10  # of several workers, whose calls end together: ten slow steps have to fit into the grace period


class Calls:
    """The calls of a session. `session_hook.SessionHook` asks.

    Args:
        setup: trainer.Setup.
        steps: step_loop.StepLoop.
        timer: CallTimer; None: this task's calls end where those of the others do.

    Attributes:
        planned, done: steps of the last call: requested, taken.
    """

    def __init__(self, setup, steps, timer):
        self._plan, self._loop, self._steps, self._timer = setup.plan, setup.loop, steps, timer
        config = setup.plan.config
        self._summary_steps = config.save_summary_steps or None
        longest = MOST_STEPS if timer else _MOST_IN_STEP
        self._lengths = CallLengths(config.most_steps_per_call, self._next_due, longest)
        self.losses = steps.losses

    @property
    def step(self) -> int:
        """The last one."""
        return self._loop.step

    def start(self, session) -> None:
        """Training begins."""
        self._session, self._first = session, self.step
        self.planned, self._next, self._left = 1, 1, 0
        self._one_step = False  # a step has moved the global step by another number than 1
        if self._timer:
            self._timer.start(session)

    def begin(self) -> dict:
        """A call begins. What it is fed."""
        self.planned = self._left or self._next
        if self._timer:
            self.planned = min(self.planned, self._next_due(self.step) - self.step)  # a profile may have been asked for
            self._timer.begin()
        self._lengths.begin()
        return {self._steps.most: self.planned, self._steps.first: self.step}

    def next_length(self) -> int:
        """What all tasks do in the next call, if this one takes all its steps. The chief says it."""
        if not self._plan.is_chief:
            return 0
        return 1 if self._one_step else self._lengths.of_call_after(self.step + self.planned)

    def took(self, steps: int, step: int) -> None:
        """The call has ended. `step` is the global step now."""
        self.done, self._left = steps, self.planned - steps
        self._lengths.took(steps)
        if step != self.step + steps and not self._one_step:
            self._one_step = True
            if self._plan.is_chief:
                moved = step - self.step - steps + 1
                _log.info('one step a call: the train_op has moved the global step by %d, and not by 1', moved)
        if self._timer:
            self._timer.ended(self._session, early=self._left > 0)

    def plan_next(self, participant) -> None:
        """What was due after the call is done. The last number of `participant` is `next_length`."""
        if self._one_step:  # in all tasks at once: they move the global step alike
            self._next, self._left = 1, 0
        elif self._timer:
            self._next, self._left = self._lengths.of_call_after(self.step), 0
        else:
            self._next = max(1, participant.numbers()[-1])

    def stop(self) -> None:
        """Training is over."""
        if self._timer:
            self._timer.stop()

    def _next_due(self, step: int) -> int:
        return self._loop.next_due(step, alone=True)  # in several tasks the chief asks, and tells the others

    def next_summary(self, step: int) -> int | None:
        """The next step after `step` of which a summary is written; None: of none."""
        return every(self._first + 1, self._summary_steps)(step)  # upstream's hook writes those of the first step


class CallLengths:
    """Lengths of calls. A call ends where something is due, and takes about 0.2 s or the given number of steps.

    Args:
        steps: of a call, at most; None: as many as take 0.2 s.
        next_due: (step) -> the next step after it after which a call has to end.
        longest: steps of a call at most where `steps` is None.
        clock: seconds, monotonic.
    """

    def __init__(self, steps: int | None, next_due, longest: int = MOST_STEPS, clock=time.monotonic):
        self._steps, self._next_due, self._longest, self._clock = steps, next_due, longest, clock
        self._length = steps or 1
        self._began: float | None = None

    def of_call_after(self, step: int) -> int:
        """The steps of the call that begins after `step`: at least 1."""
        return max(1, min(self._next_due(step) - step, self._length))

    def begin(self) -> None:
        """A call begins."""
        self._began = self._clock()

    def took(self, steps: int) -> None:
        """The call that has begun took `steps` steps."""
        if self._steps is not None or self._began is None:
            return
        fit = int(_CALL_SECS / max((self._clock() - self._began) / max(1, steps), 1e-9))
        self._length = max(1, min(2 * self._length, fit, self._longest))


class CallTimer:
    """Ends a call of this process after the step in which it has taken too long: steps may become slower at any time,
    and a signal is obeyed after the call.

    A thread sets a variable, at which the loop looks after each step.

    Args:
        loss: of a step.

    Attributes:
        reached: a tensor of the step.
    """

    def __init__(self, loss):
        with tf.device('/cpu:0'):
            handle = tf.raw_ops.VarHandleOp(dtype=tf.bool, shape=[], shared_name='end_of_call')
            self._set = tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(True))
            self._clear = tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(False))
        with tf.device('/cpu:0'), tf.control_dependencies([loss]):
            self.reached = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.bool)
        self._began = None
        self._over = threading.Event()

    def start(self, session) -> None:
        session.run(self._clear)
        threading.Thread(target=self._watch, args=(session,), name='end_of_call', daemon=True).start()

    def _watch(self, session) -> None:
        ended = None  # the beginning of the call that was ended last
        while not self._over.wait(LONGEST_CALL_SECS / 2):
            began = self._began
            if began is None or began == ended or time.monotonic() - began < LONGEST_CALL_SECS:
                continue
            try:
                session.run(self._set)
            except (tf.errors.OpError, RuntimeError):  # the session is closed
                return
            ended = began

    def begin(self) -> None:
        """A call begins."""
        self._began = time.monotonic()

    def ended(self, session, early: bool) -> None:
        self._began = None
        if early:
            session.run(self._clear)

    def stop(self) -> None:
        self._over.set()
