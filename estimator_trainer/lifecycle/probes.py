"""Asks many TensorFlow servers at once, in one thread and within a few seconds, whether they are there.

A TensorFlow server speaks gRPC, which is HTTP/2: the server greets every client with a SETTINGS frame
(RFC 9113, 3.4). A connection alone proves nothing, for the kernel accepts it even if the process is stopped or
frozen. Only a running process sends the frame.
"""

import collections
import contextlib
import enum
import errno
import os
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from estimator_trainer.secure import refusals
from estimator_trainer.secure.refusals import Refusal

PROBE_SECS = 3
_LATE_ROUNDS, _LATE_SECS = 2, 0.1  # one round to send, one to receive
_THREADS = 4  # that may wait for the name server at one time
_AGAIN_SECS = 5  # between two questions for the same name
_MOST_ADDRESSES = 8  # of one name

_CLIENT_PREFACE = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + b'\0\0\0' + b'\x04' + b'\0' + b'\0\0\0\0'
_FRAME_HEADER_BYTES = 9
_SETTINGS = 4  # the frame's type, its fourth byte
_UNDER_WAY = (0, errno.EINPROGRESS)


class Answer(enum.Enum):
    """The result of a probe."""

    GREETS = 'greets'
    REFUSES = 'refuses'  # the machine answers that nobody listens on the port
    SILENT = 'silent'
    # Somebody answers, and is not the peer, or does not take this task for one.
    OTHER_KEY = "refused: another run's key"
    OTHER_ATTEMPT = 'refused: the key of another attempt'
    OTHER_TASK = 'refused: another task answers there'
    NO_TLS = 'refused: it runs without --secure'
    WANTS_TLS = 'refused: it runs with --secure, and this task without'
    NOT_ASKED = 'not asked'  # this process could not send the probe: it lacks file descriptors, for instance

    @property
    def is_refusal(self) -> bool:
        return self.value.startswith('refused: ')


_TLS_ALERT = b'\x15\x03'  # how it begins
_OF_REFUSAL = {  # by the companion of this task
    Refusal.NOBODY_LISTENS: Answer.REFUSES,
    Refusal.SILENT: Answer.SILENT,
    Refusal.OTHER_KEY: Answer.OTHER_KEY,
    Refusal.OTHER_ATTEMPT: Answer.OTHER_ATTEMPT,
    Refusal.OTHER_TASK: Answer.OTHER_TASK,
    Refusal.NO_TLS: Answer.NO_TLS,
}
_ERRORS: dict[int | None, Answer] = {
    errno.ECONNREFUSED: Answer.REFUSES,
    **dict.fromkeys((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.EADDRNOTAVAIL), Answer.NOT_ASKED),
}


