"""Reads and decompresses the bytes of a data file. Imports no TensorFlow.

Files are read, not mapped into memory: if somebody shortened a mapped file, this process would be killed.
"""

import contextlib
import gzip
import os
import zlib
from collections.abc import Iterator
from io import BufferedReader
from typing import TYPE_CHECKING

from estimator_trainer.data.files import borders, unreadable
from estimator_trainer.data.files.spec import KNOWN_FORMATS
from estimator_trainer.data.remote.paths import RemoteFile, RemotePath
from estimator_trainer.errors import BadExample, DatasetError

if TYPE_CHECKING:
    import pyarrow

_GZIP, _ZLIB = b'\x1f\x8b', (b'\x78\x01', b'\x78\x5e', b'\x78\x9c', b'\x78\xda')
_FIRST_BYTES, _MOST_BYTES = 2**16, 2**24  # that are read at first, and at most, to find the header of CSV


class OfFile:
    """The bytes of an open file."""

    def __init__(self, path: str, descriptor: int) -> None:
        self._path, self._descriptor = path, descriptor
        self.size = os.fstat(descriptor).st_size

    def read(self, start: int, size: int) -> bytes:
        """At most `size` bytes from `start` on; fewer at the end of the file.

        Raises:
            OSError: the file cannot be read.
            DatasetError: the file has become shorter.
        """
        parts, end = [], min(start + size, self.size)
        while start < end:
            part = os.pread(self._descriptor, end - start, start)
            if not part:
                raise has_changed(self._path)
            parts.append(part)
            start += len(part)
        return parts[0] if len(parts) == 1 else b''.join(parts)


@contextlib.contextmanager
def opened(path: str, file_format: str) -> Iterator[borders.Readable]:
    """A context with the decompressed bytes of a file. Those of a compressed file are held in memory.

    Raises:
        BadExample: a compressed file is damaged.
        DatasetError: the file cannot be read, or has become shorter.
    """
    try:
        with _open(path) as file:
            if _is_compressed(path, file_format, file.read(borders.HEADER_BYTES)):
                yield borders.Held(decompressed(path))
            else:
                yield OfFile(path, file.fileno())
    except OSError as error:
        raise unreadable.because(path, error) from error


def header_of_csv(path: str) -> bytes:
    """The first row of a CSV file; b'' if it has none. Little more of the file is read than this row.

    Raises:
        BadExample, DatasetError: as `opened`.
    """
    size = _FIRST_BYTES
    while True:
        beginning, is_whole = read_beginning_of_csv(path, size)
        starts = borders.of_csv(borders.Held(beginning), has_header=False)
        if len(starts) > 2 or is_whole or size >= _MOST_BYTES:
            return beginning[starts[0] : starts[1]] if len(starts) > 1 else b''
        size *= 16


def read_beginning_of_csv(path: str, size: int) -> tuple[bytes, bool]:
    """The first `size` decompressed bytes of a CSV file, and whether the file has no more."""
    try:
        if isinstance(path, RemotePath):
            data, is_whole = path.cache.read(path, 0, min(size, path.size)), path.size <= size
        else:
            with open(path, 'rb') as file:
                data = file.read(size)
                is_whole = not file.read(1)
    except OSError as error:
        raise unreadable.because(path, error) from error
    if not _is_compressed(path, 'csv', data):
        return data, is_whole
    beginning = b''
    while data and len(beginning) < size:  # several streams may follow each other, and zeros
        unpack = zlib.decompressobj(zlib.MAX_WBITS | 32)
        try:
            beginning += unpack.decompress(data, size - len(beginning))
        except zlib.error as error:
            raise damaged(path, error) from error
        if not unpack.eof:
            return beginning, False
        data = unpack.unused_data.lstrip(b'\0')
    return beginning, is_whole and not data


def is_compressed(path: str, file_format: str) -> bool:
    """Whether a file of this machine is compressed with gzip or zlib. Raises DatasetError if it cannot be read."""
    try:
        with open(path, 'rb') as file:
            return _is_compressed(path, file_format, file.read(borders.HEADER_BYTES))
    except OSError as error:
        raise unreadable.because(path, error) from error


def _is_compressed(path: str, file_format: str, start: bytes) -> bool:
    """Whether a file that begins with the bytes `start` is compressed.

    A compressed file begins with two known bytes, such as 'x^' for zlib. The length of a first record, and the first
    characters of a text, may be the same bytes. So for TFRecord the checksum of the length decides, and for a text the
    name.
    """
    if KNOWN_FORMATS[file_format].is_text:
        return start.startswith(_GZIP) or (start.startswith(_ZLIB) and path.lower().endswith('.zlib'))
    if file_format == 'tfrecord':
        return start.startswith((_GZIP, *_ZLIB)) and not borders.begins_with_frame(start)
    raise NotImplementedError(f'nothing says which {file_format} files are compressed')


def decompressed(path: str) -> bytes:
    """The decompressed bytes of a whole file.

    Raises:
        BadExample: the file is damaged.
        DatasetError: the file cannot be read.
    """
    try:
        with _open(path) as file:
            data = file.read()
        return gzip.decompress(data) if data.startswith(_GZIP) else _of_zlib(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise damaged(path, error) from error
    except OSError as error:
        raise unreadable.because(path, error) from error


def is_zlib(path: str) -> bool:
    """Whether a file begins as one that is compressed with zlib does. Raises DatasetError if it cannot be read."""
    try:
        if isinstance(path, RemotePath):
            return path.cache.read(path, 0, min(2, path.size)).startswith(_ZLIB)
        with open(path, 'rb') as file:
            return file.read(2).startswith(_ZLIB)
    except OSError as error:
        raise unreadable.because(path, error) from error


def _of_zlib(data: bytes) -> bytes:
    """All streams of a file, one after the other, as gzip.decompress has them. Zeros may follow each."""
    parts = []
    while data:
        unpack = zlib.decompressobj()
        parts.append(unpack.decompress(data))
        if not unpack.eof:
            raise EOFError('it ends within a stream')
        data = unpack.unused_data.lstrip(b'\0')
    return b''.join(parts)


def damaged(path: str, error: Exception) -> BadExample:
    """The error for a file that cannot be decompressed."""
    return BadExample(f'{path}: is damaged and cannot be decompressed ({error}); copy it again')


def has_changed(path: str) -> DatasetError:
    """The error for a file that has changed while it was in use."""
    return DatasetError(f'{path} has changed while it was in use; put it back, or start again with the new file')


def for_pyarrow(path: str) -> 'str | RemoteFile | pyarrow.OSFile':
    """A file as pyarrow can read it: its path, or an object that fetches the bytes that pyarrow asks for.

    pyarrow takes a path as text in UTF-8. A name with other bytes gets an open file. Raises OSError if it cannot be
    opened.
    """
    if isinstance(path, RemotePath):
        return RemoteFile(path)
    try:
        path.encode()
    except UnicodeEncodeError:
        import pyarrow

        return pyarrow.OSFile(os.fsencode(path))
    return path


def _open(path: str) -> BufferedReader:
    return path.cache.open_copy(path) if isinstance(path, RemotePath) else open(path, 'rb')
