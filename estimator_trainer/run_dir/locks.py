"""Locks on files. One process at a time holds a lock; the kernel takes it back however that process ends.

A lock file holds a line that says who has the lock, for the messages of the others. It stays when the lock
is given up: to remove a lock file is a race.
"""

import contextlib
import dataclasses
import errno
import fcntl
import math
import os
import pathlib
import re
import stat
import time
from collections.abc import Callable

from estimator_trainer.this_process import forks

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_LOOKS = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_CLOSED = -1  # as os.open never returns it
_MOST_BYTES = 512
_OURS = re.compile(rb'\d{1,20}( [\x21-\x7e]{1,255}( [\x21-\x7e]{1,64})?)?')  # pid, machine, boot id
POLL_SECS = 0.1
_FIRST_WORD_SECS, _LONGEST_SILENCE_SECS = 10, 600


class NotALock(OSError):
    """What is at the lock's path is not a lock file of ours. The text names the path and the cure."""


@dataclasses.dataclass(frozen=True)
class Holder:
    """Who has a lock, as far as the file says.

    Attributes:
        boot: id of the machine's boot: host names and process numbers come again in other containers.
    """

    pid: str = '?'
    machine: str = '?'
    boot: str = '?'

    @property
    def is_on_this_machine(self) -> bool:
        """On this machine, as far as is known."""
        return self.boot in (boot_id(), '?')

    def __str__(self) -> str:
        return f'process {self.pid}{"" if self.is_on_this_machine else f" on {self.machine}"}'


class Held(Exception):
    """Somebody else has the lock, and still had it when the time was up."""

    def __init__(self, holder: Holder):
        super().__init__(str(holder))
        self.holder = holder


class Lock:
    """The lock of one file, which is made where it is not there. A context manager that closes it.

    A forked child closes its copy at once, so that it never holds what its parent has.

    Raises (on creation):
        NotALock: it is a symbolic link, no regular file, or has somebody else's content.
        OSError: it cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str], mode: int = 0o666):
        self.path = os.fspath(path)
        self._fd: int = _CLOSED
        with forks.none_meanwhile():
            self._fd = self._open(mode)
            forks.in_child(self._close)
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def take(self) -> bool:
        """Whether the lock is ours now. Never waits.

        Raises:
            NotALock: somebody has written something else into it.
            OSError: the file system has no locks.
        """
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        self._check()  # somebody may have written into it since
        machine = re.sub(r'[^\x21-\x7e]', '?', os.uname().nodename or '?')  # as _OURS has it
        line = f'{os.getpid()} {machine} {boot_id()}'.encode()
        with contextlib.suppress(OSError):  # a full disk: the line is only for the messages of others
            os.pwrite(self._fd, line, 0)  # first, so that a reader finds no empty file in between
            os.ftruncate(self._fd, len(line))
        return True

    def wait(
        self,
        patience: Callable[[Holder], float],
        say: Callable[[Holder, float, float], None] = lambda holder, secs, bound: None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Waits until the lock is ours.

        Args:
            patience: (Holder) -> seconds to wait for that one, math.inf without bound.
            say: told (Holder, seconds that have passed, seconds to wait) at once and at growing intervals.

        Raises:
            Held: the time is up.
            NotALock, OSError: as `take`.
        """
        began, due = clock(), 0.0
        while not self.take():
            holder, secs = self.holder(), clock() - began
            bound = patience(holder)
            if secs >= bound:
                raise Held(holder)
            if secs >= due:
                say(holder, secs, bound)
                due = secs + min(max(secs, _FIRST_WORD_SECS), _LONGEST_SILENCE_SECS)
            sleep(POLL_SECS)

    def holder(self) -> Holder:
        """Who has the lock; if nobody has, who had it last."""
        words = self._content().decode('ascii', 'replace').split()
        return Holder(*words[:3])

    def close(self) -> None:
        """Gives the lock up."""
        forks.forget(self._close)
        self._close()

    def __enter__(self) -> 'Lock':
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def _close(self) -> None:
        fd, self._fd = self._fd, _CLOSED
        if fd != _CLOSED:
            os.close(fd)

    def _open(self, mode: int) -> int:
        try:
            return os.open(self.path, _FLAGS, mode)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EMLINK) and os.path.islink(self.path):
                raise self._not_ours('is a symbolic link') from None
            if error.errno == errno.ENXIO:  # a socket
                raise self._not_ours('is not a regular file') from None
            raise

    def _check(self) -> None:
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            raise self._not_ours('is not a regular file')
        content = self._content()
        if status.st_size > _MOST_BYTES or content and not _OURS.fullmatch(content):
            raise self._not_ours('holds something else')

    def _content(self) -> bytes:
        """The zeros are of a machine that went down before it had written the file."""
        return os.pread(self._fd, _MOST_BYTES, 0).strip(b'\0 \n')

    def _not_ours(self, why: str) -> NotALock:
        return NotALock(
            f'{self.path} should be a lock file, but {why}; it was left as it is. Find out who has put '
            'it there, and remove it'
        )


def boot_id() -> str:
    """The id of this machine since it was started. '?': it does not say."""
    try:
        text = pathlib.Path('/proc/sys/kernel/random/boot_id').read_text(encoding='ascii')
    except OSError:  # a sandbox shows less of /proc
        return '?'
    return text.strip() or '?'


def patience(on_this_machine: float, elsewhere: float = math.inf) -> Callable[[Holder], float]:
    """`Lock.wait`'s: seconds for a holder on this machine, and for one on another."""
    return lambda holder: on_this_machine if holder.is_on_this_machine else elsewhere


def was_left_here(path: str | os.PathLike[str]) -> bool:
    """Whether the last holder was a process of this machine, which has the lock no more. False as well if it was on
    another machine, or there was none."""
    try:
        with open(os.open(path, _LOOKS), 'rb') as file:
            words = file.read(_MOST_BYTES).decode('ascii', 'replace').split()
    except (OSError, TypeError):  # TypeError: a pipe that holds nothing, which is not waited for
        return False
    return Holder(*words[:3]).boot == boot_id() != '?' and not is_held(path)


def is_held(path: str | os.PathLike[str]) -> bool:
    """Whether a process holds the lock of this file. Makes no file, and writes nothing.

    The lock is shared with other askers for a moment: a process that wants it just then finds it taken once.
    """
    try:
        fd = os.open(path, _LOOKS)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return False
    except BlockingIOError:
        return True
    except OSError:  # the file system has no locks
        return False
    finally:
        os.close(fd)
