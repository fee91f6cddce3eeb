"""Why a task does not get through to another one, and how its companion says so.

TensorFlow and the probes of the peers speak HTTP/2 to what they take for the other task. Its companion answers with a
GOAWAY frame in place of the greeting (RFC 9113, 6.8). TensorFlow takes that for a server that is not ready.
"""

import contextlib
import enum
import struct

_FRAME = struct.Struct('>3sBB4sII')  # the header of an HTTP/2 frame, and the two numbers of a GOAWAY
_GOAWAY = 7
FRAME_BYTES = _FRAME.size


class Refusal(enum.Enum):
    """Why a connection to another task came to nothing. The number goes to those who ask, in a GOAWAY of HTTP/2."""

    NOBODY_LISTENS = 0x7
    SILENT = 0xA
    OTHER_KEY = 0xE7A1
    OTHER_ATTEMPT = 0xE7A2
    OTHER_TASK = 0xE7A3
    NO_TLS = 0xE7A4

    def frame(self) -> bytes:
        """What the client of an HTTP/2 server gets in place of a greeting. TensorFlow tries again later."""
        return _FRAME.pack((8).to_bytes(3, 'big'), _GOAWAY, 0, bytes(4), 0, self.value)


WORDS = {
    Refusal.OTHER_KEY: "another run's key",
    Refusal.OTHER_ATTEMPT: 'the key of another attempt',
    Refusal.OTHER_TASK: 'another task answers there',
    Refusal.NO_TLS: 'it speaks no TLS: it runs without --secure',
}


def refusal_in(frame: bytes) -> Refusal | None:
    """The refusal that a frame of a companion holds; None: it is another frame."""
    if len(frame) != _FRAME.size:
        return None
    _, kind, _, _, _, number = _FRAME.unpack(frame)
    with contextlib.suppress(ValueError):
        return Refusal(number) if kind == _GOAWAY else None
    return None
