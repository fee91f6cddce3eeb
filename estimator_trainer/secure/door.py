"""Incoming connections until it is known who they are. One thread serves all of them, and none can make it wait.

At most HALF_OPEN connections are in a handshake at one time, and each for at most HANDSHAKE_SECS. Where there are more,
one of the address that has most of them is closed: the oldest that has sent nothing, or else the oldest. A handshake
takes milliseconds, so a task of the run gets through beside any number of strangers.
"""

import collections
import contextlib
import selectors
import socket
import ssl
import time
from collections.abc import Callable

from estimator_trainer.secure import channel
from estimator_trainer.secure.refusals import Refusal

HALF_OPEN, HANDSHAKE_SECS = 256, 5
_ACCEPTED_AT_ONCE = 64  # before those that are in a handshake get their turn
_PAUSE_SECS = 0.1  # where there are no descriptors left
_NOTICE_SECS, _MOST_ADDRESSES = 60, 100
OTHERS = 'more addresses'
_ALERT = b'\x15\x03\x03\x00\x02\x02\x28'  # of TLS: the handshake has failed


class Notices:
    """Says who was refused: at most one line for an address in a minute, and for at most _MOST_ADDRESSES of them.

    Args:
        say: gets a line. It must not wait.
    """

    def __init__(self, say: Callable[[str], object], clock: Callable[[], float] = time.monotonic):
        self._say, self._clock = say, clock
        self._said: dict[str, tuple[float, int]] = {}  # address -> when its last line was, how many were refused since

    def refused(self, address: str, why: str) -> None:
        now = self._clock()
        if address not in self._said and len(self._said) >= _MOST_ADDRESSES:
            self._said = {key: value for key, value in self._said.items() if now - value[0] < _NOTICE_SECS}
            if len(self._said) >= _MOST_ADDRESSES:
                address = OTHERS
        at, count = self._said.get(address, (None, 0))
        if at is not None and now - at < _NOTICE_SECS:
            self._said[address] = at, count + 1
            return
        more = f' ({count} more since its last line)' if count else ''
        self._said[address] = now, 0
        self._say(f'refused {address}: {why}{more}')


class _Guest:
    """A connection whose handshake is not done."""

    def __init__(self, connection: ssl.SSLSocket, address: str, until: float):
        self.connection, self.address, self.until = connection, address, until
        self.has_begun = False  # the door has read something of it


