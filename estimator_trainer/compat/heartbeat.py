"""How long TensorFlow's own coordination service lets a task be silent."""

import contextlib
import functools

from tensorflow.python.eager import context


@contextlib.contextmanager
def patient(lost_secs: float):
    """A multi-worker strategy that is made meanwhile bears tasks that are silent for `lost_secs`.

    TensorFlow's default is 10 s, after which no collective operation works any more. A task sends a
    heartbeat every half of the bound, and gives up when the answer takes longer than that; so the bound is
    twice what a task may be silent for. Whoever is silent for longer is found by the lifeline.
    """
    now = context.context()
    configure = now.configure_coordination_service
    now.configure_coordination_service = functools.partial(
        configure, heartbeat_timeout_in_ms=int(2000 * lost_secs))
    try:
        yield
    finally:
        del now.configure_coordination_service
