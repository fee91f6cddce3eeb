"""Writes sorted string tables, as TensorFlow does, to read and to damage."""

import struct

import google_crc32c
import pyarrow

from estimator_trainer.run_dir import sstable


def varint(number):
    found = b''
    while number >= 128:
        found += bytes([number & 127 | 128])
        number >>= 7
    return found + bytes([number])


def block(pairs, shared=True):
    content, last = b'', b''
    for key, value in pairs:
        same = next((at for at, (a, b) in enumerate(zip(key, last)) if a != b), min(len(key), len(last))) * shared
        content += varint(same) + varint(len(key) - same) + varint(len(value)) + key[same:] + value
        last = key
    return content + struct.pack('<II', 0, 1)  # one restart, at the beginning


def table(blocks, snappy=False):
    """The bytes of a table of `blocks`, each a list of (key, value)."""
    found, handles = b'', []

    def add(content, compressed=False):
        nonlocal found
        if compressed:
            content = pyarrow.compress(content, 'snappy', asbytes=True)
        handle = varint(len(found)) + varint(len(content))
        content += bytes([compressed])
        found += content + struct.pack('<I', sstable.masked(google_crc32c.value(content)))
        return handle

    for pairs in blocks:
        handles.append((pairs[-1][0], add(block(pairs), snappy)))
    footer = add(block([])) + add(block(handles, shared=False))
    return found + footer.ljust(40, b'\0') + bytes.fromhex('57fb808b247547db')
