"""What a case is, what it shows, and how both are judged."""

import dataclasses
import fcntl
import pathlib
import shutil
from collections.abc import Callable

from tests.chaos import faults, files
from tests.chaos.stage import MAX_STEPS, Stage

COLUMNS = ('fault', 'moment', 'what happened', 'detected', 'resumed', 'lost', 'equal')
EVERY_STEP = ('--save_checkpoints_steps=1', '--keep_checkpoints=0', '--export=none')
_WIDTHS = (26, 19, 56, 8, 8, 4, 5)


@dataclasses.dataclass
class Row:
    """What a case has shown.

    Attributes:
        happened: codes and restarts, in the order of time.
        detected, resumed: seconds from the fault to the first task that ended of it, and to the first
            step (of an evaluator, the first batch) after it.
        lost: steps that had to be done again.
        equal: whether every checkpoint is that of the undisturbed run; None: there is no such run.
        said: the last line of each task that is worth showing.
        problems: what is not as it must be.
    """

    fault: str = ''
    moment: str = ''
    happened: str = ''
    detected: float | None = None
    resumed: float | None = None
    lost: int | None = None
    equal: bool | None = None
    said: list = dataclasses.field(default_factory=list)
    problems: list = dataclasses.field(default_factory=list)

    def line(self) -> str:
        secs = (f'{value:.1f} s' if value is not None else '' for value in (self.detected, self.resumed))
        lost = '' if self.lost is None else str(self.lost)
        equal = {None: '', True: 'yes', False: 'NO'}[self.equal]
        cells = (self.fault, self.moment, self.happened, *secs, lost, equal)
        more = [*(f'| {line}' for line in self.said), *(f'FAILED: {_tail(text)}' for text in self.problems)]
        return '\n    '.join([table_line(cells), *more])

    def expect(self, true, otherwise: str) -> None:
        if not true:
            self.problems.append(otherwise)

    def judge(self, stage, undisturbed=None, finished: bool = True, last_step: int = MAX_STEPS, besides=()) -> None:
        """Looks at what a case has left.

        Args:
            undisturbed: the model_dir to compare with.
            finished: training has reached `last_step`; 0: whichever.
            besides: steps whose checkpoints are not compared.
        """
        self.expect(stage.is_empty(), f'left running: {stage.running()}')
        self.problems += files.partial(stage.model_dir)
        if finished:
            self.said += [f'left over: {name}' for name in files.halves(stage.model_dir)]
        if finished and last_step:
            found = files.named(stage.model_dir)
            self.expect(found == last_step, f'the last checkpoint is of step {found}, not {last_step}')
        if undisturbed is not None:
            differences = files.differences(stage.model_dir, undisturbed, besides)
            self.problems += differences
            self.equal = not differences

    def measure(self, scene, number: int = 0, whose: str = '') -> None:
        """Reads `resumed` and `lost` from the events around a fault. `whose`: the task that resumes."""
        struck = scene.struck(number)
        if struck is None:
            self.problems.append(f'never struck: {scene}')
            return
        events = scene.events()
        before = [event for event in events if event['time'] <= struck['time']]
        old = {event['pid'] for event in before}
        new = [event for event in events if event['pid'] not in old and event['time'] > struck['time']]
        kind = faults.EVALUATING if whose.startswith('evaluator') else faults.TRAINING
        at_work = [event for event in new if event['event'] == kind]
        if at_work:
            self.resumed = at_work[0]['time'] - struck['time']
        steps = [
            event['step']
            for event in events
            if event['pid'] in old and event['event'] in (faults.TRAINING, faults.SAVING)
        ]
        sessions = [event['step'] for event in new if event['event'] == 'session']
        if sessions:
            self.lost = max(steps, default=0) - sessions[0]


@dataclasses.dataclass(frozen=True)
class Case:
    """`play`: (folder, Undisturbed) -> Row, without fault and moment."""

    group: str
    fault: str
    moment: str
    play: Callable

    @property
    def name(self) -> str:
        return f'{self.group}: {self.fault} {self.moment}'.strip()

    def run(self, folder, undisturbed) -> Row:
        """What has come of it; never raises for what a program does."""
        try:
            row = self.play(pathlib.Path(folder), undisturbed)
        except (AssertionError, TimeoutError) as error:
            row = Row(problems=[f'{type(error).__name__}: {error}'])
        row.fault, row.moment = self.fault, self.moment
        return row


class Undisturbed:
    """Runs in which nothing goes wrong, with a checkpoint of every step. Each is made once in a folder."""

    def __init__(self, root):
        self._root = pathlib.Path(root)

    def alone(self) -> pathlib.Path:
        return self.other('alone', lambda stage: stage.trainer(*EVERY_STEP))

    def two_workers(self) -> pathlib.Path:
        return self.other('two-workers', lambda stage: stage.cluster(['--workers=2', '--noevaluator'], *EVERY_STEP))

    def other(self, name, start) -> pathlib.Path:
        """The model_dir of some other run, which `start(stage)` starts."""
        folder = self._root / f'undisturbed-{name}'
        with open(f'{folder}.lock', 'w') as lock:  # other threads and processes use the same folder
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / 'done').exists():
                shutil.rmtree(folder, ignore_errors=True)  # of a run that has failed
                with Stage(folder) as stage:
                    program = start(stage)
                    assert program.wait() == 0, program.output
                (folder / 'done').touch()
        return folder / 'model'


def table_line(cells) -> str:
    return '  '.join(f'{cell:{width}}' for cell, width in zip(cells, _WIDTHS)).rstrip()


def _tail(text, most=30) -> str:
    lines = text.splitlines()
    return '\n    '.join(lines if len(lines) <= most else [lines[0], '...', *lines[-most:]])
