"""The socket addresses of 'host:port'. Whoever asks for them never waits for a name server."""

import collections
import contextlib
import socket
import threading
import time

_THREADS = 4  # that wait for the name server
_AGAIN_SECS = 5  # between two questions for the same name
_MOST_ADDRESSES = 8  # of one name


class Names:
    """Keeps what the name server has said, and what has worked.

    A name is resolved in a thread, of which there are a few while there is anything to resolve. An answer
    is kept until there is a better one: a name server that is away takes nothing back.

    Args:
        resolve: as socket.getaddrinfo.
    """

    def __init__(self, resolve=socket.getaddrinfo, clock=time.monotonic):
        self._resolve, self._clock = resolve, clock
        self._lock = threading.Lock()
        self._known = {}  # address -> [(family, sockaddr)]
        self._asked = {}  # address -> when the name server was asked last; None: it is being asked
        self._wanted, self._threads = collections.deque(), 0

    def of(self, address: str) -> list:
        """What is known of 'host:port': (family, sockaddr). Empty as long as nothing is."""
        known = self._known.get(address) or _numeric(address)
        if not known:
            self.renew(address)
        return known

    def keep(self, address: str, sockaddr) -> None:
        """From here on this one of its socket addresses is the only one."""
        self._known[address] = [sockaddr]

    def renew(self, address: str) -> None:
        """Asks the name server, unless it was asked a moment ago. Returns at once."""
        if _numeric(address):
            return
        with self._lock:
            asked = self._asked.get(address, float('-inf'))
            if asked is None or self._clock() - asked < _AGAIN_SECS:
                return
            self._asked[address] = None
            self._wanted.append(address)
            if self._threads == _THREADS:
                return
            self._threads += 1
        try:
            threading.Thread(target=self._work, name='names', daemon=True).start()
        except RuntimeError:  # none can be started: the interpreter is leaving, or there are too many
            with self._lock:
                self._threads -= 1
                self._wanted.clear()
                self._asked = {name: self._clock() if at is None else at for name, at in self._asked.items()}

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._wanted:
                    self._threads -= 1
                    return
                address = self._wanted.popleft()
            found = _resolved(self._resolve, address)
            with self._lock:
                self._asked[address] = self._clock()
                if found:
                    self._known[address] = found


def _numeric(address) -> list:
    """The socket address of 'host:port' if the host is an IP address."""
    return _resolved(socket.getaddrinfo, address, flags=socket.AI_NUMERICHOST)


def _resolved(resolve, address, **kwargs) -> list:
    host, _, port = address.rpartition(':')
    with contextlib.suppress(OSError, UnicodeError, ValueError):  # UnicodeError: what no name can be
        found = resolve(host.strip('[]'), int(port), type=socket.SOCK_STREAM, **kwargs)
        return [(family, sockaddr) for family, _, _, _, sockaddr in found][:_MOST_ADDRESSES]
    return []
