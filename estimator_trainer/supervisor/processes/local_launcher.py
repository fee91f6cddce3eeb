"""One running task of this machine: its process, where its output goes, how it ended."""

import dataclasses
import math
import os
import pathlib
import selectors
import signal
import subprocess

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import protocol
from estimator_trainer.supervisor.launcher import CannotStart
from estimator_trainer.supervisor.policy.causes import TaskEnd, TaskError
from estimator_trainer.supervisor.policy.task_commands import TaskCommand
from estimator_trainer.supervisor.processes import log_folders
from estimator_trainer.supervisor.processes.console import Console
from estimator_trainer.supervisor.processes.logs import LogBounds, StreamLog, path_of, tail
from estimator_trainer.supervisor.processes.process import Process

_READ = 1 << 20  # bytes; more than a pipe holds, so one read takes all that is in it
_LAST_LINES = 400  # of an output, in which the exception that ended a program is looked for


@dataclasses.dataclass(frozen=True)
class LocalLauncher:
    """Starts the tasks of one gang as processes of this machine.

    Attributes:
      folder: exists; each task's output is written to it.
      out: where the stdout of tasks goes, line by line.
      err: where their stderr goes, and what the supervisor has to say.
      bounds: of the logs.
    """

    folder: pathlib.Path
    out: Console
    err: Console
    bounds: LogBounds = LogBounds()
    look_secs = math.inf  # the end of a process closes its pipes, which wakes the selector

    def start(self, command: TaskCommand, number: int, life: int, selector: selectors.BaseSelector) -> 'RunningTask':
        return RunningTask(command, number, self, life, selector)


class RunningTask:
    """A task from its start to its end. `life` counts its starts within the gang, from 1.

    Raises (on creation):
      CannotStart: there is no process, and no log is open.
    """

    def __init__(
        self, command: TaskCommand, number: int, place: LocalLauncher, life: int, selector: selectors.BaseSelector
    ):
        self.command, self.life = command, life
        self.told: int | None = None
        name = command.name
        self._selector = selector
        self._error_path = path_of(place.folder, name, 'error.json', life)
        self._err_path = path_of(place.folder, name, 'err', life)
        env = {**command.env, protocol.ERROR_FILE: str(self._error_path)}
        opened, keep = [], place.bounds.attempts
        if 0 < keep < life:
            log_folders.remove_life(place.folder, name, life - keep)
            if life == keep + 1:
                place.err.say(
                    f'{name}: logs of its earliest lives are removed, those of the last {keep} stay (--keep_attempts)'
                )
        try:
            for console, suffix in ((place.out, 'out'), (place.err, 'err')):
                path = path_of(place.folder, name, suffix, life)
                opened.append(StreamLog(path, console, console.prefix(name, number), place.bounds))
            self._process = Process(dataclasses.replace(command, env=env))
        except (OSError, subprocess.SubprocessError) as error:  # the latter: before exec
            for log in opened:
                log.close()
            raise CannotStart(str(error)) from error
        self._logs = dict(zip((self._process.stdout, self._process.stderr), opened))
        for fd in self._logs:
            self._selector.register(fd, selectors.EVENT_READ, self)

    @property
    def name(self) -> str:
        return self.command.name

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        self._process.send(signal.SIGKILL)

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
        if signum != protocol.PROFILE_SIGNAL:  # that one ends nothing
            self.told = signum
        self._process.send(signum)

    def end(self, code: int, secs: float) -> TaskEnd:
        """Closes everything, once the process has ended with `code`."""
        self.close()
        error = TaskError.of(protocol.read_json(str(self._error_path))) if code else None
        if error is None and code == exit_codes.FAILED:  # of a program, or of a trainer in its first moments
            error = TaskError.of_output(tail(self._err_path, _LAST_LINES))
        return TaskEnd(self.name, code, secs, self.told, error, self.life)

    def close(self) -> None:
        """Kills what is left of the group, takes what it still had to say, closes everything."""
        self.kill()
        for fd in tuple(self._logs):
            self.read(fd)  # not to its end: a process that left the group may hold the pipe
        for fd in tuple(self._logs):
            self._close_log(fd)
        self._process.close()

    def _close_log(self, fd: int) -> None:
        self._selector.unregister(fd)
        self._logs.pop(fd).close()
