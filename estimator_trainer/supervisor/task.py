"""One running task: its process, where its output goes, how it ended."""

import dataclasses
import os
import pathlib
import selectors
import signal
import subprocess

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import protocol
from estimator_trainer.supervisor import attempts
from estimator_trainer.supervisor.console import Console
from estimator_trainer.supervisor.logs import Bounds, StreamLog, path_of
from estimator_trainer.supervisor.plan import Command
from estimator_trainer.supervisor.policy import Ended, TaskError
from estimator_trainer.supervisor.process import Process

_READ = 1 << 20  # bytes; more than a pipe holds, so one read takes all that is in it


@dataclasses.dataclass(frozen=True)
class Place:
    """What all tasks of one gang share. `selector` watches their pipes."""

    selector: selectors.BaseSelector
    folder: pathlib.Path  # of the logs
    out: Console
    err: Console
    bounds: Bounds = Bounds()


class CannotStart(OSError):
    """A task cannot be started, or its log not be written."""


class RunningTask:
    """A task from its start to its end. `life` counts its starts within the gang, from 1.

    Raises (on creation):
      CannotStart: there is no process, and no log is open.
    """

    def __init__(self, command: Command, number: int, place: Place, life: int = 1):
        self.command, self.life = command, life
        self.told: int | None = None
        name = command.name
        self._selector = place.selector
        self._error_path = path_of(place.folder, name, 'error.json', life)
        env = {**command.env, protocol.ERROR_FILE: str(self._error_path)}
        opened, keep = [], place.bounds.attempts
        if 0 < keep < life:
            attempts.remove_life(place.folder, name, life - keep)
            if life == keep + 1:
                place.err.say(
                    f'{name}: logs of its earliest lives are removed, those of the last {keep} stay (--keep_attempts)'
                )
        try:
            for console, suffix in ((place.out, 'out'), (place.err, 'err')):
                path = path_of(place.folder, name, suffix, life)
                opened.append(StreamLog(path, console, console.prefix(name, number), place.bounds))
            self.process = Process(dataclasses.replace(command, env=env))
        except (OSError, subprocess.SubprocessError) as error:  # the latter: before exec
            for log in opened:
                log.close()
            raise CannotStart(str(error)) from error
        self._logs = dict(zip((self.process.stdout, self.process.stderr), opened))
        for fd in self._logs:
            self._selector.register(fd, selectors.EVENT_READ, self)

    @property
    def name(self) -> str:
        return self.command.name

    def read(self, fd: int) -> None:
        """Takes what the pipe holds; at its end, closes the log."""
        try:
            data = os.read(fd, _READ)
        except BlockingIOError:
            return
        if data:
            self._logs[fd].feed(data)
        else:
            self._close_log(fd)

    def tell(self, signum: signal.Signals) -> None:
        """Sends SIGKILL to the group, any other signal to its leader."""
        self.told = signum
        self.process.send(signum)

    def end(self, code: int, secs: float) -> Ended:
        """Closes everything, once the process has ended with `code`."""
        self.close()
        error = TaskError.of(protocol.read_json(str(self._error_path))) if code else None
        return Ended(self.name, code, secs, self.told, error, self.life)

    def close(self) -> None:
        """Kills what is left of the group, takes what it still had to say, closes everything."""
        self.process.send(signal.SIGKILL)
        for fd in tuple(self._logs):
            self.read(fd)  # not to its end: a process that left the group may hold the pipe
        for fd in tuple(self._logs):
            self._close_log(fd)
        self.process.close()

    def _close_log(self, fd: int) -> None:
        self._selector.unregister(fd)
        self._logs.pop(fd).close()


@dataclasses.dataclass(frozen=True)
class Waiting:
    """A task that will be restarted alone."""

    command: Command
    life: int  # the one to come
    due: float
    last: Ended  # of the life before


def never_started(name: str, life: int, secs: float, error: CannotStart) -> Ended:
    """The end of a task that had no beginning."""
    said = TaskError(f'cannot be started: {error}')
    return Ended(name, exit_codes.FAILED, secs, error=said, life=life, never_started=True)
