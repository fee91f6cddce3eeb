"""A network of its own for a cluster on this machine: a namespace with nothing but loopback.

TensorFlow's server listens on every interface, has no authentication and runs any graph that it
is sent; docs/security.md has more. In such a namespace only the cluster can reach it.

1. A forked child makes the namespace, brings `lo` up in it and connects over it: the kernel may refuse any of that.
2. Where the child succeeds, this process does the same. All the processes that it starts from then on are in there.

An attempt that fails therefore costs a child, and leaves this process where it was. Root makes a
network namespace alone. Anybody else makes a user namespace as well, in which they keep their own
number, so that files have the same owner on both sides.
"""

import contextlib
import ctypes
import dataclasses
import errno
import fcntl
import os
import signal
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing import connection

from estimator_trainer.this_process import parent_process

MODES = ('auto', 'on', 'off')
BOUND_SECS = 30  # for the child; it takes milliseconds unless the kernel is tearing down many

ISOLATED = (
    'isolated: the cluster is in a network namespace of its own, nobody outside reaches its '
    'ports; no network either (--isolate=off for jobs that need one)'
)
ALREADY_ALONE = 'isolated: there is no network here but loopback, nobody outside reaches the ports'
EXPOSED = (
    "without --secure=required, TensorFlow's ports listen on every interface, without authentication: whoever reaches "
    'them runs code in the job; see docs/security.md'
)

_PLACEHOLDERS = frozenset(  # of tunnels
    'tunl0 sit0 gre0 gretap0 erspan0 ip_vti0 ip6_vti0 ip6tnl0 ip6gre0'.split()
)
_CLONE = {'user': 0x10000000, 'net': 0x40000000}  # CLONE_NEWUSER, CLONE_NEWNET
_ATTEMPTS = (('net',), ('user', 'net'))
_SIOCGIFFLAGS, _SIOCSIFFLAGS = 0x8913, 0x8914
_IFREQ = struct.Struct('16sH22x')  # name, flags
_IFF_UP = 1
_LIBC = ctypes.CDLL(None, use_errno=True) if sys.platform == 'linux' else None
has_moved = False  # `make` was called in this process


class CannotIsolate(OSError):
    """--isolate=on, and there is no isolation to be had; the message has the cure."""


@dataclasses.dataclass(frozen=True)
class Isolation:
    """What came of it. `note` is one line for the user, whichever way it went."""

    isolated: bool
    note: str


def enter(mode: str, data: str = '') -> Isolation:
    """Moves this process, which has one thread, into a network of nothing but loopback.

    Call it before a port is claimed: ports in there are others than those out here.

    Args:
      mode: 'off' does nothing; 'auto' goes on without isolation where there is none to be had.
      data: the flag whose data are in a store, for which the tasks need a network; '': there is none.

    Raises:
      CannotIsolate: mode is 'on', and this process is where it was.
    """
    if mode not in MODES:
        raise ValueError(f'{mode!r}: one of {", ".join(MODES)} is wanted')
    if mode == 'off':
        return Isolation(False, f'not isolated (--isolate=off): {EXPOSED}')
    if data and mode == 'auto':
        return Isolation(False, f'not isolated (--{data} is in a store): {EXPOSED}')
    if data:
        raise CannotIsolate(f'--isolate=on: --{data} is in a store, for which the tasks need a network; leave it out')
    try:
        if _alone():
            return Isolation(True, ALREADY_ALONE)
        _move()
        return Isolation(True, ISOLATED)
    except OSError as error:
        why = _why(error)
    if mode == 'on':
        raise CannotIsolate(
            f'--isolate=on: no network namespace can be had here ({why}); --isolate=auto goes on '
            'without one, with ports that others may reach'
        )
    return Isolation(False, f'not isolated ({why}): {EXPOSED}')


def _alone() -> bool:
    """Whether this process is in a network of its own already."""
    if sys.platform != 'linux':
        raise OSError('only Linux has network namespaces')
    with _step('network interfaces'):
        return only_loopback({name: _flags(name) for _, name in socket.if_nameindex()})


def only_loopback(flags: Mapping[str, int]) -> bool:
    """Whether loopback is the only network interface, and up. `flags`: those of each interface, by name.

    An interface that is down counts, because it may come up during the run. The placeholders that some kernels put
    into every namespace do not count.
    """
    up = {name for name, bits in flags.items() if bits & _IFF_UP}
    return flags.keys() - _PLACEHOLDERS == up == {'lo'}


