"""How long a call of several steps takes, and its end where that is too long."""

import threading
import time

import tensorflow as tf

from estimator_trainer.training.dues import LONGEST_CALL_SECS


class CallTimer:
    """Ends a call of this process after the step in which it has taken too long: steps may become slower at any time,
    and a signal is obeyed after the call.

    A thread sets a variable, at which the loop looks after each step.

    Args:
        loss: of a step.

    Attributes:
        reached: a tensor of the step.
    """

    def __init__(self, loss: tf.Tensor):
        with tf.device('/cpu:0'):
            handle = tf.raw_ops.VarHandleOp(dtype=tf.bool, shape=[], shared_name='end_of_call')
            self._set = tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(True))
            self._clear = tf.raw_ops.AssignVariableOp(resource=handle, value=tf.constant(False))
        with tf.device('/cpu:0'), tf.control_dependencies([loss]):
            self.reached = tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.bool)
        self._began: float | None = None
        self._over = threading.Event()

    def start(self, session: tf.compat.v1.Session) -> None:
        session.run(self._clear)
        threading.Thread(target=self._watch, args=(session,), name='end_of_call', daemon=True).start()

    def _watch(self, session: tf.compat.v1.Session) -> None:
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

    def ended(self, session: tf.compat.v1.Session, early: bool) -> None:
        self._began = None
        if early:
            session.run(self._clear)

    def stop(self) -> None:
        self._over.set()
