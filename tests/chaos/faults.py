"""Which signal strikes whom, at which moment; and what the tasks saw. Imports nothing but Python's own.

A case has a folder. The program writes `plan.json` into it; the tasks, to which the environment variable
FOLDER names it, read that, strike (each fault once, whatever is restarted) and append what happens to
`events.jsonl`.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import signal
import sys
import time

FOLDER = 'CHAOS_FOLDER'
SUPERVISOR = 'supervisor'
WAIT_SECS = 120  # for what should take a second

# Moments of a task, in this order.
IMPORT = 'import'  # the job is imported: TensorFlow is not there yet, nor any port
START_UP = 'start-up'  # a graph is built: the tasks have found each other
TRAINING = 'training'
SAVING = 'saving'  # a checkpoint's data file has its name, its index is not there
EVALUATING = 'evaluating'
MOMENTS = (IMPORT, START_UP, TRAINING, SAVING, EVALUATING)


@dataclasses.dataclass(frozen=True)
class Fault:
    """One signal.

    Attributes:
        at: the task whose moment it is: 'worker:1', or 'trainer' where there is no cluster.
        step: the first global step at which it is due; of TRAINING one that has been finished.
        target: whom the signal strikes: the task itself (''), another one, or SUPERVISOR.
        by_step: the chief trains no further before the fault has struck; 0: it does not wait. For
            faults at another task's moment, which may come late.
    """

    at: str
    moment: str
    step: int = 0
    target: str = ''
    signal: str = 'SIGKILL'
    by_step: int = 0


class Scene:
    """The folder of a case.

    Args:
        task: whose process this is; None for the program that looks on.
        is_chief: of the tasks one.
    """

    def __init__(self, folder, task: str | None = None, is_chief: bool = False):
        self.folder, self._task, self._is_chief = pathlib.Path(folder), task, is_chief
        self._faults = [Fault(**fault) for fault in _read(self.folder / 'plan.json') or []]

    @classmethod
    def of_this_task(cls, environ=os.environ) -> 'Scene | None':
        """None where no case is played, or where a supervisor only has flags checked."""
        if FOLDER not in environ or '--dry_run' in sys.argv:
            return None
        place = json.loads(environ.get('TF_CONFIG') or '{}')
        if not place:
            return cls(environ[FOLDER], 'trainer', True)
        task = f'{place["task"]["type"]}:{place["task"]["index"]}'
        return cls(environ[FOLDER], task, task == ('chief:0' if 'chief' in place['cluster'] else 'worker:0'))

    # -- the program

    def plan(self, faults) -> None:
        _write(self.folder / 'plan.json', [dataclasses.asdict(fault) for fault in faults])

    def release(self, number: int = 0) -> None:
        """Takes a fault for struck: the program has done it."""
        _write(self.folder / f'struck-{number}.json', {'time': time.time()})

    def struck(self, number: int = 0) -> dict | None:
        """When and where a fault of the plan has struck; None: not yet."""
        return _read(self.folder / f'struck-{number}.json')

    def events(self, *kinds) -> list:
        """What has happened: objects with time, task, pid, event and step, oldest first."""
        try:
            lines = (self.folder / 'events.jsonl').read_text().splitlines()
        except FileNotFoundError:
            return []
        return [event for event in map(json.loads, lines) if not kinds or event['event'] in kinds]

    def pid(self, task: str) -> int:
        """Of the task's process; waits for it to be there."""
        return int(until(lambda: _read(self.folder / f'{task}.pid'), f'no process of {task}'))

    # -- the tasks

    def begins(self) -> None:
        _write(self.folder / f'{self._task}.pid', os.getpid())
        self.reached(IMPORT)

    def happened(self, event: str, step: int | None = None) -> None:
        line = {'time': time.time(), 'task': self._task, 'pid': os.getpid(), 'event': event, 'step': step}
        with open(self.folder / 'events.jsonl', 'ab', buffering=0) as file:  # one write: never mixed
            file.write(json.dumps(line).encode() + b'\n')

    def due(self, moment: str, step: int = 0) -> bool:
        """Whether `reached` would strike."""
        return any(self._mine(number, fault, moment, step) for number, fault in enumerate(self._faults))

    def reached(self, moment: str, step: int = 0) -> None:
        """Notes that this task is at `moment`, and strikes with what is due."""
        self.happened(moment, step)
        for number, fault in enumerate(self._faults):
            if self._mine(number, fault, moment, step):
                self._strike(number, fault, moment, step)

    def held(self, step: int) -> None:
        """The chief waits here for the faults beyond which training must not go; after each step."""
        for number, fault in enumerate(self._faults):
            if self._is_chief and 0 < fault.by_step <= step:
                until(lambda: self.struck(number), f'never struck: {fault}')

    def _mine(self, number, fault, moment, step):
        return (fault.at, fault.moment) == (self._task, moment) and step >= fault.step and not self.struck(number)

    def _strike(self, number, fault, moment, step):
        if fault.target == SUPERVISOR:
            pid = os.getppid()
        else:
            pid = self.pid(fault.target) if fault.target else os.getpid()
        struck = {'time': time.time(), 'moment': moment, 'step': step, 'pid': pid}
        with contextlib.suppress(FileExistsError):
            _write(self.folder / f'struck-{number}.json', struck, new=True)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.Signals[fault.signal])


def until(condition, otherwise: str, secs: float = WAIT_SECS):
    """Waits for a true value of `condition()`, and returns it.

    Raises:
        TimeoutError: it has not come; says `otherwise`.
    """
    deadline = time.monotonic() + secs
    while not (value := condition()):
        if time.monotonic() >= deadline:
            raise TimeoutError(f'after {secs:g} s: {otherwise}')
        time.sleep(0.02)
    return value


def _read(path):
    try:
        return json.loads(path.read_text())
    except FileNotFoundError:
        return None


def _write(path, value, new=False) -> None:
    """Writes a file whole. `new`: one that must not be there.

    Raises:
        FileExistsError: it is.
    """
    temporary = path.with_name(f'{path.name}.{os.getpid()}')
    temporary.write_text(json.dumps(value))
    try:
        (os.link if new else os.replace)(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
