"""What somebody who has no key sees at the port of a task."""

import enum
import socket
import ssl

SECS = 10
_PREFACE = (
    b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + b'\0\0\0\4\0\0\0\0\0'
)  # RFC 9113, 3.4: of a client, with empty SETTINGS
_SETTINGS = 4  # the type of the server's first frame, its fourth byte


class Seen(enum.Enum):
    """What there is to see. The text says what it means."""

    WANTS_CERTIFICATE = 'a TLS server that wants a certificate: nobody without the key of the run gets through'
    TLS = 'a TLS server that lets everybody in; it is no task with --secure'
    GRPC = (
        'plain gRPC, such as a TensorFlow server: whoever reaches this port can run any graph, with all rights of the '
        "job's user"
    )
    OTHER = 'something that speaks neither TLS nor gRPC'
    CLOSED = 'closed: nobody listens'
    NO_ANSWER = 'no answer: a firewall, or no such machine'

    @property
    def is_open(self) -> bool:
        """Whether strangers can do something there."""
        return self in (Seen.TLS, Seen.GRPC, Seen.OTHER)


def look(host: str, port: int, secs: float = SECS) -> Seen:
    """Connects twice: with TLS, and if that is not what is spoken there, as a client of gRPC.

    Raises:
        OSError: the host has no address.
    """
    try:
        with socket.create_connection((host, port), secs) as connection:
            seen = _by_tls(connection)
        if seen:
            return seen
        with socket.create_connection((host, port), secs) as connection:
            return _by_grpc(connection)
    except socket.gaierror:
        raise
    except UnicodeError:  # a part of the name is empty or too long
        raise socket.gaierror(socket.EAI_NONAME, 'no such name can be') from None
    except ConnectionRefusedError:
        return Seen.CLOSED
    except OSError:
        return Seen.NO_ANSWER


def _by_tls(connection: socket.socket) -> Seen | None:
    """None: it speaks no TLS."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    speaks_tls = False
    try:
        with context.wrap_socket(connection) as stranger:
            speaks_tls = True
            # A server of TLS 1.3 looks at certificates after the client's handshake. Whoever sends it something before
            # it has closed may lose its alert: what was not read makes the close a reset.
            stranger.recv(1)
    except TimeoutError:
        return Seen.TLS if speaks_tls else None
    except ssl.SSLError as error:
        return Seen.WANTS_CERTIFICATE if 'CERTIFICATE_REQUIRED' in (error.reason or '').upper() else None
    except OSError:
        return None
    return Seen.TLS


def _by_grpc(connection: socket.socket) -> Seen:
    try:
        connection.sendall(_PREFACE)
        header = connection.recv(9)
    except OSError:
        return Seen.OTHER
    return Seen.GRPC if len(header) > 3 and header[3] == _SETTINGS else Seen.OTHER
