"""Finds where each record of a TFRecord or CSV file begins. Imports no TensorFlow.

A TFRecord file is a row of frames: the length of the data (8 bytes, little-endian), a checksum of the length (4), the
data, and a checksum of the data (4). See tensorflow/core/lib/io/record_writer.h.
"""

import array
import struct
from collections.abc import Sequence
from typing import Protocol

import google_crc32c
import numpy as np

from estimator_trainer.errors import BadExample

HEADER_BYTES, FOOTER_BYTES = 12, 4
CHUNK_BYTES = 32 * 2**20
SMALL_CHUNK_BYTES = 2**16
_CHUNK_RECORDS = 2**20
_QUOTE, _NEWLINE, _RETURN = 34, 10, 13
_BOM = b'\xef\xbb\xbf'


class Readable(Protocol):
    """The bytes of a file: borders.Held or contents.OfFile."""

    size: int

    def read(self, start: int, size: int) -> bytes:
        """At most `size` bytes from `start` on; fewer at the end of the file."""


class Held:
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._data, self.size = data, len(data)

    def read(self, start: int, size: int) -> bytes:
        return self._data[start : start + size]


def of_tfrecord(data: Readable, path: str) -> np.ndarray:
    """The byte at which each frame begins, and the end of the last one: int64 [records + 1].

    Args:
        data: the bytes of the file.
        path: its path, for messages.

    Raises:
        BadExample: a length is damaged, or the file ends inside a frame. Later frames cannot be found.
    """
    position, size, unpack, count = 0, CHUNK_BYTES, struct.Struct('<Q').unpack_from, 0
    parts: list[np.ndarray] = []
    while data.size - position >= HEADER_BYTES:
        first, chunk, in_chunk = position, data.read(position, size), array.array('q')
        last = len(chunk) - HEADER_BYTES
        while position - first <= last:
            in_chunk.append(position - first)
            position += unpack(chunk, position - first)[0] + HEADER_BYTES + FOOTER_BYTES
        part = np.frombuffer(in_chunk, np.int64)
        _check_headers(np.frombuffer(chunk, np.uint8), part, path, first, count)
        parts.append(part + first)
        count += len(part)
        # Large records are skipped: little more than their headers is read.
        size = SMALL_CHUNK_BYTES if position - first > len(part) * SMALL_CHUNK_BYTES else CHUNK_BYTES
    starts = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    if position != data.size:
        whole = count - (position > data.size)
        begins = starts[-1] if position > data.size else position
        raise BadExample(
            f'{path}: ends inside record {whole}, which begins at byte {begins:,}: it was cut short; '
            'copy the file again, or leave it out'
        )
    return np.append(starts, data.size)


def begins_with_frame(data: bytes) -> bool:
    """Whether these bytes begin with the header of a frame, whose checksum fits its length."""
    head = bytes(data[:HEADER_BYTES])
    return (
        len(head) == HEADER_BYTES
        and int(masked([google_crc32c.value(head[:8])])[0]) == struct.unpack('<I', head[8:])[0]
    )


def masked(crc: np.ndarray | Sequence[int]) -> np.ndarray:
    """These CRC32Cs in the form in which TFRecord files store them: uint32 of the same shape."""
    crc = np.asarray(crc, np.uint32)
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)


def stored_checksums(data: np.ndarray, positions: np.ndarray | Sequence[int]) -> np.ndarray:
    """The number in the four bytes at each position: uint32 [n]."""
    return data[np.asarray(positions)[:, None] + np.arange(4)].copy().view('<u4')[:, 0]


def _check_headers(data: np.ndarray, starts: np.ndarray, path: str, begin: int, count: int) -> None:
    """Raises BadExample if the length of a frame is damaged.

    Args:
        data: a part of a file, uint8.
        starts: where its frames begin, within the part.
        path: the path of the file, for messages.
        begin: where the part begins in the file.
        count: the number of frames before the part.
    """
    table = _crc_table()
    for first in range(0, len(starts), _CHUNK_RECORDS):
        chunk = starts[first : first + _CHUNK_RECORDS]
        crc = np.full(len(chunk), 0xFFFFFFFF, np.uint32)
        for byte in range(8):
            crc = table[(crc ^ data[chunk + byte]) & np.uint32(0xFF)] ^ (crc >> np.uint32(8))
        wrong = np.flatnonzero(masked(~crc) != stored_checksums(data, chunk + 8))
        if len(wrong):
            number = first + int(wrong[0])
            raise BadExample(
                f'{path}: the length of record {count + number} at byte {begin + starts[number]:,} is damaged, and '
                'what follows cannot be found; copy the file again, or leave it out (is it a TFRecord file?)'
            )


def _crc_table() -> np.ndarray:
    """The table of CRC32C (Castagnoli) for one byte at a time: uint32 [256]."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ np.uint32(0x82F63B78), table >> np.uint32(1))
    return table.astype(np.uint32)


def of_csv(data: Readable, has_header: bool) -> np.ndarray:
    """The byte at which each row begins, and the end of the last one: int64 [rows + 1].

    A row ends with a line feed, with a carriage return, or with both. It includes this line end and the empty lines
    after it. A line end within quotes does not end a row.

    Args:
        data: the bytes of the file.
        has_header: the first row has the names of the columns, and does not count.
    """
    begin = len(_BOM) if data.read(0, len(_BOM)) == _BOM else 0
    ends, sizes, open_quote, before = [np.array([begin])], [np.zeros(0, np.int64)], 0, 0
    for first in range(begin, data.size, CHUNK_BYTES):
        part = np.frombuffer(data.read(first, CHUNK_BYTES + 1), np.uint8)
        chunk, after = part[:CHUNK_BYTES], np.append(part[1:], 0)[:CHUNK_BYTES]
        quoted = np.bitwise_xor.accumulate((chunk == _QUOTE).astype(np.uint8)) ^ np.uint8(open_quote)
        open_quote = int(quoted[-1])
        is_end = (chunk == _NEWLINE) | ((chunk == _RETURN) & (after != _NEWLINE))
        line_ends = np.flatnonzero(is_end & (quoted == 0))
        previous = np.append(before, chunk[:-1])
        sizes.append(1 + ((chunk[line_ends] == _NEWLINE) & (previous[line_ends] == _RETURN)))  # bytes of the line end
        ends.append(line_ends + first + 1)
        before = int(chunk[-1])
    edges, end_sizes = np.concatenate(ends), np.concatenate(sizes)
    if edges[-1] != data.size:
        edges, end_sizes = np.append(edges, data.size), np.append(end_sizes, 0)  # the last line has no end
    starts = edges[:-1][np.diff(edges) > end_sizes]
    return np.append(starts[1:] if has_header else starts, data.size).astype(np.int64)
