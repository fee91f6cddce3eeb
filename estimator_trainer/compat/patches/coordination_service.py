"""The barriers and the key-value store of TensorFlow's coordination service, which all tasks share.

Touches: Context.wait_at_barrier, set_config_key_value and get_config_key_value in tensorflow.python.eager.context
Without it: synchronous tasks cannot agree before the first step, and one that leaves early looks like a lost one
For: every program
"""

from tensorflow.python.eager import context


def wait_at_barrier(name: str, timeout_ms: int) -> None:
    """Waits until all tasks are at this barrier. Raises tf.errors.OpError."""
    context.context().wait_at_barrier(name, timeout_ms)


def tell(key: str, text: str) -> None:
    """Tells all tasks something, once for each key."""
    context.context().set_config_key_value(key, text)


def told(key: str, timeout_ms: int) -> str:
    """What a task has told. Raises tf.errors.OpError."""
    return context.context().get_config_key_value(key, timeout_ms)
