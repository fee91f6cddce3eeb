"""When to try a tracker again that does not answer, and when to say so. Pure."""

import dataclasses

_FIRST_SECS, _LONGEST_SECS = 5, 300  # between two tries
_SAY_AGAIN_TIMES = 10  # as long as it had lasted at the last word, and at least:
_SAY_AGAIN_SECS = 60


@dataclasses.dataclass
class Outage:
    """The tries of one sender, as it tells them."""

    _since: float | None = None
    _tries: int = 0
    _say_at: float = 0.0

    def failed(self, now: float) -> bool:
        """A try has failed. Whether to say so: at once, and whenever the outage has lasted ten times longer."""
        if self._since is None:
            self._since, self._tries, self._say_at = now, 0, now
        self._tries += 1
        if now < self._say_at:
            return False
        self._say_at = self._since + max(_SAY_AGAIN_SECS, _SAY_AGAIN_TIMES * (now - self._since))
        return True

    def over(self, now: float) -> float | None:
        """A try has succeeded. For how many seconds none had; None if the one before had, too."""
        since, self._since = self._since, None
        return None if since is None else now - since

    @property
    def pause(self) -> float:
        """Seconds until the next try."""
        return min(_LONGEST_SECS, _FIRST_SECS * 2 ** min(self._tries - 1, 10))
