"""How training goes, as an evaluator sees it: in the chief's training.json."""

import dataclasses
import time
from typing import Optional

from estimator_trainer import protocol


@dataclasses.dataclass(frozen=True)
class News:
    """`state`: of protocol.STATES, or 'lost' or 'absent'; `secs` since the last sign of life."""
    state: str
    secs: float = 0.0


LOST, ABSENT = 'lost', 'absent'


class TrainingWatch:
    """Reads training.json, and knows whether its writer lives.

    A file that was there before may be of an earlier run. It is believed once it changes, if it is of
    this generation, or if it says that training has reached `max_steps`. What says 'ended' otherwise
    is believed when nobody has come for `join_secs`: no more is trained.

    Args:
        max_steps: where training ends.
        join_secs: how long the chief may take to appear.
        lost_secs: how long it may be silent after that.
        generation: of the gang, '' without.
        read: () -> the file's object, {} without.
    """

    def __init__(self, max_steps: int, join_secs: float, lost_secs: float, generation: str, read,
                 now: Optional[float] = None):
        self._max_steps, self._generation, self._read = max_steps, generation, read
        self._join_secs, self._lost_secs = join_secs, lost_secs
        self._first = self._last = self._key(read())
        self._seen = False
        self._alive_at = time.monotonic() if now is None else now

    def look(self, clock=time.monotonic) -> News:
        """What is known now."""
        training = self._read()
        now, key = clock(), self._key(training)
        if key != self._last:
            self._last, self._alive_at = key, now
        state = training.get('state')
        self._seen = self._seen or key != self._first or (
            bool(self._generation) and training.get('generation') == self._generation)
        secs = now - self._alive_at
        if state == protocol.ENDED:
            reached = (training.get('step') or 0) >= self._max_steps
            if self._seen or reached or secs >= self._join_secs:
                return News(protocol.ENDED)
            return News(protocol.STARTING, secs)
        if not self._seen:
            return News(ABSENT if secs >= self._join_secs else protocol.STARTING, secs)
        if state == protocol.STOPPED:
            return News(protocol.STOPPED)
        return News(LOST if secs >= self._lost_secs else state, secs)

    @property
    def seen(self) -> bool:
        """Whether the chief of this run has been seen."""
        return self._seen

    @staticmethod
    def _key(training):
        return training.get('pid'), training.get('time'), training.get('beat')


class FolderWatch:
    """Knows whether the chief lives and writes into another folder.

    The chief writes training.json before it opens its port. Where its port answers for so long that no file
    system lags, and the file is not there, the folder is not shared with it.

    Args:
        seen: () -> whether the chief has been seen in the folder.
        answers: () -> whether its port answers; False where it has none.
        secs: for how long it must have answered.
    """

    def __init__(self, seen, answers, secs: float):
        self._seen, self._answers, self._secs = seen, answers, secs
        self._since = None

    def is_elsewhere(self, clock=time.monotonic) -> bool:
        if self._seen() or not self._answers():
            self._since = None
            return False
        now = clock()
        self._since = now if self._since is None else self._since
        return now - self._since >= self._secs