class Door:
    """Accepts connections, and hands on those with a certificate of the run.

    Args:
        listener: does not block.
        context: () -> the context of the server, as it is at the moment.
        admit: gets each connection whose handshake is done, and its address. It must not wait.
        notices: says who was refused.
    """

    def __init__(
        self,
        listener: socket.socket,
        context: Callable[[], ssl.SSLContext],
        admit: Callable[[ssl.SSLSocket, str], object],
        notices: Notices,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._listener, self._context, self._admit, self._notices = listener, context, admit, notices
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._guests: collections.OrderedDict[_Guest, None] = collections.OrderedDict()  # the oldest first
        self._of_address: collections.Counter[str] = collections.Counter()
        self._paused_until: float | None = None

    @property
    def half_open(self) -> int:
        return len(self._guests)

    def serve(self) -> None:
        """Never returns."""
        while True:
            self.look()

    def look(self, secs: float = HANDSHAKE_SECS) -> None:
        """Waits until there is something to do, at most `secs`, and does it."""
        self._expire()
        for key, _ in self._selector.select(self._wait(secs)):
            if key.data is None:
                self._accept()
            elif key.data in self._guests:  # else it was closed in this same round
                self._go_on(key.data)

    def _wait(self, secs: float) -> float:
        ends = [next(iter(self._guests)).until] if self._guests else []
        ends += [self._paused_until] if self._paused_until is not None else []
        return max(0.0, min([secs, *(end - self._clock() for end in ends)]))

    def _expire(self) -> None:
        now = self._clock()
        while self._guests and (guest := next(iter(self._guests))).until <= now:
            self._refuse(guest, f'no handshake within {HANDSHAKE_SECS} s')
        if self._paused_until is not None and now >= self._paused_until:
            self._paused_until = None
            self._selector.register(self._listener, selectors.EVENT_READ)

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                raw, place = self._listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:  # it has gone already
                continue
            except OSError:  # no descriptors, or no memory
                self._selector.unregister(self._listener)
                self._paused_until = self._clock() + _PAUSE_SECS
                return
            self._let_in(raw, place[0].removeprefix('::ffff:'))

    def _let_in(self, raw: socket.socket, address: str) -> None:
        if len(self._guests) >= HALF_OPEN:
            most = max(self._of_address, key=self._of_address.__getitem__)
            guests = [guest for guest in self._guests if guest.address == most]
            silent = (guest for guest in guests if not guest.has_begun)
            self._refuse(next(silent, guests[0]), 'too many at one time')
        try:
            raw.setblocking(False)
            channel.tune(raw)
            connection = self._context().wrap_socket(raw, server_side=True, do_handshake_on_connect=False)
        except OSError:
            raw.close()
            return
        guest = _Guest(connection, address, self._clock() + HANDSHAKE_SECS)
        self._guests[guest] = None
        self._of_address[address] += 1
        self._selector.register(connection, selectors.EVENT_READ, guest)

    def _go_on(self, guest: _Guest) -> None:
        guest.has_begun = True
        try:
            guest.connection.do_handshake()
        except ssl.SSLWantReadError:
            self._selector.modify(guest.connection, selectors.EVENT_READ, guest)
        except ssl.SSLWantWriteError:
            self._selector.modify(guest.connection, selectors.EVENT_WRITE, guest)
        except OSError as error:
            self._refuse(guest, why_refused(error), alert=isinstance(error, ssl.SSLError))
        else:
            self._forget(guest)
            self._admit(guest.connection, guest.address)

    def _refuse(self, guest: _Guest, why: str, alert: bool = False) -> None:
        self._forget(guest)
        self._notices.refused(guest.address, why)
        with contextlib.suppress(OSError):
            if alert and why == NO_TLS:  # OpenSSL says nothing to what is no TLS: a task without it learns what is here
                socket.socket.send(guest.connection, _ALERT)
        with contextlib.suppress(OSError):
            guest.connection.close()

    def _forget(self, guest: _Guest) -> None:
        del self._guests[guest]
        self._of_address[guest.address] -= 1
        if not self._of_address[guest.address]:
            del self._of_address[guest.address]
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(guest.connection)


NO_TLS, NO_CERTIFICATE, OTHER_KEY = 'no TLS', 'no certificate', "another run's key"
_SAID_OF = {  # the reason of OpenSSL
    'PEER_DID_NOT_RETURN_A_CERTIFICATE': NO_CERTIFICATE,
    'WRONG_VERSION_NUMBER': NO_TLS,
    'HTTP_REQUEST': NO_TLS,
    'HTTPS_PROXY_REQUEST': NO_TLS,
    'BAD_RECORD_TYPE': NO_TLS,
    'PACKET_LENGTH_TOO_LONG': NO_TLS,
    'RECORD_LAYER_FAILURE': NO_TLS,
    'UNEXPECTED_MESSAGE': NO_TLS,
    'UNSUPPORTED_PROTOCOL': 'an older TLS than 1.3',
}


def why_refused(error: OSError) -> str:
    """Why a handshake has failed, on the side that was called."""
    if channel.refusal_of(error) is Refusal.OTHER_KEY:  # by this side or, in an alert, by the other one
        return OTHER_KEY
    if isinstance(error, ssl.SSLEOFError) or not isinstance(error, ssl.SSLError):
        return 'it has closed without a handshake'
    return _SAID_OF.get(error.reason or '', f'no handshake ({error.reason or "?"})')
