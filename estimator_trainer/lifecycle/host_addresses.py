"""Finds the socket addresses of 'host:port'. The caller never waits for a name server."""

import collections
import contextlib
import socket
import threading
import time
from collections.abc import Callable

_THREADS = 4  # that may wait for the name server at one time
_AGAIN_SECS = 5  # between two questions for the same name
_MOST_ADDRESSES = 8  # of one name


class Addresses:
    """Keeps the answers of the name server, and the socket addresses that have worked.

    A few threads ask the name server while there is something to ask. An answer is kept until a newer one comes:
    it is not forgotten when the name server is away.

    Args:
        resolve: as socket.getaddrinfo.
    """

    def __init__(self, resolve: Callable[..., list] = socket.getaddrinfo, clock: Callable[[], float] = time.monotonic):
        self._resolve, self._clock = resolve, clock
        self._lock = threading.Lock()
        self._known: dict[str, list[tuple]] = {}  # address -> [(family, sockaddr)]
        self._asked: dict[str, float | None] = {}  # address -> when the last question was over; None: one is under way
        self._queue: collections.deque[str] = collections.deque()
        self._threads = 0

    def lookup(self, address: str) -> list[tuple]:
        """The known socket addresses of 'host:port', as (family, sockaddr). Empty while none is known."""
        known = self._known.get(address) or _numeric(address)
        if not known:
            self.renew(address)
        return known

    def keep(self, address: str, sockaddr: tuple) -> None:
        """Makes this the only socket address of `address`, until the name server is asked again."""
        self._known[address] = [sockaddr]

    def renew(self, address: str) -> None:
        """Asks the name server in a thread, unless it has just been asked. Returns at once."""
        if _numeric(address):
            return
        with self._lock:
            asked = self._asked.get(address, float('-inf'))
            if asked is None or self._clock() - asked < _AGAIN_SECS:
                return
            self._asked[address] = None
            self._queue.append(address)
            if self._threads == _THREADS:
                return
            self._threads += 1
        try:
            threading.Thread(target=self._work, name='names', daemon=True).start()
        except RuntimeError:  # no thread can be started: the interpreter is leaving, or there are too many threads
            with self._lock:
                self._threads -= 1
                self._queue.clear()
                self._asked = {name: self._clock() if at is None else at for name, at in self._asked.items()}

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._queue:
                    self._threads -= 1
                    return
                address = self._queue.popleft()
            resolved = _resolved(self._resolve, address)
            with self._lock:
                self._asked[address] = self._clock()
                if resolved:
                    self._known[address] = resolved


def _numeric(address: str) -> list[tuple]:
    """The socket address of 'host:port' if the host is an IP address."""
    return _resolved(socket.getaddrinfo, address, flags=socket.AI_NUMERICHOST)


def _resolved(resolve: Callable[..., list], address: str, **kwargs: int) -> list[tuple]:
    host, _, port = address.rpartition(':')
    with contextlib.suppress(OSError, UnicodeError, ValueError):  # UnicodeError: no name looks like this
        answers = resolve(host.strip('[]'), int(port), type=socket.SOCK_STREAM, **kwargs)
        return [(family, sockaddr) for family, _, _, _, sockaddr in answers][:_MOST_ADDRESSES]
    return []
