"""Tasks of one machine add up arrays through memory that they share. Imports no TensorFlow.

TensorFlow sends what it adds up from task to task with gRPC, which copies each byte several times. Here each task
writes its array into memory of its own that the others can read, tells them so over a socket, and adds up all arrays
in the order of the ranks. So all tasks have the same sum, bit for bit.

A socket ends with its task: a lost one is noticed at once.
"""

import collections
import contextlib
import mmap
import os
import socket
import struct
import threading
import time

import numpy as np

from estimator_trainer.this_process import forks, mapped_memory

_MESSAGE = struct.Struct('<qqq')  # key, or _READ; where the array lies in the sender's memory; its bytes
_READ = -1  # instead of a key: the array there has been read
_HELLO = struct.Struct('<q')


class TaskLost(ConnectionError):
    """A task that takes part is gone. `rank`: which."""

    def __init__(self, rank: int):
        super().__init__(f'task {rank} has closed its connection')
        self.rank = rank


def place() -> str | None:
    """What tasks have in common that can share memory: the running kernel, the namespaces and the user.

    None where this system has no such memory.
    """
    try:
        os.close(os.memfd_create('estimator_trainer'))
        with open('/proc/sys/kernel/random/boot_id') as file:
            boot = file.read().strip()
        namespaces = [os.stat(f'/proc/self/ns/{kind}').st_ino for kind in ('net', 'user')]
        return f'{boot} {namespaces} {os.geteuid()}'
    except (OSError, AttributeError):
        return None


class Listener:
    """Waits for the tasks of higher rank.

    Attributes:
        address: tells the others where, as hexadecimal digits.
    """

    def __init__(self):
        self._socket = _socket()
        self._socket.bind('')  # the kernel chooses a free name, which no file has
        self._socket.listen(4096)
        self.address = self._socket.getsockname().hex()

    def connect(self, rank: int, addresses, timeout_secs: float) -> 'SharedMemory':
        """Connects all tasks. Each calls this, with the addresses of all in the order of their ranks.

        Raises:
            OSError: a task did not connect in time.
        """
        peers = {}
        try:
            for other in range(rank):
                peers[other] = _socket(timeout_secs)
                peers[other].connect(bytes.fromhex(addresses[other]))
                peers[other].send(_HELLO.pack(rank))
            self._socket.settimeout(timeout_secs)
            while len(peers) < len(addresses) - 1:
                accepted, _ = self._socket.accept()
                accepted.settimeout(timeout_secs)
                if _user_of(accepted) == os.geteuid() and len(hello := accepted.recv(_HELLO.size)) == _HELLO.size:
                    peers[_HELLO.unpack(hello)[0]] = accepted
            return SharedMemory(rank, peers)
        except BaseException:
            for peer in peers.values():
                peer.close()
            raise
        finally:
            self._socket.close()


