"""A command of the trainer as a child of this process: its lines come here, and so does the reason of its failure."""

import collections
import contextlib
import dataclasses
import math
import os
import signal
import site
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import connection
from typing import TextIO

from estimator_trainer import exit_codes
from estimator_trainer.errors import DataDamaged, DatasetError, DatasetUnavailable, RunFailed, UsageError
from estimator_trainer.run_dir import protocol, removal
from estimator_trainer.supervisor.reports import report_file
from estimator_trainer.this_process import parent_process
from estimator_trainer.this_process.child_process import PIPE, Child

_COMMAND = (sys.executable, '-m', 'estimator_trainer')
_LAST_LINES = 40
_LOOK_SECS = 0.2
_ERROR = 'error: '
_FOLDER = 'estimator-trainer-'


@contextlib.contextmanager
def own_folder() -> Iterator[str]:
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
    child = {name: value for name, value in environ.items() if name not in protocol.VARIABLES}
    installed = tuple(os.path.join(folder, '') for folder in _installed())
    entries = [os.path.abspath(entry) for entry in path if entry and _is_there(entry)]
    own = [entry for entry in entries if not os.path.join(entry, '').startswith(installed)]
    both = [*own, *child.get('PYTHONPATH', '').split(os.pathsep)]
    child['PYTHONPATH'] = os.pathsep.join(dict.fromkeys(filter(None, both)))
    child['PYTHONUNBUFFERED'] = '1'  # what a job prints is seen as it comes
    return child


def _installed() -> set[str]:
    """What each Python of this installation has in its path by itself. Before the standard library, where PYTHONPATH
    stands, packages could hide modules of it. Other folders below sys.prefix may be the user's: it may be /usr, or the
    folder of a project."""
    version = sys.version_info
    library = sysconfig.get_path('stdlib')
    zipped = os.path.join(os.path.dirname(library), f'python{version.major}{version.minor}.zip')
    of_user = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    packages = [sysconfig.get_path(name) for name in ('platstdlib', 'purelib', 'platlib')]
    compiled = sysconfig.get_config_var('DESTSHARED') or library  # lib-dynload, which may be below another prefix
    return set(map(os.path.abspath, (library, zipped, compiled, *packages, *site.getsitepackages(), *of_user)))


def _is_there(entry: str) -> bool:
    """Whether an entry of sys.path is there: a folder, a zip file, or a folder in one."""
    path = os.path.abspath(entry)
    while not os.path.exists(path):
        path = os.path.dirname(path)
    return path == os.path.abspath(entry) or os.path.isfile(path)


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
    start: Sequence[str] = _COMMAND,
) -> Ended:
    """Runs `python -m estimator_trainer WORDS`, and prints its lines as they come.

    Args:
        grace_secs: the child needs so long to save and end, once it is told to.
        shows_stdout: its stdout is printed; else it is returned.

    Raises:
        KeyboardInterrupt: in this process; the child has saved and ended, or was killed after `grace_secs`, or by a
            second one.
    """
    last: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)
    out: list[str] = []

    def take(from_stdout: bool, line: str) -> None:
        if not from_stdout:
            last.append(line)
            _print(line, sys.stderr)
        elif shows_stdout:
            _print(line, sys.stdout)
        else:
            out.append(line + '\n')

    with Child(
        parent_process.tying((*start, *words)), env=environ, stdout=PIPE, stderr=PIPE, ties=False
    ) as child:  # its session is its own: a Ctrl-C reaches this process alone, which tells the child
        try:
            _read(child, take)
            code = child.wait()  # it may have closed its pipes before
        except KeyboardInterrupt:
            child.send(signal.SIGINT)  # the log then says what it was
            until = time.monotonic() + grace_secs
            _read(child, take, until)
            child.wait(until - time.monotonic())
            raise
    assert code is not None  # the wait has no bound
    return Ended(128 - code if code < 0 else code, tuple(last), ''.join(out))


def _read(child: Child, take: Callable[[bool, str], None], until: float = math.inf) -> None:
    """Reads until the child has ended, or until a time of time.monotonic(). `take` gets (whether from stdout, line)."""
    while child.open_pipes and time.monotonic() < until:
        ended = child.poll() is not None
        ready = connection.wait(child.open_pipes, 0.0 if ended else _LOOK_SECS)
        for descriptor in child.open_pipes:
            if descriptor in ready:
                for line in child.read_lines(descriptor):
                    take(descriptor == child.stdout, line)
        if ended and not ready:  # a process that it has left behind may hold the pipes
            return


def _print(line: str, stream: TextIO | None) -> None:
    if stream is not None:  # a notebook replaces the streams of sys for each cell
        with contextlib.suppress(OSError, ValueError):  # nobody reads it any more, or it is closed
            stream.write(line + '\n')
            stream.flush()


def failure(ended: Ended, error: Mapping, report: Mapping) -> Exception:
    """The exception for a command that has not ended with code 0.

    Args:
        error: its error file (run_dir/protocol.py), or {}.
        report: report.json of a cluster, or {}.
    """
    recorded = error.get('message') if error.get('code') == ended.code else None
    said = '' if report or ended.code == exit_codes.FAILED else _error_in(ended.last)
    message = str(recorded or said or report_file.failure_reason(report, ended.code, ended.last))
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
