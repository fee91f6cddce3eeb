"""The exit code of a run in a store, and how --grace_secs is divided between saving and sending. Pure."""

from estimator_trainer import exit_codes
from estimator_trainer.storage.sender import RunEnd


def child_grace_secs(grace_secs: int) -> int:
    """Of --grace_secs, what the trainer gets to save. The rest is for sending."""
    return max(1, grace_secs * 3 // 5)


def exit_code(trainer: int, all_sent: bool, verdict: RunEnd | None, starved: RunEnd | None = None) -> int:
    """Of the whole, from the trainer's own.

    Args:
        verdict: of what sends.
        starved: of what fetches while the run lives.
    """
    if verdict and verdict.code == exit_codes.MODEL_DIR_TAKEN:
        return verdict.code
    permanent = trainer != exit_codes.OK and not exit_codes.retryable(trainer)
    if all_sent and starved and exit_codes.was_stopped(trainer):
        return starved.code
    if all_sent or permanent:
        return trainer
    return verdict.code if verdict else exit_codes.NOT_SENT
