"""Reads sorted string tables: the index of a TensorFlow checkpoint, and a whole checkpoint of the old format V1.

A table is a row of blocks and a footer of 48 bytes, which says where the index of the blocks lies. A block holds keys
and values, in the order of the keys; a key is stored as what differs from the one before. Each block has a checksum.
The form is that of LevelDB: tensorflow/core/lib/io/table.h and format.h. Imports no TensorFlow.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO

_FOOTER_BYTES = 48
_TRAILER_BYTES = 5  # of a block: how it is compressed, and its checksum
_MAGIC = 0xDB4775248B80FB57
_PLAIN, _SNAPPY = 0, 1


def is_table(path: str) -> bool:
    """Whether a file ends as a table does.

    Raises:
        OSError: the file cannot be read.
    """
    with open(path, 'rb') as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        return size >= _FOOTER_BYTES and file.read(8) == struct.pack('<Q', _MAGIC)


def entries(path: str) -> Iterator[tuple[bytes, bytes]]:
    """Every (key, value) of a table, in the order of the keys. Holds one block at a time.

    Raises:
        ValueError: the table is damaged; the message says where.
        OSError: the file cannot be read.
    """
    with open(path, 'rb') as file:
        size = file.seek(0, 2)
        if size < _FOOTER_BYTES:
            raise ValueError(f'it has {size} bytes, less than the footer of a table')
        file.seek(size - _FOOTER_BYTES)
        footer = file.read(_FOOTER_BYTES)
        if struct.unpack_from('<Q', footer, _FOOTER_BYTES - 8)[0] != _MAGIC:
            raise ValueError('it does not end as a table does: it was cut short, or is another kind of file')
        _, place = _handle(footer, 0)  # of the index of metadata, which is empty
        index, _ = _handle(footer, place)
        for _, value in _pairs(_block(file, *index, size)):
            where, _ = _handle(value, 0)
            yield from _pairs(_block(file, *where, size))


def _block(file: BinaryIO, start: int, length: int, size: int) -> bytes:
    if start + length + _TRAILER_BYTES > size:
        raise ValueError(f'its block at byte {start:,} lies beyond the end of the file')
    file.seek(start)
    content = file.read(length + _TRAILER_BYTES)
    (stored,) = struct.unpack_from('<I', content, length + 1)
    import google_crc32c  # not where the readers are only imported

    if masked(google_crc32c.value(content[: length + 1])) != stored:
        raise ValueError(f'its block at byte {start:,} has a wrong checksum')
    if content[length] == _PLAIN:
        return content[:length]
    if content[length] == _SNAPPY:
        import pyarrow

        decompressed, _ = _varint(content, 0)
        return bytes(pyarrow.decompress(content[:length], decompressed, 'snappy', asbytes=True))
    raise ValueError(f'its block at byte {start:,} is compressed in an unknown way')


def _pairs(block: bytes) -> Iterator[tuple[bytes, bytes]]:
    try:
        (restarts,) = struct.unpack_from('<I', block, len(block) - 4)
        end, place, key = len(block) - 4 - 4 * restarts, 0, b''
        while place < end:
            shared, place = _varint(block, place)
            more, place = _varint(block, place)
            length, place = _varint(block, place)
            key = key[:shared] + block[place : place + more]
            place += more + length
            yield key, block[place - length : place]
    except (IndexError, struct.error) as error:
        raise ValueError('one of its blocks does not hold keys and values') from error


def _handle(data: bytes, place: int) -> tuple[tuple[int, int], int]:
    """((start, length) of a block, the place after that)."""
    start, place = _varint(data, place)
    length, place = _varint(data, place)
    return (start, length), place


def _varint(data: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[place]
        place += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, place
        shift += 7


def masked(crc: int) -> int:
    """The form in which TensorFlow's files store a CRC32C."""
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
