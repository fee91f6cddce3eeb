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
_CHUNK_RECORDS = 2**20
_QUOTE, _NEWLINE, _RETURN = 34, 10, 13
_BOM = b'\xef\xbb\xbf'


def of_tfrecord(data, path: str) -> np.ndarray:
    """Where each frame begins, and where the last one ends: int64 [records + 1].

    Args:
        data: the file's bytes, or a memory map of them.
        path: for messages.

    Raises:
        BadExample: a length is damaged, or the file ends inside a frame. What follows cannot be found.
    """
    end, position, unpack = len(data), 0, struct.Struct('<Q').unpack_from
    starts = array.array('q')
    while end - position >= HEADER_BYTES:
        starts.append(position)
        position += unpack(data, position)[0] + HEADER_BYTES + FOOTER_BYTES
    _check_headers(np.frombuffer(data, np.uint8), np.frombuffer(starts, np.int64), path)
    if position != end:
        whole = len(starts) - (position > end)
        begins = starts[-1] if position > end else position
        raise BadExample(
            f'{path}: ends inside record {whole}, which begins at byte {begins:,}: it was cut short; '
            'copy the file again, or leave it out'
        )
    starts.append(end)
    return np.frombuffer(starts, np.int64)


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


def _check_headers(data, starts, path):
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
                f'{path}: the length of record {number} at byte {starts[number]:,} is damaged, and what follows '
                'cannot be found; copy the file again, or leave it out (is it a TFRecord file?)'
            )


def _crc_table() -> np.ndarray:
    """Of CRC32C (Castagnoli), for one byte at a time."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> np.uint32(1)) ^ np.uint32(0x82F63B78), table >> np.uint32(1))
    return table.astype(np.uint32)


def of_csv(data, has_header: bool) -> np.ndarray:
    """Where each row begins, and where the last one ends: int64 [rows + 1]. A line end within quotes ends no row.

    A row includes its line end, and the empty lines that follow it.
    """
    view = np.frombuffer(data, np.uint8)
    ends, open_quote = [], 0
    for first in range(0, len(view), _CHUNK_BYTES):
        chunk = view[first : first + _CHUNK_BYTES]
        quoted = np.bitwise_xor.accumulate((chunk == _QUOTE).astype(np.uint8)) ^ np.uint8(open_quote)
        open_quote = int(quoted[-1])
        ends.append(np.flatnonzero((chunk == _NEWLINE) & (quoted == 0)) + first + 1)
    edges = np.concatenate([[0], *ends]) if ends else np.zeros(1, np.int64)
    if edges[-1] != len(view):
        edges = np.append(edges, len(view))  # the last line has no end
    is_empty = _are_empty(view, edges)
    starts = edges[:-1][~is_empty]
    if has_header:
        starts = starts[1:]
    elif len(starts) and bytes(data[:3]) == _BOM:
        starts[0] = len(_BOM)
    return np.append(starts, len(view)).astype(np.int64)


def _are_empty(view, edges):
    sizes, firsts = np.diff(edges), view[np.minimum(edges[:-1], max(0, len(view) - 1))] if len(view) else edges[:-1]
    return (sizes == 0) | ((sizes == 1) & (firsts == _NEWLINE)) | ((sizes == 2) & (firsts == _RETURN))


def header_of(data) -> bytes:
    """The first line of a CSV file, without its line end and byte order mark."""
    line = bytes(data[: 2**20]).removeprefix(_BOM).partition(b'\n')[0]
    return line.removesuffix(b'\r')
