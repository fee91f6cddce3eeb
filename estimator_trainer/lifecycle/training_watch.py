"""Tells an evaluator how training goes, from the chief's training.json and the chief's port."""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping

from estimator_trainer.lifecycle import probes
from estimator_trainer.lifecycle.peers import AwakeClock
from estimator_trainer.lifecycle.probes import Answer
from estimator_trainer.run_dir import training_file


@dataclasses.dataclass(frozen=True)
class News:
    """How training goes.

    Attributes:
        state: one of training_file.STATES, LOST or ABSENT; None: the file is gone.
        secs: since the last sign of life.
        checkpoint_step: the step of the last checkpoint, if training has ended and the step is known.
    """

    state: str | None
    secs: float = 0.0
    checkpoint_step: int | None = None


LOST, ABSENT = 'lost', 'absent'  # the chief has been silent, or has not appeared, for too long


class TrainingWatch:
    """Reads training.json, and knows whether its writer lives.

    An earlier run may have left the file. So the watch believes a file only once it changes, if it has the generation
    of this gang, or if it says that training has reached `max_steps`. It believes any other file that says 'ended'
    once no chief has appeared for `join_secs`: then nobody trains any more.

    Args:
        max_steps: where training ends.
        join_secs: how long the chief may take to appear.
        lost_secs: how long the chief may be silent after that.
        generation: of the gang, '' without one.
        read: () -> the object in the file, {} if there is no file.
        greets: () -> whether the chief's server answers. While C code holds Python's global lock, the chief
            cannot write, but its server answers.
        stuck_secs: a chief that answers but writes nothing for this time is lost.
        clock: () -> seconds in which this process could run.
    """

    def __init__(
        self,
        max_steps: int,
        join_secs: float,
        lost_secs: float,
        generation: str,
        read: Callable[[], dict],
        greets: Callable[[], bool] = lambda: False,
        stuck_secs: float = math.inf,
        clock: Callable[[], float] | None = None,
    ):
        self._max_steps, self._generation, self._read = max_steps, generation, read
        self._join_secs, self._lost_secs = join_secs, lost_secs
        self._first = self._last = self._key(read())
        self._seen = False
        self._greets, self._stuck_secs = greets, stuck_secs
        self._clock = clock or AwakeClock()
        self._alive_at = self._wrote_at = self._clock()

    def look(self) -> News:
        """What is known now. The caller asks every second, unless it has something else to do."""
        training = self._read()
        now, key = self._clock(), self._key(training)
        if key != self._last:
            self._last, self._alive_at, self._wrote_at = key, now, now
        state = training.get('state')
        self._seen = (
            self._seen
            or key != self._first
            or (bool(self._generation) and training.get('generation') == self._generation)
        )
        secs = now - self._alive_at
        if state == training_file.ENDED:
            reached = (training.get('step') or 0) >= self._max_steps
            if self._seen or reached or secs >= self._join_secs:
                return News(training_file.ENDED, checkpoint_step=training.get('checkpoint_step'))
            return News(training_file.STARTING, secs)
        if not self._seen:
            return News(ABSENT if secs >= self._join_secs else training_file.STARTING, secs)
        if state == training_file.STOPPED:
            return News(training_file.STOPPED)
        if self._lost_secs / 2 <= secs and now - self._wrote_at < self._stuck_secs and self._greets():
            self._alive_at, secs = now, 0.0
        return News(LOST if secs >= self._lost_secs else state, secs)

    @property
    def seen(self) -> bool:
        """Whether the chief of this run has been seen."""
        return self._seen

    @staticmethod
    def _key(training: dict) -> tuple:
        return training.get('pid'), training.get('time'), training.get('beat')


def greeting_of(address: str | None, ways: Mapping[str, str] | None = None) -> Callable[[], bool]:
    """() -> whether the server at 'host:port' answers. Without an address it is always False. `ways`: as of Prober."""
    prober = probes.Prober(may_move=True, ways=ways)
    return lambda: prober([address])[address] is Answer.GREETS if address else False


class FolderWatch:
    """Knows whether the chief lives, but writes into another folder.

    The chief writes training.json before it opens its port. If its port answers and the file still does not appear,
    after longer than any file system lags, then the chief does not share this folder.

    Args:
        seen: () -> whether the chief has written into this folder.
        answers: () -> whether the chief's port answers; False if the chief has no port.
        secs: how long the port must have answered.
    """

    def __init__(self, seen: Callable[[], bool], answers: Callable[[], bool], secs: float):
        self._seen, self._answers, self._secs = seen, answers, secs
        self._since: float | None = None

    def is_elsewhere(self, clock: Callable[[], float] = time.monotonic) -> bool:
        if self._seen() or not self._answers():
            self._since = None
            return False
        now = clock()
        self._since = now if self._since is None else self._since
        return now - self._since >= self._secs
