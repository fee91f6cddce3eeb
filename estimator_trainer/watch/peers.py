"""Are the other tasks alive? Asked of their TensorFlow port itself, so that no second port is needed.

A TensorFlow server speaks gRPC, which is HTTP/2: a server greets every client with a SETTINGS frame
(RFC 9113, 3.4). It is the process that greets, not the kernel: the port of a process that is stopped
or frozen still takes connections, and says nothing.
"""

import concurrent.futures
import dataclasses
import socket
import time
from typing import Mapping, Optional

_CLIENT_PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + b'\0\0\0' + b'\x04' + b'\0' + b'\0\0\0\0'
_FRAME_HEADER_BYTES = 9
_SETTINGS = 4  # the frame's type, its fourth byte
PROBE_SECS = 3
CLOSED_SECS = 4  # a server that has answered closes its port as it ends; a link that is down does not
_PROBES_AT_A_TIME = 32


def answers(address: str, timeout_secs: float = PROBE_SECS) -> bool:
    """Whether a gRPC server at 'host:port' greets within `timeout_secs`."""
    host, _, port = address.rpartition(':')
    deadline = time.monotonic() + timeout_secs
    try:
        with socket.create_connection((host.strip('[]'), int(port)), timeout_secs) as connection:
            connection.sendall(_CLIENT_PREFACE)
            header = b''
            while len(header) < _FRAME_HEADER_BYTES:
                connection.settimeout(max(0.001, deadline - time.monotonic()))
                more = connection.recv(_FRAME_HEADER_BYTES - len(header))
                if not more:
                    return False
                header += more
            return header[3] == _SETTINGS
    except (OSError, UnicodeError):  # UnicodeError: a host's name that no name can be
        return False


@dataclasses.dataclass(frozen=True)
class Gone:
    """A peer that is not there. `secs`: since its last answer, or since the watch began."""
    name: str
    address: str
    ever_seen: bool
    secs: float


class PeerWatch:
    """Keeps account of when each peer last answered.

    Args:
        peers: name -> address.
        join_secs: how long a peer may take to answer for the first time.
        lost_secs: how long one that has answered may be silent; CLOSED_SECS if its port is closed.
        any_is_enough: the peers are lost only when all of them are, and may come back. A parameter server
            goes on for the workers that are left.
        probe: addresses -> those that answer.
        closed: addresses -> those whose port is closed.
        now: seconds, monotonic.
    """

    def __init__(self, peers: Mapping[str, str], join_secs: float, lost_secs: float,
                 any_is_enough: bool = False, probe=None, closed=None, now: Optional[float] = None):
        self._peers = dict(peers)
        self._join_secs, self._lost_secs = join_secs, lost_secs
        self._any_is_enough = any_is_enough
        self._probe, self._closed = probe or answering, closed or refusing
        self._began = time.monotonic() if now is None else now
        self._seen, self._closed_since = {}, {}

    def look(self, clock=time.monotonic) -> Optional[Gone]:
        """Asks every peer once. The one that has been silent for too long, if any."""
        if not self._peers:
            return None
        there = self._probe(list(self._peers.values()))
        now = clock()
        self._seen.update({name: now for name, address in self._peers.items() if address in there})
        self._look_for_closed(now)
        gone = [self._gone(name, now) for name in self._peers]
        too_long = [peer for peer in gone
                    if peer.secs >= (self._lost_secs if peer.ever_seen else self._join_secs)
                    or now - self._closed_since.get(peer.name, now) >= CLOSED_SECS]
        if self._any_is_enough and len(too_long) < len(self._peers):
            return None
        return too_long[0] if too_long else None

    def _look_for_closed(self, now) -> None:
        """Keeps account of the peers that have answered, and whose ports have been closed since."""
        silent = {name: self._peers[name] for name, seen in self._seen.items() if seen < now}
        closed = self._closed(list(silent.values())) if silent and not self._any_is_enough else ()
        self._closed_since = {name: self._closed_since.get(name, now)
                              for name, address in silent.items() if address in closed}

    def missing_now(self) -> list:
        """The peers that do not answer at this moment."""
        there = self._probe(list(self._peers.values()))
        now = time.monotonic()
        return [self._gone(name, now) for name, address in self._peers.items()
                if address not in there]

    def _gone(self, name, now) -> Gone:
        seen = self._seen.get(name)
        return Gone(name, self._peers[name], seen is not None,
                    now - (self._began if seen is None else seen))


def refuses(address: str) -> bool:
    """Whether the machine of 'host:port' says that nobody listens there."""
    host, _, port = address.rpartition(':')
    try:
        socket.create_connection((host.strip('[]'), int(port)), PROBE_SECS).close()
        return False
    except (OSError, UnicodeError) as error:
        return isinstance(error, ConnectionRefusedError)


def answering(addresses) -> set:
    """Those of the addresses that answer, asked all at once."""
    return _those(answers, addresses)


def refusing(addresses) -> set:
    """Those of the addresses that refuse, asked all at once."""
    return _those(refuses, addresses)


def _those(satisfy, addresses) -> set:
    if not addresses:
        return set()
    with concurrent.futures.ThreadPoolExecutor(min(len(addresses), _PROBES_AT_A_TIME)) as pool:
        return {address for address, yes in zip(addresses, pool.map(satisfy, addresses)) if yes}
