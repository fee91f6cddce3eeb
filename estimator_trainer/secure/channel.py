"""The TLS between companions: both sides show a certificate of the run, and each looks at the name and the attempt in
the other's.

After the handshake the side that was called says one byte (`Verdict`). Only then is anything of TensorFlow's sent.
"""

import contextlib
import enum
import errno
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from estimator_trainer.secure.refusals import Refusal

_KNOWN_SECS = 2  # for a connection to a socket address that has worked
KEEP_ALIVE_SECS, LOST_SECS = 10, 30  # of a connection whose other machine answers nothing
# The alerts of a server that does not accept a certificate.
_UNKNOWN_CERTIFICATE = ('UNKNOWN_CA', 'CERTIFICATE', 'DECRYPT_ERROR', 'ACCESS_DENIED')


class Credentials(NamedTuple):
    """What a companion needs for TLS, each as PEM."""

    certificate: bytes
    private_key: bytes
    authority: bytes  # the certificate of the run


class Verdict(enum.Enum):
    """What the side that was called says after the handshake."""

    WELCOME = b'+'
    NOBODY_LISTENS = b'-'  # its TensorFlow has no server yet, or does not know the attempt yet
    OTHER_ATTEMPT = b'a'


class Refused(Exception):
    """There is no connection. `args`: the Refusal, and what more is known."""

    @property
    def refusal(self) -> Refusal:
        return self.args[0]


class Identity(NamedTuple):
    """Whose certificate it is: a task, and the attempt by `run_key.name_of_attempt`."""

    task: str
    attempt: str


class Routes:
    """Connects to 'host:port'. A socket address that has worked is tried first: a connection then needs no name server,
    and who is there proves by TLS who it is."""

    def __init__(self) -> None:
        self._worked: dict[str, tuple[int, Any]] = {}  # address -> (family, sockaddr)

    @contextlib.contextmanager
    def to(self, address: str, secs: float) -> Iterator[socket.socket]:
        """A connection, within `secs`. Its socket address is kept if the body does not raise. Raises Refused."""
        try:
            raw = self._known(address) or self._named(address, secs)
            tune(raw)
            worked = raw.family, raw.getpeername()
        except (OSError, UnicodeError) as error:  # UnicodeError: no name looks like this
            raise Refused(refusal_of(error), str(error)) from None
        try:
            yield raw
        except Refused:
            self._worked.pop(address, None)
            raise
        self._worked[address] = worked

    def _known(self, address: str) -> socket.socket | None:
        worked = self._worked.get(address)
        if worked is None:
            return None
        family, sockaddr = worked
        raw = socket.socket(family, socket.SOCK_STREAM)
        try:
            raw.settimeout(_KNOWN_SECS)
            raw.connect(sockaddr)
        except OSError:
            raw.close()
            self._worked.pop(address, None)
            return None
        return raw

    def _named(self, address: str, secs: float) -> socket.socket:
        host, _, port = address.rpartition(':')
        try:
            return socket.create_connection((host.strip('[]'), int(port)), secs)
        except UnicodeError:  # a part of the name is empty or too long
            raise OSError(errno.EADDRNOTAVAIL, f'{host} cannot be the name of a host') from None


def server_context(credentials: Credentials) -> ssl.SSLContext:
    """Asks clients for a certificate of the run. A session is never resumed: each connection proves who it is."""
    context = _context(ssl.PROTOCOL_TLS_SERVER, credentials)
    context.num_tickets = 0
    return context


def client_context(credentials: Credentials) -> ssl.SSLContext:
    return _context(ssl.PROTOCOL_TLS_CLIENT, credentials)


def _context(protocol: int, credentials: Credentials) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False  # certificates name tasks, not hosts
    context.verify_mode = ssl.CERT_REQUIRED
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.load_verify_locations(cadata=credentials.authority.decode())
    # The module takes files only. This one is in memory, and goes away here.
    descriptor = os.memfd_create('certificate', os.MFD_CLOEXEC)
    try:
        os.write(descriptor, credentials.certificate + credentials.private_key)
        context.load_cert_chain(f'/proc/self/fd/{descriptor}')
    finally:
        os.close(descriptor)
    return context


def identity_of(connection: ssl.SSLSocket) -> Identity:
    """The identity in the certificate of the other side, once the handshake is done."""
    certificate: Any = connection.getpeercert() or {}
    fields = dict(field for part in certificate['subject'] for field in part)
    return Identity(fields.get('commonName', ''), fields.get('organizationalUnitName', ''))


def tune(connection: socket.socket) -> None:
    """No delays, and an end of connections to machines that are gone."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEP_ALIVE_SECS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEP_ALIVE_SECS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, LOST_SECS * 1000)


def call(
    raw: socket.socket, context: ssl.SSLContext, task: str, check: Callable[[Identity], None], secs: float
) -> ssl.SSLSocket:
    """Makes a connected socket a connection to the companion of a task. It closes the socket where that fails.

    Args:
        check: raises Refused if the identity of the other side is not wanted.
        secs: for the handshake, and again for the verdict.

    Raises:
        Refused: it is none.
    """
    with contextlib.ExitStack() as stack:
        stack.callback(raw.close)
        raw.settimeout(secs)
        try:
            connection = context.wrap_socket(raw)
            stack.callback(connection.close)
            identity = identity_of(connection)
            if identity.task != task:
                raise Refused(Refusal.OTHER_TASK, identity.task)
            check(identity)
            said = connection.recv(1)
        except OSError as error:
            raise Refused(refusal_of(error), str(error)) from None
        if said == Verdict.OTHER_ATTEMPT.value:
            raise Refused(Refusal.OTHER_ATTEMPT)
        if said != Verdict.WELCOME.value:
            raise Refused(Refusal.NOBODY_LISTENS if said == Verdict.NOBODY_LISTENS.value else Refusal.SILENT)
        stack.pop_all()
    return connection


def refusal_of(error: Exception) -> Refusal:
    """What an error of a connection says, on the side that has called."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return Refusal.OTHER_KEY
    if isinstance(error, ssl.SSLEOFError):
        return Refusal.SILENT
    if isinstance(error, ssl.SSLError):
        reason = error.reason or ''
        is_alert = 'ALERT' in reason
        if is_alert and any(word in reason for word in _UNKNOWN_CERTIFICATE):
            return Refusal.OTHER_KEY
        return Refusal.SILENT if is_alert else Refusal.NO_TLS
    return Refusal.NOBODY_LISTENS if isinstance(error, ConnectionRefusedError) else Refusal.SILENT
