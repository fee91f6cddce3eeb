"""The tasks of a gang on this machine: processes, and what becomes of their output.

The raw bytes of each stream go into a file of bounded size, and its whole lines go to the console with the name of the
task before them.
"""

import contextlib
import dataclasses
import math
import os
import pathlib
import re
import selectors
import signal

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import log_folders, protocol
from estimator_trainer.run_dir.log_folders import LogBounds
from estimator_trainer.supervisor.policy.causes import TaskEnd, TaskError
from estimator_trainer.supervisor.policy.task_commands import CannotStart, TaskCommand
from estimator_trainer.this_process.child_process import PIPE, Child, Lines
from estimator_trainer.this_process.console import Console

_LAST_LINES = 400  # of an output, in which the exception that ended a program is looked for


@dataclasses.dataclass(frozen=True)
class LocalLauncher:
    """A `Launcher` whose tasks are processes of this machine.

    Attributes:
      folder: an existing folder for the output of the tasks.
      out: gets the lines of their stdout.
      err: gets the lines of their stderr, and what the supervisor has to say.
      bounds: how much of the logs is kept.
    """

    folder: pathlib.Path
    out: Console
    err: Console
    bounds: LogBounds = LogBounds()
    look_secs = math.inf  # the end of a process closes its pipes, which wakes the selector

    def start(self, command: TaskCommand, number: int, life: int, selector: selectors.BaseSelector) -> 'LocalTask':
        self._remove_old_life(command.name, life)
        logs = []
        try:
            for console, suffix in ((self.out, 'out'), (self.err, 'err')):
                path = log_folders.path_of(self.folder, command.name, suffix, life)
                file = RotatedFile(path, self.bounds.mb)
                logs.append(StreamLog(file, console, console.prefix(command.name, number)))
            return LocalTask(command, life, self.folder, logs, selector)
        except OSError as error:
            for log in logs:
                log.close()
            raise CannotStart(str(error)) from error

    def _remove_old_life(self, name: str, life: int) -> None:
        keep = self.bounds.attempts
        if 0 < keep < life:
            log_folders.remove_life(self.folder, name, life - keep)
            if life == keep + 1:
                self.err.say(
                    f'{name}: logs of its earliest lives are removed, those of the last {keep} stay (--keep_attempts)'
                )


class LocalTask:
    """A `StartedTask` from its start to its end.

    Args:
      logs: of its stdout and of its stderr.

    Raises (on creation):
      OSError: there is no process.
    """

    def __init__(
        self,
        command: TaskCommand,
        life: int,
        folder: pathlib.Path,
        logs: list['StreamLog'],
        selector: selectors.BaseSelector,
    ):
        self.command, self.life = command, life
        self._last_signal: int | None = None
        self._selector = selector
        self._error_path = str(log_folders.path_of(folder, command.name, 'error.json', life))
        self._err_path = log_folders.path_of(folder, command.name, 'err', life)
        self._process = Child(
            command.argv,
            env={**command.env, protocol.ERROR_FILE: self._error_path},
            stdout=PIPE,
            stderr=PIPE,
            cores=command.cores,
            ignored=(protocol.PROFILE_SIGNAL,),  # until the task is ready for it
        )
        self._logs = dict(zip(self._process.open_pipes, logs))
        for descriptor in self._logs:
            selector.register(descriptor, selectors.EVENT_READ, self)

    @property
    def name(self) -> str:
        return self.command.name

    @property
    def pid(self) -> int:
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.poll()

    def kill(self) -> None:
        self._process.kill()

    def read(self, descriptor: int) -> None:
        """Logs what a pipe holds. At the end of the pipe it closes the log."""
        data = self._process.read(descriptor)
        if data:
            self._logs[descriptor].feed(data)
        elif data is not None:
            self._close_log(descriptor)

    def send(self, signum: signal.Signals) -> None:
        """Sends SIGKILL to the group, and any other signal to its leader."""
        if signum != protocol.PROFILE_SIGNAL:  # that one ends nothing
            self._last_signal = signum
        self._process.send(signum)

    def end(self, code: int, secs: float) -> TaskEnd:
        self.close()
        error = TaskError.from_record(protocol.read_json(self._error_path)) if code else None
        if error is None and code == exit_codes.FAILED:  # a program, or a trainer in its first moments
            error = TaskError.from_output(log_folders.tail(self._err_path, _LAST_LINES))
        return TaskEnd(self.name, code, secs, self._last_signal, error, self.life)

    def close(self) -> None:
        """Kills what is left of the group, logs what it still had to say, and closes everything."""
        self.kill()
        for descriptor in tuple(self._logs):
            self.read(descriptor)  # not to its end: a process that left the group may hold the pipe
        for descriptor in tuple(self._logs):
            self._close_log(descriptor)
        self._process.close()

    def _close_log(self, descriptor: int) -> None:
        self._selector.unregister(descriptor)
        self._logs.pop(descriptor).close()


