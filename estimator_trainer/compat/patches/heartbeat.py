"""Puts off the heartbeats of TensorFlow's coordination service, which would give a task up after 10 s.

Touches: Context.configure_coordination_service in tensorflow.python.eager.context
Without it: a task that was suspended for 10 s is lost for TensorFlow, and the gang has to restart
For: the trainer
"""

import contextlib
import functools

from estimator_trainer.compat import lacks

_PUT_OFF_SECS = 7 * 24 * 3600


@contextlib.contextmanager
def put_off():
    """A multi-worker strategy that is made meanwhile does without TensorFlow's heartbeats.

    When a task has missed them, no collective operation of the gang works any more, also if all tasks were
    stopped, or suspended with their allocation, and go on. The watchdog watches the same tasks, and knows
    --lost_peer_secs and its own pauses.
    """
    changed = []
    with lacks.or_without():
        from tensorflow.python.eager import context

        now = context.context()
        configure = now.configure_coordination_service
        now.configure_coordination_service = functools.partial(configure, heartbeat_timeout_in_ms=_PUT_OFF_SECS * 1000)
        changed.append(now)
    try:
        yield
    finally:
        for now in changed:
            del now.configure_coordination_service
