"""How training goes, from the chief's training.json."""

import collections

from estimator_trainer.run_dir import training_file
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.run_dir.training_file import TrainingStatus

LOOK_SECS = 1  # between two looks at the file
_PACE_SECS = 60  # over which the speed is measured


class StallClock:
    """Since when nothing has moved. Pure: told the time.

    It runs while the gang starts and trains; data that are being prepared move. Evaluating takes as long as it
    takes. A gap between two
    looks that is longer than MOST_SECS is a pause of this process (it was stopped, or suspended with its
    machine, and the tasks may have been as well): of that no more than MOST_SECS count.
    """

    MOST_SECS = 10 * LOOK_SECS

    def __init__(self, now: float):
        self._still, self._looked_at = 0.0, now
        self._seen: tuple[str, int | None, int | None] | None = None

    def still_secs(self, training: TrainingStatus | None, now: float) -> float:
        """For how long `training` has been what it is now."""
        self._still += min(now - self._looked_at, self.MOST_SECS)
        self._looked_at = now
        at = (training.state, training.step, training.prepared) if training else None
        runs = training is None or training.state in (training_file.STARTING, training_file.TRAINING)
        if at != self._seen or not runs:
            self._seen, self._still = at, 0.0
        return self._still


class StepPace:
    """When training will be done, by the steps of the last minute. Pure: told the time.

    The first steps do not count: they wait for graphs to be built and for the input to fill its buffers.
    """

    def __init__(self):
        self._start: int | None = None
        self._seen: collections.deque[tuple[float, int]] = collections.deque()

    def secs_left(self, training: TrainingStatus | None, now: float) -> float | None:
        """None: nobody knows."""
        if training is None or training.step is None or training.state != training_file.TRAINING:
            self._seen.clear()
            self._start = None
            return None
        self._start = training.step if self._start is None else self._start
        if training.step == self._start:
            return None
        if not self._seen or self._seen[-1][1] != training.step:
            self._seen.append((now, training.step))
        while len(self._seen) > 2 and now - self._seen[0][0] > _PACE_SECS:
            self._seen.popleft()
        (began, first), (_, last) = self._seen[0], self._seen[-1]
        if training.max_steps is None or last <= first or now <= began:
            return None
        return max(0, training.max_steps - last) * (now - began) / (last - first)


class TrainingFollower:
    """Looks at the file of one gang, again and again.

    Args:
      model_dir: a folder of this machine; None: there is nothing to see.
      generation: of the gang. What another one wrote is not there.
      stall_secs: after so many seconds without a step the gang is stalled; 0: it never is.
      now: of the clock that `look` is given.
    """

    def __init__(self, model_dir: str | None, generation: str, stall_secs: float, now: float):
        self._model_dir, self._generation, self._stall_secs = model_dir, generation, stall_secs
        self._next = None if model_dir is None else now
        self._clock, self._pace = StallClock(now), StepPace()
        self.training: TrainingStatus | None = None
        self.secs_left: float | None = None
        self.stalled = False

    @property
    def next_look(self) -> float | None:
        return self._next

    def look(self, now: float) -> bool:
        """Reads the file, if it is time. Whether it was."""
        if self._next is None or now < self._next:
            return False
        self._next = now + LOOK_SECS
        self.look_now()
        self.secs_left = self._pace.secs_left(self.training, now)
        still_secs = self._clock.still_secs(self.training, now)
        self.stalled = 0 < self._stall_secs <= still_secs
        return True

    def look_now(self) -> None:
        found = RunFolder(self._model_dir).training_status if self._model_dir is not None else None
        if found and found.generation == self._generation:
            self.training = found