class Addresses:
    """Finds the socket addresses of 'host:port'. The caller never waits for a name server.

    It keeps the answers of the name server, and the socket addresses that have worked.

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


class Prober:
    """Probes addresses 'host:port'. It never waits for the name server: Addresses asks that one in threads.

    Args:
        may_move: a server that has greeted may come back with the same name on another machine.
        ways: address -> the one that is probed in its place.
    """

    def __init__(self, may_move: bool = False, names: Addresses | None = None, ways: Mapping[str, str] | None = None):
        self._may_move, self._names = may_move, names or Addresses()
        self._ways = ways or {}
        self._greeted: set[str] = set()

    def __call__(self, addresses: Iterable[str]) -> dict[str, Answer]:
        """The Answer of each address, within PROBE_SECS."""
        asked = {address: self._ways.get(address, address) for address in addresses}
        answers = ask({way: self._names.lookup(way) for way in asked.values()})
        for way, (answer, sockaddr) in answers.items():
            if answer is Answer.GREETS and sockaddr is not None:
                self._greeted.add(way)
                self._names.keep(way, sockaddr)
            elif answer is not Answer.NOT_ASKED and (self._may_move or way not in self._greeted):
                self._names.renew(way)
        return {address: answers[way][0] for address, way in asked.items()}


def ask(sockaddrs: Mapping[str, Sequence[tuple]], secs: float = PROBE_SECS) -> dict[str, tuple[Answer, tuple | None]]:
    """Probes all addresses at once, in this thread.

    Args:
        sockaddrs: address -> its socket addresses (family, sockaddr). It tries all of them; an address that has none
            is SILENT.

    Returns:
        address -> (Answer, the socket address that greets or None)
    """
    deadline = time.monotonic() + secs
    probes = {address: [_Probe(sockaddr) for sockaddr in known] for address, known in sockaddrs.items()}
    with contextlib.ExitStack() as stack:
        selector = stack.enter_context(selectors.PollSelector())  # unlike epoll, it needs no descriptor
        for of_address in probes.values():
            for probe in of_address:
                stack.callback(probe.close)
                events = probe.step(probe.connect)
                if events:
                    selector.register(probe.socket, events, (probe, of_address))
        late = 0  # rounds after the deadline: other threads may have kept this one from reading its answers
        while selector.get_map() and late < _LATE_ROUNDS:
            left = deadline - time.monotonic()
            ready = selector.select(max(left, _LATE_SECS))
            late += left <= 0
            if late and not ready:
                break
            for key, _ in ready:
                probe, of_the_same = key.data
                events = probe.step(probe.go_on)
                if events:
                    selector.modify(probe.socket, events, key.data)
                for other in of_the_same if probe.answer is Answer.GREETS else [probe] * (not events):
                    with contextlib.suppress(KeyError, ValueError):  # it was unregistered before
                        selector.unregister(other.socket)
    return {address: _combined(of_address) for address, of_address in probes.items()}


def _combined(probes: Sequence['_Probe']) -> tuple[Answer, tuple | None]:
    """The answer of one server, from the answers of its socket addresses."""
    answers = [probe.answer for probe in probes]
    if Answer.GREETS in answers:
        return Answer.GREETS, probes[answers.index(Answer.GREETS)].sockaddr
    if Answer.NOT_ASKED in answers:
        return Answer.NOT_ASKED, None
    refusal = next((answer for answer in answers if answer.is_refusal), Answer.SILENT)
    return (Answer.REFUSES if set(answers) == {Answer.REFUSES} else refusal), None


class _Probe:
    """A probe of one socket address."""

    def __init__(self, sockaddr: tuple):
        self.sockaddr, self.answer = sockaddr, Answer.SILENT
        self.socket: Any = None  # once it connects
        self._said, self._asked = b'', False

    def step(self, function: Callable[[], int]) -> int:
        """Calls `connect` or `go_on`. Returns the events to wait for; 0: the probe is over, see `answer`."""
        try:
            return function()
        except OSError as error:
            self.answer = _ERRORS.get(error.errno, Answer.SILENT)
            return 0

    def connect(self) -> int:
        family, address = self.sockaddr
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.setblocking(False)
        _raise_for(self.socket.connect_ex(address))
        return selectors.EVENT_WRITE

    def go_on(self) -> int:
        if not self._asked:
            _raise_for(self.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR))
            self.socket.send(_CLIENT_PREFACE)
            self._asked = True
            return selectors.EVENT_READ
        more = self.socket.recv(refusals.FRAME_BYTES - len(self._said))
        self._said += more
        if len(self._said) >= _FRAME_HEADER_BYTES and self._said[3] == _SETTINGS:
            self.answer = Answer.GREETS
        elif more and len(self._said) < refusals.FRAME_BYTES:
            return selectors.EVENT_READ
        elif refusal := refusals.refusal_in(self._said):
            self.answer = _OF_REFUSAL[refusal]
        elif self._said.startswith(_TLS_ALERT):
            self.answer = Answer.WANTS_TLS
        return 0

    def close(self) -> None:
        if self.socket is not None:
            self.socket.close()


def _raise_for(number: int) -> None:
    if number not in _UNDER_WAY:
        raise OSError(number, os.strerror(number))


def _numeric(address: str) -> list[tuple]:
    """The socket address of 'host:port' if the host is an IP address."""
    return _resolved(socket.getaddrinfo, address, flags=socket.AI_NUMERICHOST)


def _resolved(resolve: Callable[..., list], address: str, **kwargs: int) -> list[tuple]:
    host, _, port = address.rpartition(':')
    with contextlib.suppress(OSError, UnicodeError, ValueError):  # UnicodeError: no name looks like this
        answers = resolve(host.strip('[]'), int(port), type=socket.SOCK_STREAM, **kwargs)
        return [(family, sockaddr) for family, _, _, _, sockaddr in answers][:_MOST_ADDRESSES]
    return []