class SharedMemory:
    """This task's connections to the others.

    Args:
        rank: of this task, from 0.
        peers: {rank: connected socket} of the others.

    Attributes:
        size: number of tasks.
    """

    def __init__(self, rank: int, peers):
        self._rank, self.size, self._peers = rank, len(peers) + 1, peers
        self._changed = threading.Condition()  # guards all that follows
        self._arrived: dict = {other: collections.defaultdict(collections.deque) for other in peers}
        self._being_read: set[int] = set()  # peers whose socket a thread reads
        self._free: dict = collections.defaultdict(list)  # {bytes: regions}
        self._readers: dict = {}  # {region: those who read it}
        self._end, self._memory_of, self._mapped = 0, {}, {}
        self._num_waiting = 0
        self._waits: tuple = (None, 0.0)  # since when, or None; seconds before that. Read without the lock
        with forks.none_meanwhile():
            self._memory = os.memfd_create('estimator_trainer')
            forks.in_child(self._close)
        for other in sorted(peers):
            socket.send_fds(peers[other], [b'm'], [self._memory])
        for other in sorted(peers):
            _, descriptors, _, _ = socket.recv_fds(peers[other], 1, 1, socket.MSG_CMSG_CLOEXEC)
            if not descriptors:
                raise TaskLost(other)
            self._memory_of[other] = descriptors[0]
            self._mapped[other] = mapped_memory.Mapping(descriptors[0], mmap.PROT_READ)
            peers[other].settimeout(None)  # the watchdog bounds a step
        self._mapped[rank] = mapped_memory.Mapping(self._memory, mmap.PROT_READ | mmap.PROT_WRITE)

    def waited_secs(self) -> float:
        """How long this task has waited for the arrays of others; time in which several keys wait counts once."""
        since, secs = self._waits
        return secs if since is None else secs + time.monotonic() - since

    def add_up(self, key: int, array, holds_up: bool = True, function=np.add) -> np.ndarray:
        """The sum of the arrays that all tasks give under one key, of the same shape and type.

        Several keys may be added up at the same time, by one thread each. The sums of one key follow each other in the
        same order in every task.

        Args:
            holds_up: the caller can do nothing else meanwhile, and so its wait counts.
            function: of NumPy, in place of the sum: np.minimum, np.maximum or np.multiply.

        Raises:
            TaskLost: a task has ended.
            ValueError: a task gives an array of another size.
        """
        array = np.asarray(array)
        total = mapped_memory.aligned(array)
        if not array.nbytes:
            return total
        for rank, part in enumerate(self.parts(key, array, holds_up)):
            if part.nbytes != array.nbytes:
                raise ValueError(
                    f'task {rank} gives {part.nbytes} bytes, and task {self._rank} {array.nbytes}: do all tasks run '
                    'the same program, with the same flags?'
                )
            part = part.view(array.dtype).reshape(array.shape)
            if rank:
                function(total, part, out=total)
            else:
                np.copyto(total, part)
        return total

    def parts(self, key: int, array, holds_up: bool = True):
        """What the tasks give under one key, in the order of their ranks: arrays of bytes, each of any length. Each is
        valid until the next one is asked for, and all have to be asked for.

        Raises:
            TaskLost: a task has ended.
        """
        array, key = np.asarray(array), int(key)
        where = self._take(array.nbytes) if array.nbytes else 0
        if array.nbytes:
            np.copyto(self._mapped[self._rank].like(array, where), array)
        self._send_all(key, where, array.nbytes)
        for rank in range(self.size):
            if rank == self._rank:  # the memory may have another one as soon as all others have read it
                yield np.ascontiguousarray(array).reshape(-1).view(np.uint8)
                continue
            with self._waiting(holds_up):
                place, size = self._receive(rank, key)
            yield self._mapped[rank].bytes(place, size)
            if size:
                with contextlib.suppress(TaskLost):  # whoever waits for it next will notice
                    self._send(rank, _READ, place, size)

    def _take(self, num_bytes) -> int:
        """Where a region is that no task reads any more."""
        with self._changed:
            region = mapped_memory.region_bytes(num_bytes)
            if not self._free[region]:
                self._read_news()
            if self._free[region]:
                where = self._free[region].pop()
            else:
                where = mapped_memory.room(self._end, region)
                self._end = where + region
                os.ftruncate(self._memory, mapped_memory.piece(where)[1])  # what is not written takes no memory
            self._readers[where] = self.size - 1
            return where

    def _send_all(self, *message):
        for rank in self._peers:
            self._send(rank, *message)

    def _send(self, rank, *message):
        try:
            self._peers[rank].send(_MESSAGE.pack(*message), socket.MSG_NOSIGNAL)
        except OSError as error:
            raise TaskLost(rank) from error

    def _receive(self, rank, key):
        """Waits for a peer's array of this key -> (where, bytes). One thread reads the socket for all of them."""
        arrived = self._arrived[rank]
        with self._changed:
            while not arrived[key]:
                if rank in self._being_read:
                    self._changed.wait()
                    continue
                self._being_read.add(rank)
                self._changed.release()
                try:
                    message = self._read(rank)
                finally:
                    self._changed.acquire()
                    self._being_read.discard(rank)
                    self._changed.notify_all()
                self._note(rank, message)
            message = arrived[key].popleft()
            if not arrived[key]:
                del arrived[key]
            return message

    @contextlib.contextmanager
    def _waiting(self, counts):
        self._count_waiting(+counts)
        try:
            yield
        finally:
            self._count_waiting(-counts)

    def _count_waiting(self, change):
        with self._changed:
            before, self._num_waiting = self._num_waiting, self._num_waiting + change
            since, secs = self._waits
            if not before and self._num_waiting:
                self._waits = time.monotonic(), secs
            elif before and not self._num_waiting:
                self._waits = None, secs + time.monotonic() - since

    def _read_news(self):
        """Takes note of what has come already."""
        for rank in self._peers:
            while rank not in self._being_read and (message := self._read(rank, socket.MSG_DONTWAIT)):
                self._note(rank, message)

    def _read(self, rank, flags=0):
        try:
            message = self._peers[rank].recv(_MESSAGE.size, flags)
        except BlockingIOError:
            return None
        except OSError as error:
            raise TaskLost(rank) from error
        if not message:
            raise TaskLost(rank)
        return _MESSAGE.unpack(message)

    def _note(self, rank, message):
        key, where, num_bytes = message
        if key != _READ:
            self._arrived[rank][key].append((where, num_bytes))
            return
        self._readers[where] -= 1
        if not self._readers[where]:
            self._free[mapped_memory.region_bytes(num_bytes)].append(where)

    def _close(self):
        """In a forked child: a socket that it kept would outlive this task."""
        for peer in self._peers.values():
            peer.close()
        for descriptor in (self._memory, *self._memory_of.values()):
            os.close(descriptor)


def _socket(timeout_secs=None):
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.settimeout(timeout_secs)
    return made


def _user_of(connected) -> int:
    _, user, _ = struct.unpack('3i', connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return user