def _move() -> None:
    """Moves this process into a network of its own.

    Raises:
      OSError: there is none to be had; this process has the network that it had.
    """
    with _step('threads'):
        if len(os.listdir('/proc/self/task')) > 1:  # unshare would move one of them
            raise OSError(errno.EINVAL, 'the launcher has more than one')
    make(kinds_that_work())


def kinds_that_work() -> Sequence[str]:
    """The kinds of namespaces with which a forked child has succeeded: what `make` takes.

    Raises:
      OSError: there are none to be had.
    """
    reader, writer = os.pipe()
    parent = os.getpid()
    with _step('fork'):
        child = os.fork()
    if child == 0:
        try:
            parent_process.tie_to_parent(parent)
            os.write(writer, _try().encode())
        finally:  # whatever happened: the caller's code must not run twice
            os._exit(0)
    os.close(writer)  # so that we see when the child is gone
    try:
        with _step('the attempt'):
            if not connection.wait([reader], BOUND_SECS):
                raise TimeoutError
            said = os.read(reader, 4096).decode() or 'the attempt: ended without a word'
    finally:
        os.close(reader)
        # No such child: we were started with SIGCHLD ignored, and the kernel has reaped it.
        with contextlib.suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)  # if it lives, it has no more to say
            _reap(child)
    for kinds in _ATTEMPTS:
        if said == ' '.join(kinds):
            return kinds
    raise OSError(errno.EIO, said)


def _reap(child: int) -> None:
    """Takes the end of a killed child. It stays a zombie if the kernel does not let it go within BOUND_SECS."""
    until = time.monotonic() + BOUND_SECS
    while os.waitpid(child, os.WNOHANG) == (0, 0) and time.monotonic() < until:
        time.sleep(0.001)


def _try() -> str:
    """In the child: the kinds of namespaces that it made, or the reason why there are none."""
    why = ''
    for kinds in _ATTEMPTS:
        try:
            make(kinds)
            return ' '.join(kinds)
        except PermissionError as error:  # always so for an ordinary user's first attempt
            why = _why(error)
        except Exception as error:
            return _why(error)
    return why


def make(kinds: Sequence[str]) -> None:
    """Moves the calling process, which has one thread, into new namespaces with a working `lo`.

    Raises:
      OSError: it is somewhere in between.
    """
    global has_moved
    uid, gid = os.geteuid(), os.getegid()
    has_moved = True
    _call('unshare', sum(_CLONE[kind] for kind in kinds))
    if 'user' in kinds:
        # Where AppArmor lets us make a user namespace, but no use of it, this is the first to fail.
        _write('/proc/self/setgroups', 'deny')  # the kernel wants it before it lets us map a group
        _write('/proc/self/uid_map', f'{uid} {uid} 1')
        _write('/proc/self/gid_map', f'{gid} {gid} 1')
    with _step('lo up'):
        _set_flags('lo', _flags('lo') | _IFF_UP)
    with _step('a connection over lo'), socket.socket() as server, socket.socket() as client:
        server.bind(('127.0.0.1', 0))
        server.listen()
        client.connect(server.getsockname())


def _flags(interface: str) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, _SIOCGIFFLAGS, _IFREQ.pack(interface.encode(), 0))
    return _IFREQ.unpack(answer)[1]


def _set_flags(interface: str, flags: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, _IFREQ.pack(interface.encode(), flags))


def _call(name: str, *args: int) -> None:
    """A function of the C library that returns 0, or sets errno."""
    with _step(name):
        if getattr(_LIBC, name)(*args) != 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))


def _write(path: str, text: str) -> None:
    """In one write, as the kernel wants these files written."""
    with _step(path):
        fd = os.open(path, os.O_WRONLY)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)


@contextlib.contextmanager
def _step(name: str) -> Iterator[None]:
    """Names what failed in the OSErrors from its block."""
    try:
        yield
    except TimeoutError as error:
        raise OSError(errno.ETIMEDOUT, f'{name}: no answer within {BOUND_SECS:g} s') from error
    except OSError as error:
        why = _why(error)
        if error.errno == errno.ENOSPC:  # the kernel's "No space left on device" is not about disks
            why = 'no namespaces left (sysctl user.max_user_namespaces, user.max_net_namespaces)'
        raise OSError(error.errno or errno.EIO, f'{name}: {why}') from error


def _why(error: Exception) -> str:
    return getattr(error, 'strerror', None) or str(error) or type(error).__name__
