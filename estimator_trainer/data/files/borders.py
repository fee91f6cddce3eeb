"""Where each record of a TFRecord or CSV file begins. Imports no TensorFlow.

A TFRecord file is a row of frames: the length of the data (8 bytes, little-endian), a checksum of the length (4), the
data, and a checksum of the data (4). See tensorflow/core/lib/io/record_writer.h.
"""

import array
import struct

import google_crc32c
import numpy as np

from estimator_trainer.errors import BadExample

HEADER_BYTES, FOOTER_BYTES = 12, 4
_CHUNK_BYTES = 32 * 2**20
_SMALL_CHUNK_BYTES = 2**16
_CHUNK_RECORDS = 2**20
_QUOTE, _NEWLINE, _RETURN = 34, 10, 13
_BOM = b'\xef\xbb\xbf'


class Held:
    """Bytes in memory, as those of a file (contents.OfFile)."""

    def __init__(self, data: bytes):
        self._data, self.size = data, len(data)

    def read(self, start: int, size: int) -> bytes:
        return self._data[start : start + size]


def of_tfrecord(data, path: str) -> np.ndarray:
    """Where each frame begins, and where the last one ends: int64 [records + 1].

    Args:
        data: Held, or what has its methods.
        path: for messages.

    Raises:
        BadExample: a length is damaged, or the file ends inside a frame. What follows cannot be found.
    """
    position, size, unpack, parts, count = 0, _CHUNK_BYTES, struct.Struct('<Q').unpack_from, [], 0
    while data.size - position >= HEADER_BYTES:
        first, chunk, starts = position, data.read(position, size), array.array('q')
        last = len(chunk) - HEADER_BYTES
        while position - first <= last:
            starts.append(position - first)
            position += unpack(chunk, position - first)[0] + HEADER_BYTES + FOOTER_BYTES
        found = np.frombuffer(starts, np.int64)
        _check_headers(np.frombuffer(chunk, np.uint8), found, path, first, count)
        parts.append(found + first)
        count += len(found)
        # Of large records little more than the headers is read.
        size = _SMALL_CHUNK_BYTES if position - first > len(found) * _SMALL_CHUNK_BYTES else _CHUNK_BYTES
    starts = np.concatenate(parts) if parts else np.zeros(0, np.int64)
    if position != data.size:
        whole = count - (position > data.size)
        begins = starts[-1] if position > data.size else position
        raise BadExample(
            f'{path}: ends inside record {whole}, which begins at byte {begins:,}: it was cut short; '
            'copy the file again, or leave it out'
        )
    return np.append(starts, data.size)


def begins_with_frame(data) -> bool:
    """Whether these bytes begin with the header of a frame: its checksum fits its length."""
    head = bytes(data[:HEADER_BYTES])
    return (
        len(head) == HEADER_BYTES
        and int(masked([google_crc32c.value(head[:8])])[0]) == struct.unpack('<I', head[8:])[0]
    )


def masked(crc) -> np.ndarray:
    """The form in which TFRecord files store these CRC32Cs: uint32 of the same shape."""
    crc = np.asarray(crc, np.uint32)
    return ((crc >> np.uint32(15)) | (crc << np.uint32(17))) + np.uint32(0xA282EAD8)


def stored_checksums(data: np.ndarray, positions) -> np.ndarray:
    """The four bytes at each position as a number: uint32 [n]."""
    return data[np.asarray(positions)[:, None] + np.arange(4)].copy().view('<u4')[:, 0]


def _check_headers(data, starts, path, begin, count):
    """Of the frames at `starts` in a part of a file: the first of them is number `count`, and the part at `begin`."""
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
    """Of CRC32C (Castagnoli), for one byte at a time."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ np.uint32(0x82F63B78), table >> np.uint32(1))
    return table.astype(np.uint32)


def of_csv(data, has_header: bool) -> np.ndarray:
    """Where each row begins, and where the last one ends: int64 [rows + 1].

    A row ends with a line feed, with a carriage return, or with both, and includes that and the empty lines that follow
    it. A line end within quotes ends no row.

    Args:
        data: Held, or what has its methods.
        has_header: the first row is none.
    """
    begin = len(_BOM) if data.read(0, len(_BOM)) == _BOM else 0
    ends, sizes, open_quote, before = [np.array([begin])], [np.zeros(0, np.int64)], 0, 0
    for first in range(begin, data.size, _CHUNK_BYTES):
        part = np.frombuffer(data.read(first, _CHUNK_BYTES + 1), np.uint8)
        chunk, after = part[:_CHUNK_BYTES], np.append(part[1:], 0)[:_CHUNK_BYTES]
        quoted = np.bitwise_xor.accumulate((chunk == _QUOTE).astype(np.uint8)) ^ np.uint8(open_quote)
        open_quote = int(quoted[-1])
        is_end = (chunk == _NEWLINE) | ((chunk == _RETURN) & (after != _NEWLINE))
        found = np.flatnonzero(is_end & (quoted == 0))
        previous = np.append(before, chunk[:-1])
        sizes.append(1 + ((chunk[found] == _NEWLINE) & (previous[found] == _RETURN)))  # of the line end
        ends.append(found + first + 1)
        before = int(chunk[-1])
    edges, line_ends = np.concatenate(ends), np.concatenate(sizes)
    if edges[-1] != data.size:
        edges, line_ends = np.append(edges, data.size), np.append(line_ends, 0)  # the last line has no end
    starts = edges[:-1][np.diff(edges) > line_ends]
    return np.append(starts[1:] if has_header else starts, data.size).astype(np.int64)
