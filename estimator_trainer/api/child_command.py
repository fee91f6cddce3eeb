"""A command of the trainer as a child of this process: its lines come here, and so does the reason of its failure."""

import collections
import contextlib
import dataclasses
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TextIO

from estimator_trainer import exit_codes
from estimator_trainer.errors import DataDamaged, DatasetError, DatasetUnavailable, RunFailed, UsageError
from estimator_trainer.run_dir import protocol, removal
from estimator_trainer.supervisor.processes.logs import Lines
from estimator_trainer.tools.sweep.trial_process import cause_of

_TIED = (sys.executable, '-m', 'estimator_trainer.api.tied_command')
_READ_BYTES = 64 << 10
_LAST_LINES = 40
_ERROR = 'error: '
_FOLDER = 'estimator-trainer-'


@contextlib.contextmanager
def own_folder():
    """A temporary folder of this process, which is removed afterwards."""
    folder = tempfile.mkdtemp(prefix=_FOLDER)
    removal.claim(folder)
    try:
        yield folder
    finally:
        removal.tree(folder, removal.Marked(folder))


def environment(environ: Mapping[str, str], path: Sequence[str]) -> dict[str, str]:
    """That of the child. It finds the modules that this process finds.

    Args:
        path: sys.path of this process.
    """
    found = {name: value for name, value in environ.items() if name not in protocol.VARIABLES}
    installed = [os.path.join(prefix, '') for prefix in {sys.prefix, sys.base_prefix, sys.exec_prefix}]
    own = [os.path.abspath(folder) for folder in path if folder and os.path.isdir(folder)]
    mine = [folder for folder in own if not os.path.join(folder, '').startswith(tuple(installed))]
    both = [*mine, *found.get('PYTHONPATH', '').split(os.pathsep)]
    found['PYTHONPATH'] = os.pathsep.join(dict.fromkeys(filter(None, both)))
    found['PYTHONUNBUFFERED'] = '1'  # what a job prints is seen as it comes
    return found


@dataclasses.dataclass(frozen=True)
class Ended:
    """`last`: the last lines of stderr. `out`: the text of stdout, if it was asked for."""

    code: int
    last: tuple[str, ...]
    out: str


def run(
    words: Sequence[str],
    grace_secs: float,
    environ: Mapping[str, str],
    shows_stdout: bool = True,
    start: Sequence[str] = _TIED,
) -> Ended:
    """Runs `python -m estimator_trainer WORDS`, and prints its lines as they come.

    Args:
        grace_secs: the child needs so long to save and end, once it is told to.
        shows_stdout: its stdout is printed; else it is returned.

    Raises:
        KeyboardInterrupt: in this process; the child has saved and ended, or was killed after `grace_secs`, or by a
            second one.
    """
    child = subprocess.Popen(
        [*start, str(os.getpid()), *words],
        env=dict(environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,  # Ctrl-C goes to this process alone, which tells the child
    )
    try:
        streams = _Streams(child, shows_stdout)
        try:
            streams.read_all(None)
            code = child.wait()  # it may have closed its streams before
        except KeyboardInterrupt:
            child.send_signal(signal.SIGTERM)
            until = time.monotonic() + grace_secs
            streams.read_all(until)
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(max(0.0, until - time.monotonic()))
            raise
    finally:
        _kill(child)
    return Ended(128 - code if code < 0 else code, tuple(streams.last), ''.join(streams.out))


def _kill(child: subprocess.Popen) -> None:
    """Ends what is left of the group of the child, and takes its exit code."""
    if child.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    for pipe in (child.stdout, child.stderr):
        if pipe:
            pipe.close()


class _Streams:
    """The two streams of a child."""

    def __init__(self, child: subprocess.Popen, shows_stdout: bool):
        assert child.stdout and child.stderr  # both are pipes
        self.last: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)
        self.out: list[str] = []
        self._child = child
        self._selector = selectors.DefaultSelector()
        to_stdout = _printer(lambda: sys.stdout) if shows_stdout else lambda line: self.out.append(line + '\n')
        to_stderr = _printer(lambda: sys.stderr)

        def heard(line: str) -> None:
            self.last.append(line)
            to_stderr(line)

        for pipe, tell in ((child.stdout, to_stdout), (child.stderr, heard)):
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ, (Lines(), tell))

    def read_all(self, until: float | None) -> None:
        """Reads until the child has ended, or until a time of time.monotonic()."""
        while self._selector.get_map() and (until is None or time.monotonic() < until):
            ended = self._child.poll() is not None
            ready = self._selector.select(0.0 if ended else 0.2)
            for key, _ in ready:
                self._read(key)
            if ended and not ready:  # a process that it has left behind may hold the pipes
                return

    def _read(self, key: selectors.SelectorKey) -> None:
        lines, tell = key.data
        with contextlib.suppress(BlockingIOError):
            data = os.read(key.fd, _READ_BYTES)
            if not data:
                self._selector.unregister(key.fileobj)
            for line in lines.feed(data) if data else lines.close():
                tell(line.decode(errors='replace'))


def _printer(stream: Callable[[], TextIO | None]) -> Callable[[str], None]:
    """Prints to what sys has now: a notebook replaces the streams for each cell."""

    def tell(line: str) -> None:
        to = stream()
        if to is not None:
            with contextlib.suppress(OSError, ValueError):  # nobody reads it any more, or it is closed
                to.write(line + '\n')
                to.flush()

    return tell


def failure(ended: Ended, error: Mapping, report: Mapping) -> Exception:
    """The exception for a command that has not ended with code 0.

    Args:
        error: its error file (run_dir/protocol.py), or {}.
        report: report.json of a cluster, or {}.
    """
    told = error.get('message') if error.get('code') == ended.code else None
    said = '' if report or ended.code == exit_codes.FAILED else _error_in(ended.last)
    message = str(told or said or cause_of(report, ended.code, ended.last))
    if ended.code == exit_codes.USAGE:
        return UsageError(message)
    for kind in (DatasetError, DataDamaged):
        if ended.code == kind.exit_code:
            return kind(message)
    if ended.code == exit_codes.FILES_AWAY:
        return DatasetUnavailable(message)
    return RunFailed(ended.code, message, ended.last)


def _error_in(lines: Sequence[str]) -> str:
    """The error that the last lines end with; it may have several lines."""
    begins = [place for place, line in enumerate(lines) if line.startswith(_ERROR)]
    return '\n'.join(lines[begins[-1] :]).removeprefix(_ERROR) if begins else ''
