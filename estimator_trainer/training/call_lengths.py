"""How many steps the next call of a training session takes."""

import time

_CALL_SECS = 0.2  # that a call should take: a signal or another task is heard after it
MOST_STEPS = 1000
LONGEST_CALL_SECS = 0.5  # after which a call ends early: steps may become slower at any time


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
        self._wanted = steps or 1
        self._began: float | None = None

    def of_call_after(self, step: int) -> int:
        """The steps of the call that begins after `step`: at least 1."""
        return max(1, min(self._next_due(step) - step, self._wanted))

    def begin(self) -> None:
        """A call begins."""
        self._began = self._clock()

    def took(self, steps: int) -> None:
        """The call that has begun took `steps` steps."""
        if self._steps is not None or self._began is None:
            return
        fit = int(_CALL_SECS / max((self._clock() - self._began) / max(1, steps), 1e-9))
        self._wanted = max(1, min(2 * self._wanted, fit, self._longest))
