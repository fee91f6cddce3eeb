"""The barriers and the key-value store of TensorFlow's coordination service, which all tasks share.

Touches: Context.wait_at_barrier, set_config_key_value and get_config_key_value in tensorflow.python.eager.context
Without it: synchronous tasks cannot agree before the first step, and one that leaves early looks like a lost one
For: every program
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

from estimator_trainer.compat import lacks

_PUT_OFF_SECS = 7 * 24 * 3600


def wait_at_barrier(name: str, timeout_ms: int) -> None:
    """Waits until all tasks are at this barrier. Raises tf.errors.OpError."""
    _context().wait_at_barrier(name, timeout_ms)


def send_text(key: str, text: str) -> None:
    """Tells all tasks something, once for each key."""
    _context().set_config_key_value(key, text)


def received_text(key: str, timeout_ms: int) -> str:
    """What a task has told. Raises tf.errors.OpError."""
    return _context().get_config_key_value(key, timeout_ms)


def _context() -> Any:
    from tensorflow.python.eager import context

    return context.context()


@contextlib.contextmanager
def heartbeats_put_off() -> Iterator[None]:
    """A multi-worker strategy that is made meanwhile does without the service's heartbeats.

    Touches: Context.configure_coordination_service in tensorflow.python.eager.context
    Without it: a task that was suspended for 10 s is lost for TensorFlow, and the gang has to restart
    For: the trainer

    The service gives a task up that has missed its heartbeats for 10 s. Then no collective operation of the gang works
    any more, also if all tasks were stopped, or suspended with their allocation, and go on. The watchdog watches the
    same tasks, and knows --lost_peer_secs and its own pauses.
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
