"""Arrays between ranks over TCP, from each rank to each other. Imports no TensorFlow.

A sum is made in two rounds: each rank adds up its own share of all arrays, in the order of the ranks, and sends the sum
to the others. So each rank sends about twice the array, however many ranks there are, and all have the same bits.

A thread for each peer reads what comes, so that a rank which sends never waits for one that computes.
"""

from __future__ import annotations

import collections
import contextlib
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from estimator_trainer.this_process import forks
from estimator_trainer.this_process.shared_memory import TaskLost

_HEADER = struct.Struct('<qq')  # key, bytes
_SILENT_SECS = 20  # after which a host that does not answer is lost
_ASK_EVERY_SECS = 5


class SocketMesh:
    """This rank's connections to all others.

    Args:
        rank: of this process.
        peers: {rank: connected socket} of the others.

    Attributes:
        size: number of ranks.
    """

    def __init__(self, rank: int, peers: dict[int, socket.socket]) -> None:
        self._rank, self.size, self._peers = rank, len(peers) + 1, peers
        with forks.none_meanwhile():
            forks.in_child(self._close)
        self._changed = threading.Condition()  # guards the next two
        self._arrived: dict[int, Any] = {other: collections.defaultdict(collections.deque) for other in peers}
        self._lost: set[int] = set()
        self._sending = {other: threading.Lock() for other in peers}
        for other, peer in peers.items():
            _notice_silence(peer)
            threading.Thread(target=self._read, args=(other, peer), daemon=True).start()

    def add_up(
        self, key: int, array: np.ndarray, holds_up: bool = True, function: Callable[..., Any] = np.add
    ) -> np.ndarray:
        """The sum of the arrays that all ranks give under one key, of the same shape and type.

        The sums of one key follow each other in the same order in every rank.

        Args:
            holds_up: as SharedMemory has it; not used.
            function: of NumPy, in place of the sum.

        Raises:
            TaskLost: a rank has ended.
            ValueError: a rank gives an array of another size.
        """
        flat = np.ascontiguousarray(array).reshape(-1)
        total, bounds = np.empty_like(flat), [flat.size * rank // self.size for rank in range(self.size + 1)]
        shares = [slice(*bounds[rank : rank + 2]) for rank in range(self.size)]
        for other in self._peers:
            self._send(other, key, flat[shares[other]])
        own = total[shares[self._rank]]
        for rank in range(self.size):
            part = flat[shares[rank]] if rank == self._rank else self._receive(rank, key, own)
            if rank:
                function(own, part, out=own)
            else:
                np.copyto(own, part)
        for other in self._peers:
            self._send(other, key, own)
        for other in self._peers:
            total[shares[other]] = self._receive(other, key, total[shares[other]])
        return total.reshape(np.shape(array))

    def parts(self, key: int, array: np.ndarray) -> Iterator[np.ndarray]:
        """What the ranks give under one key, in the order of their ranks: arrays of bytes, each of any length.

        Raises:
            TaskLost: a rank has ended.
        """
        given = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
        for other in self._peers:
            self._send(other, key, given)
        for rank in range(self.size):
            yield given if rank == self._rank else self._next(rank, key)

    def leave(self) -> None:
        """Ends the connections, when all that was sent has been sent."""
        for other, peer in self._peers.items():
            if self._sending[other].acquire(timeout=1):
                with contextlib.suppress(OSError):
                    peer.shutdown(socket.SHUT_WR)
                self._sending[other].release()

    def _close(self) -> None:
        """In a forked child: by a connection that it kept this rank would seem to live on."""
        for peer in self._peers.values():
            peer.close()

    def _send(self, rank: int, key: int, array: np.ndarray) -> None:
        try:
            with self._sending[rank]:
                self._peers[rank].sendall(_HEADER.pack(key, array.nbytes))
                self._peers[rank].sendall(array.view(np.uint8).data)
        except OSError as error:
            raise TaskLost(rank) from error

    def _receive(self, rank: int, key: int, like: np.ndarray) -> np.ndarray:
        """The next array of a key, of the type and size of `like`."""
        received = self._next(rank, key)
        if received.nbytes != like.nbytes:
            raise ValueError(
                f'task {rank} gives {received.nbytes} bytes, and task {self._rank} expects {like.nbytes}: do all tasks '
                'run the same program, with the same flags?'
            )
        return received.view(like.dtype)

    def _next(self, rank: int, key: int) -> np.ndarray:
        arrived = self._arrived[rank]
        with self._changed:
            self._changed.wait_for(lambda: arrived[key] or rank in self._lost)
            if not arrived[key]:
                raise TaskLost(rank)
            first = arrived[key].popleft()
            if not arrived[key]:
                del arrived[key]
            return first

    def _read(self, rank: int, peer: socket.socket) -> None:
        """Reads all that a peer sends, until it has ended."""
        header = bytearray(_HEADER.size)
        try:
            while fill(peer, header):
                key, size = _HEADER.unpack(header)
                array = np.empty(size, np.uint8)
                if not fill(peer, array):
                    break
                with self._changed:
                    self._arrived[rank][key].append(array)
                    self._changed.notify_all()
        except OSError:
            pass
        with self._changed:
            self._lost.add(rank)
            self._changed.notify_all()


def fill(peer: socket.socket, buffer: Any) -> bool:
    """Reads as many bytes as the buffer has. False: the peer has ended."""
    view = memoryview(buffer)
    while view.nbytes:
        size = peer.recv_into(view)
        if not size:
            return False
        view = view[size:]
    return True


def _notice_silence(peer: socket.socket) -> None:
    """Lets the kernel find out that a peer's host is gone, which closes no connection."""
    peer.settimeout(None)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (
        ('TCP_KEEPIDLE', _ASK_EVERY_SECS),
        ('TCP_KEEPINTVL', _ASK_EVERY_SECS),
        ('TCP_KEEPCNT', _SILENT_SECS // _ASK_EVERY_SECS - 1),
        ('TCP_USER_TIMEOUT', _SILENT_SECS * 1000),
    ):
        if hasattr(socket, option):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
