"""The folders of logs, LOG_DIR/attempt-N: the names of their files, which of them are in use, and which are removed.

Only what the supervisor and its tasks have written is removed: regular files of their names, in real folders that have
our mark, and a folder when nothing else is in it. Nothing is followed through a symbolic link.
"""

import contextlib
import dataclasses
import fcntl
import os
import pathlib
import re
import tempfile
from collections.abc import Iterator

from estimator_trainer.run_dir import removal

_FOLDER = re.compile(r'attempt-(\d+)')
_LOCK = '.lock'  # held by the supervisor that writes into the folder
_OURS = re.compile(r'\.lock|(chief|worker|ps|evaluator)-\d+(\.\d+)?\.((out|err)(\.1)?|error\.json(\.\d+\.tmp)?)')


@dataclasses.dataclass(frozen=True)
class LogBounds:
    """How much of logs is kept. 0: all.

    With the defaults ten attempts of two workers and an evaluator stay below 4 GiB, whatever they print.
    """

    attempts: int = 10  # folders; enough to see how failures began
    mb: int = 64  # MiB of one stream of a task: days of what an ordinary job prints


def new(log_dir: str | None) -> pathlib.Path:
    """Makes the folder of one attempt: log_dir/attempt-N, N one more than the last there is.

    Without a `log_dir` it is in a new temporary folder.

    Raises:
      OSError: it cannot be made.
    """
    parent = pathlib.Path(log_dir or tempfile.mkdtemp(prefix='estimator_trainer-logs-'))
    parent.mkdir(parents=True, exist_ok=True)
    number = max(_numbers(parent), default=0) + 1
    while True:
        folder = parent / f'attempt-{number}'
        try:
            folder.mkdir()
        except FileExistsError:  # another supervisor was quicker
            number += 1
            continue
        with contextlib.suppress(OSError):  # the disk is full: then it stays for good
            removal.mark(str(folder))
        return folder.absolute()


@contextlib.contextmanager
def in_use(folder: pathlib.Path) -> Iterator[None]:
    """Keeps supervisors that share the log_dir from removing `folder`. The kernel gives it up when we die."""
    lock = None
    with contextlib.suppress(OSError):  # the disk is full, or the file system has no locks
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    try:
        yield
    finally:
        if lock is not None:
            os.close(lock)


def remove_old(newest: pathlib.Path, keep: int) -> list[str]:
    """Removes the oldest attempts beside the folder `newest`, all but `keep`. The names of those that had files.

    One that another supervisor is writing stays, and so does one that cannot be removed.
    """
    if keep == 0:
        return []
    parent, removed = newest.parent, []
    with contextlib.suppress(OSError):
        for number in sorted(_numbers(parent))[:-keep]:
            with contextlib.suppress(OSError):
                folder = parent / f'attempt-{number}'
                if _empty(folder):
                    removed.append(folder.name)
                removal.empty_folder(str(folder), removal.Marked(str(folder)))
    return removed


def remove_life(folder: pathlib.Path, name: str, life: int) -> None:
    """Removes the files of one life of a task that has been restarted alone."""
    for suffix in ('out', 'err', 'error.json'):
        path = path_of(folder, name, suffix, life)
        for old in (path, older_of(path)):
            with contextlib.suppress(OSError):
                if not old.is_symlink():
                    old.unlink()


def path_of(folder: pathlib.Path, name: str, suffix: str, life: int = 1) -> pathlib.Path:
    """A file of task `name`: 'worker:1', 'err' -> folder/worker-1.err; worker-1.2.err in life 2."""
    lives = '' if life == 1 else f'.{life}'
    return folder / f'{name.replace(":", "-")}{lives}.{suffix}'


def older_of(path: pathlib.Path) -> pathlib.Path:
    """The file in which the older half of a log is."""
    return path.with_name(f'{path.name}.1')


def tail(path: pathlib.Path, lines: int = 20) -> list[str]:
    """The last lines of a log, as text; [] if it cannot be read."""
    last = _last_lines(path, lines)
    if len(last) < lines:
        last = [*_last_lines(older_of(path), lines - len(last)), *last]
    return last


def _last_lines(path: pathlib.Path, lines: int) -> list[str]:
    with contextlib.suppress(OSError), open(path, 'rb') as file:
        file.seek(max(0, path.stat().st_size - 64 * 1024))
        return file.read().decode(errors='replace').splitlines()[-lines:]
    return []


def _numbers(parent: pathlib.Path) -> list[int]:
    matches = (_FOLDER.fullmatch(entry.name) for entry in parent.iterdir())
    return [int(match[1]) for match in matches if match]


def _empty(folder: pathlib.Path) -> bool:
    """Removes our files from a folder that nobody writes. Whether there were any.

    Raises:
      OSError: it is no folder, nothing says that it is ours, somebody writes it, or a file cannot be removed.
    """
    with contextlib.ExitStack() as stack:
        fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        stack.callback(os.close, fd)
        os.stat(removal.MARK, dir_fd=fd, follow_symlinks=False)
        with contextlib.suppress(FileNotFoundError):
            lock = os.open(_LOCK, os.O_RDWR | os.O_NOFOLLOW, dir_fd=fd)
            stack.callback(os.close, lock)
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with os.scandir(fd) as entries:
            ours = [
                entry.name for entry in entries if _OURS.fullmatch(entry.name) and entry.is_file(follow_symlinks=False)
            ]
        for name in ours:
            os.unlink(name, dir_fd=fd)
        return bool(ours)
