"""What synchronous workers tell each other beside the numbers: where they are, and a few words."""

from estimator_trainer.compat.patches import coordination

UNBOUNDED_SECS = 7 * 24 * 3600  # where a flag says that there is no bound
_ASK_SECS = 10  # for an answer that is there already; Python stands still meanwhile


def wait_for_all(moment: str, timeout_secs: int) -> None:
    """Waits until every synchronous worker is at the same moment of the run.

    A worker that leaves early takes with it what the others' last all-reduce still wants of it, and
    looks like a lost one. This is TensorFlow's barrier: it fails at once when a task is lost.

    Raises:
        tf.errors.OpError: a worker was lost, or `timeout_secs` have passed.
    """
    coordination.wait_at_barrier(f'estimator_trainer/{moment}', timeout_secs * 1000)


def tell(what: str, text: str) -> None:
    """Tells every synchronous worker something, which `told` gives. Once for each `what`."""
    coordination.tell(f'estimator_trainer/{what}', text)


def told(what: str) -> str:
    """What a task has told before a moment at which all have been.

    Raises:
        tf.errors.OpError: it can no longer be asked for.
    """
    return coordination.told(f'estimator_trainer/{what}', _ASK_SECS * 1000)
