"""Carries bytes between two sockets in both directions, in the thread that calls it, until one of them ends."""

import contextlib
import select
import socket
import ssl
import time

_BUFFER_BYTES = 256 * 1024
_CLOSE_SECS = 1
_AGAIN = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class _Direction:
    """Bytes on their way from one socket to the other. They are read only when all earlier ones are gone."""

    def __init__(self, source: socket.socket, target: socket.socket):
        self.source, self.target = source, target
        self._buffer = memoryview(bytearray(_BUFFER_BYTES))
        self.waiting = self._buffer[:0]  # read, and not written yet
        self.ended = False

    def move(self) -> bool:
        """Moves what can be moved without waiting. Returns whether anything was."""
        moved = False
        if not self.waiting and not self.ended:
            moved = self._read()
        if self.waiting:
            with contextlib.suppress(*_AGAIN):
                written = self.target.send(self.waiting)
                self.waiting = self.waiting[written:]
                moved = moved or written > 0
        return moved

    def _read(self) -> bool:
        """Fills the buffer: TLS gives 16 KiB at a time."""
        size = 0
        with contextlib.suppress(*_AGAIN):
            while size < _BUFFER_BYTES:
                more = self.source.recv_into(self._buffer[size:])
                if not more:
                    self.ended = True
                    break
                size += more
        self.waiting = self._buffer[:size]
        return size > 0


def _close(target: socket.socket) -> None:
    """Lets what was sent last arrive: the kernel drops it where a socket is closed that holds something unread."""
    socket.socket.shutdown(target, socket.SHUT_WR)
    target.settimeout(_CLOSE_SECS)
    until = time.monotonic() + _CLOSE_SECS
    while time.monotonic() < until and socket.socket.recv(target, _BUFFER_BYTES):
        pass


def carry(one: socket.socket, other: socket.socket) -> None:
    """Returns once one of them has ended and what it had sent is written, or one of them has failed. Closes both."""
    with one, other, contextlib.suppress(OSError):
        one.setblocking(False)
        other.setblocking(False)
        there, back = _Direction(one, other), _Direction(other, one)
        poll = select.poll()
        while True:
            if there.move() | back.move():
                continue
            if done := [way.target for way in (there, back) if way.ended and not way.waiting]:
                _close(done[0])
                return
            for way, reverse in ((there, back), (back, there)):
                reads = 0 if way.waiting or way.ended else select.POLLIN
                events = reads | (select.POLLOUT if reverse.waiting else 0)
                if events:
                    poll.register(way.source, events)
                else:  # else its end would wake us again and again
                    with contextlib.suppress(KeyError):
                        poll.unregister(way.source)
            poll.poll()


def say_and_close(client: socket.socket, text: bytes) -> None:
    """What is sent last has to be read before the connection is gone, though the client may have sent something."""
    client.settimeout(_CLOSE_SECS)
    client.sendall(text)
    client.shutdown(socket.SHUT_WR)
    while client.recv(1 << 16):
        pass
