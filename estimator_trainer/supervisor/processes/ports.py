"""Ports for a cluster on this machine, held against other supervisors and other programs.

A port that is bound, closed and handed on can be taken by anybody in between. So:

1. Candidates lie outside the range that the kernel gives to outgoing connections.
2. Each is claimed by a lock on a file, held until `Claim.close()` or the end of the process:
   two supervisors of one user never choose the same port.
3. Each must be free now, on every address of the machine, as TensorFlow binds them all.
"""

import contextlib
import errno
import os
import pathlib
import socket
import tempfile
from collections.abc import Container, Iterator

from estimator_trainer.run_dir import locks

_RANGE_FILE = pathlib.Path('/proc/sys/net/ipv4/ip_local_port_range')
_IANA_EPHEMERAL = (49152, 65535)  # also what macOS uses


class NoPorts(OSError):
    """There are fewer free ports than are needed, or they cannot be locked."""


def ephemeral_range() -> tuple[int, int]:
    """First and last port that the kernel may give to an outgoing connection."""
    try:
        first, last = _RANGE_FILE.read_text().split()
        return int(first), int(last)
    except (OSError, ValueError):
        return _IANA_EPHEMERAL


def candidates(ephemeral: tuple[int, int], offset: int) -> Iterator[int]:
    """All ports worth trying, the best first; `offset` turns each tier.

    Ports from 10000 on and outside `ephemeral`; then those below, where well-known services
    live; and only then, for machines whose ephemeral range leaves nothing, ports inside it.
    """
    first, last = ephemeral
    everything = range(1024, 65536)
    outside = [port for port in everything if not first <= port <= last]
    for tier in (
        [port for port in outside if port >= 10000],
        [port for port in outside if port < 10000],
        [port for port in everything if first <= port <= last],
    ):
        turn = offset % max(1, len(tier))
        yield from tier[turn:] + tier[:turn]


def is_free(port: int) -> bool:
    """Whether `port` can be bound on every IPv4 address and, where the machine has IPv6, on every IPv6 address."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as v4:
            v4.bind(('0.0.0.0', port))
    except OSError:
        return False
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_STREAM) as v6:
            v6.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            v6.bind(('::', port))
    except OSError as error:  # a machine without IPv6 says anything but these
        return error.errno not in (errno.EADDRINUSE, errno.EACCES)
    return True


class Claim:
    """Ports that are ours until `close()`."""

    def __init__(self) -> None:
        self.ports: list[int] = []
        self._locks = contextlib.ExitStack()

    def add(self, port: int, folder: pathlib.Path) -> bool:
        """Locks `port` and keeps it if it is free. False: another process has it."""
        with contextlib.ExitStack() as stack:
            lock = stack.enter_context(locks.Lock(folder / f'{port}.lock', 0o600))
            if not lock.take() or not is_free(port):
                return False
            self._locks.push(stack.pop_all())
        self.ports.append(port)
        return True

    def close(self) -> None:
        self._locks.close()

    def __enter__(self) -> 'Claim':
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


def lock_folder() -> pathlib.Path:
    """The folder of this user's locks. Files stay in it: to remove a lock file is a race.

    Raises:
      NoPorts: it cannot be made, or somebody else has made it.
    """
    uid = os.getuid()
    try:
        folder = pathlib.Path(tempfile.gettempdir()) / f'estimator_trainer-ports-{uid}'
        folder.mkdir(mode=0o700, exist_ok=True)
        owner = folder.lstat().st_uid
    except OSError as error:
        raise NoPorts(f'no folder for locks: {error}; set TMPDIR to a folder of yours') from None
    if owner != uid:
        raise NoPorts(f'{folder} belongs to another user; set TMPDIR to a folder of yours')
    return folder


def claim(count: int, avoid: Container[int] = ()) -> Claim:
    """Claims `count` ports, none of them in `avoid`.

    Raises:
      NoPorts: fewer were left, or they cannot be locked.
    """
    folder = lock_folder()
    claimed = Claim()
    for port in candidates(ephemeral_range(), offset=os.getpid() * 16):
        if len(claimed.ports) == count:
            break
        try:
            if port not in avoid:
                claimed.add(port, folder)
        except OSError as error:
            claimed.close()
            raise NoPorts(f'the lock of port {port}: {error}') from None
    if len(claimed.ports) < count:
        claimed.close()
        raise NoPorts(f'{count} free ports are needed, {len(claimed.ports)} were found')
    return claimed
