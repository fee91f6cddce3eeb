"""Barriers of the synchronous workers, and short texts that they send each other."""

from estimator_trainer.compat.patches import coordination_service

UNBOUNDED_SECS = 7 * 24 * 3600  # where a flag says that there is no bound
_ASK_SECS = 10  # for an answer that is there already; Python stands still meanwhile


def wait_for_all(moment: str, timeout_secs: int) -> None:
    """Waits until every synchronous worker is at the same moment of the run.

    If a worker leaves early, the others' last all-reduce fails, and they report it as lost. This is TensorFlow's
    barrier: it fails at once if a task is lost.

    Raises:
        tf.errors.OpError: a worker was lost, or `timeout_secs` have passed.
    """
    coordination_service.wait_at_barrier(f'estimator_trainer/{moment}', timeout_secs * 1000)


def tell(what: str, text: str) -> None:
    """Tells every synchronous worker something, which `hear` gives. Once for each `what`."""
    coordination_service.send_text(f'estimator_trainer/{what}', text)


def hear(what: str) -> str:
    """What a task has told before a moment at which all have been.

    Raises:
        tf.errors.OpError: it can no longer be asked for.
    """
    return coordination_service.received_text(f'estimator_trainer/{what}', _ASK_SECS * 1000)
