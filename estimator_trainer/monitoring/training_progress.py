"""How the training of a gang goes, by the training.json of its chief: whether it stalls, and how long it will take."""

import collections

from estimator_trainer.run_dir import training_file
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.run_dir.training_file import TrainingStatus
from estimator_trainer.this_process.hung_files import BoundedFiles

LOOK_SECS = 1  # between two looks at the file
_RATE_SECS = 60  # over which the speed is measured


class StallClock:
    """For how long no step was finished. Pure: the caller passes the time.

    The clock runs while the gang starts and trains, unless data are being prepared. It does not run during an
    evaluation. If two looks are more than MOST_SECS apart, this process was stopped, or suspended with its machine, and
    perhaps its tasks as well. Then MOST_SECS are counted.
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


class StepRate:
    """How long training will go on, by the steps of the last minute. Pure: the caller passes the time.

    The first steps do not count: they wait for graphs to be built and for the input to fill its buffers.
    """

    def __init__(self) -> None:
        self._start: int | None = None
        self._seen: collections.deque[tuple[float, int]] = collections.deque()

    def secs_left(self, training: TrainingStatus | None, now: float) -> float | None:
        """None: that is not known."""
        if training is None or training.step is None or training.state != training_file.TRAINING:
            self._seen.clear()
            self._start = None
            return None
        self._start = training.step if self._start is None else self._start
        if training.step == self._start:
            return None
        if not self._seen or self._seen[-1][1] != training.step:
            self._seen.append((now, training.step))
        while len(self._seen) > 2 and now - self._seen[0][0] > _RATE_SECS:
            self._seen.popleft()
        (began, first), (_, last) = self._seen[0], self._seen[-1]
        if training.max_steps is None or last <= first or now <= began:
            return None
        return max(0, training.max_steps - last) * (now - began) / (last - first)


class TrainingFollower:
    """Looks at the file of one gang, again and again.

    Args:
      model_dir: a folder of this machine; None: there is none.
      generation: of the gang. A file of another generation is ignored.
      stall_secs: after so many seconds without a step the gang is stalled; 0: it never is.
      now: by the clock whose time `look` gets.
      files: with which the file is read; None: whoever looks waits for a file system that hangs.

    Attributes:
      training: what the file of this gang has said last.
      secs_left: of training; None: that is not known.
      stalled: whether no step was finished for `stall_secs`.
      next_look: when `look` is due; None: never.
    """

    def __init__(
        self, model_dir: str | None, generation: str, stall_secs: float, now: float, files: BoundedFiles | None = None
    ):
        self._model_dir, self._generation, self._stall_secs, self._files = model_dir, generation, stall_secs, files
        self.next_look = None if model_dir is None else now
        self._clock, self._rate = StallClock(now), StepRate()
        self.training: TrainingStatus | None = None
        self.secs_left: float | None = None
        self.stalled = False

    def look(self, now: float) -> bool:
        """Reads the file if a look is due. Returns whether it was."""
        if self.next_look is None or now < self.next_look:
            return False
        self.next_look = now + LOOK_SECS
        self.look_now()
        if self._files and self._files.hang:  # nothing is known of its steps meanwhile
            return True
        self.secs_left = self._rate.secs_left(self.training, now)
        still_secs = self._clock.still_secs(self.training, now)
        self.stalled = 0 < self._stall_secs <= still_secs
        return True

    def look_now(self) -> None:
        if self._model_dir is None:
            return
        folder = RunFolder(self._model_dir)
        training = self._files.call(lambda: folder.training_status, None) if self._files else folder.training_status
        if training and training.generation == self._generation:
            self.training = training
