"""How --grace_secs is divided, how long checkpoints take to send, and whether that is short enough. Pure."""

import math
from typing import NamedTuple

_MEASURED_BYTES = 1 << 20  # less says more of latency than of speed


class SentCheckpoint(NamedTuple):
    """A checkpoint that was sent: from the look at its files to the `checkpoint` file that names it."""

    checkpoint: str
    size: int
    secs: float


class SendSpeed:
    """What to say of it: at the first checkpoint, and when one takes too long.

    Args:
        grace_secs: --grace_secs.
        to_save: those of them that the trainer has.
    """

    def __init__(self, grace_secs: int, to_save: int):
        self._grace, self._to_send = grace_secs, max(1, grace_secs - to_save)
        self._said: SentCheckpoint | None = None
        self._warned_secs = 0.0

    def of(self, sent: SentCheckpoint) -> tuple[str | None, bool]:
        """The line that is due, and whether it is a warning."""
        first, self._said = self._said is None, sent
        what = f'{sent.checkpoint} was sent in {sent.secs:.1f} s ({sent.size / 1e6:.1f} MB)'
        if sent.secs > max(self._to_send, 2 * self._warned_secs):
            self._warned_secs = sent.secs
            needed = math.ceil(self._grace * sent.secs / self._to_send)
            return (
                f'{what}. SIGTERM leaves {self._to_send} s for that: the last checkpoint may stay on this machine, '
                f'with exit code 201. --grace_secs={needed} would be enough.',
                True,
            )
        return (f'{what}; SIGTERM leaves at least {self._to_send} s for that', False) if first else (None, False)


def child_grace_secs(grace_secs: int) -> int:
    """Of --grace_secs, what the trainer gets to save. The rest is for sending."""
    return max(1, grace_secs * 3 // 5)


def expectation(grace_secs: int, to_save: int, size: int, secs: float) -> str:
    """What SIGTERM can send, by the speed at which so many bytes were fetched."""
    to_send = grace_secs - to_save
    text = f'after SIGTERM {to_save} s to save and {to_send} s to send'
    if size < _MEASURED_BYTES or secs <= 0:
        return text
    return f'{text}, about {size / secs * to_send / 1e6:,.0f} MB at the speed of the fetch'