class RotatedFile:
    """A file of raw bytes that keeps the newest `mb` MiB of them (0: all): half in `path`, half in `path`.1.

    Attributes:
      path, mb: as given.
      dropped: whether older bytes are gone.
    """

    def __init__(self, path: pathlib.Path, mb: int):
        self.path, self.mb = path, mb
        self._half = mb * (1 << 20) // 2 or float('inf')
        self._file = open(path, 'xb', buffering=0)
        self._size, self._older = 0, False
        self.dropped = False

    def write(self, data: bytes) -> int:
        """Returns how many bytes were written, fewer than `data` has if the disk is full. Raises OSError."""
        length = len(data)
        while len(data) > self._half - self._size:
            room = int(self._half) - self._size
            # At the end of a line, unless `data` begins within one that goes on beyond the room.
            cut = data.rfind(b'\n', 0, max(room, 0)) + 1 or (0 if self._size else room)
            written = self._write(data[:cut])
            if written < cut:
                return length - len(data) + written
            data = data[cut:]
            self._rotate()
        return length - len(data) + self._write(data)

    def close(self) -> None:
        self._file.close()

    def _write(self, data: bytes) -> int:
        written = self._file.write(data) if data else 0
        self._size += written
        return written

    def _rotate(self) -> None:
        self.dropped, older = self._older, log_folders.older_of(self.path)
        try:
            if not self._older and os.path.lexists(older):
                raise FileExistsError(older)  # it is not ours
            os.replace(self.path, older)
            file = open(self.path, 'xb', buffering=0)
        except OSError:  # somebody has removed the folder: the newest bytes stay all the same
            self._file.seek(0)
            self._file.truncate()
            self.dropped = True
        else:
            self._file.close()
            self._file, self._older = file, True
        self._size = 0


class StreamLog:
    """Writes one stream of one task to a file, and its lines to the console.

    While the disk is full, the file lacks what comes; the task goes on.
    """

    def __init__(self, file: RotatedFile, console: Console, prefix: bytes):
        self._file, self._console, self._prefix = file, console, prefix
        self._lines = Lines()
        self._complete = self._whole = True

    def feed(self, data: bytes) -> None:
        try:
            why = 'disk full' if self._file.write(data) < len(data) else ''
        except OSError as error:
            why = error.strerror or str(error)
        if why and self._complete:
            self._complete = False
            self._console.say(f'{self._file.path} is not complete: {why}')
        if self._whole and self._file.dropped:
            self._whole = False
            reached = f'{self._file.path} has reached --max_log_mb={self._file.mb}'
            self._console.say(f'{reached}: from now on its oldest lines are dropped')
        self._print(self._lines.feed(data))

    def close(self) -> None:
        self._print(self._lines.close())
        with contextlib.suppress(OSError):
            self._file.close()

    def _print(self, lines: list[bytes]) -> None:
        self._console.write(b''.join(self._prefix + line + b'\n' for line in lines))


def memory_kills(
    groups: pathlib.Path = pathlib.Path('/proc/self/cgroup'), root: pathlib.Path = pathlib.Path('/sys/fs/cgroup')
) -> int | None:
    """How many processes of our control group (version 2) the kernel has killed so far for want of memory.

    None: the kernel does not say.
    """
    for folder in (*_own_groups(groups, root), root):
        with contextlib.suppress(OSError):
            text = (folder / 'memory.events').read_text(encoding='ascii')
            count = re.search(r'^oom_kill (\d+)$', text, re.MULTILINE)
            if count:
                return int(count[1])
    return None


def _own_groups(groups: pathlib.Path, root: pathlib.Path) -> list[pathlib.Path]:
    with contextlib.suppress(OSError):
        lines = groups.read_text(errors='replace').splitlines()
        return [root / line[3:].lstrip('/') for line in lines if line.startswith('0::')]
    return []
