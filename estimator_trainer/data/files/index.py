"""Makes and keeps the index of a TFRecord or CSV file: where each record begins. Imports no TensorFlow.

    python -m estimator_trainer.data.files.index FORMAT HEADER FOLDER FILE...

This command makes the indexes of several files, one after the other; the trainer starts one such process for each core.
An index is kept beside its file as .NAME.index, or in a folder of the run if it cannot be written there. Several tasks
may make the same index at the same time: each writes a file of its own and renames it.
"""

import contextlib
import gzip
import hashlib
import logging
import mmap
import os
import random
import subprocess
import sys
import time
import zipfile
import zlib

import numpy as np

from estimator_trainer.data import preparing
from estimator_trainer.data.files import borders, listing
from estimator_trainer.data.remote import whole_copies
from estimator_trainer.data.remote.paths import RemotePath
from estimator_trainer.errors import BadExample, DatasetError

_log = logging.getLogger('estimator_trainer')
_VERSION = 1
_BEGINNING_BYTES = 2**20
_PARALLEL_BYTES = 64 * 2**20  # fewer are indexed here: another process takes longer to start
_POLL_SECS, _SAY_SECS = 0.05, 5.0
_GZIP, _ZLIB = b'\x1f\x8b', (b'\x78\x01', b'\x78\x5e', b'\x78\x9c', b'\x78\xda')


def load_all(paths, file_format: str, has_header: bool, folder: str | None) -> list[np.ndarray]:
    """Where the records of each file begin, and where the last one ends: int64 [records + 1] for each file.

    Args:
        has_header: of CSV: the first line of each file holds the names of its columns.
        folder: where indexes are kept that cannot lie beside their files; None: such are not kept.

    Raises:
        BadExample: a file is damaged.
        DatasetError: a file cannot be read.
    """
    found = {path: load(path, file_format, has_header, folder) for path in paths}
    missing = [path for path in paths if found[path] is None]
    _make_in_parallel(missing, file_format, has_header, folder)
    for path in whole_copies.in_turn(missing):
        found[path] = load(path, file_format, has_header, folder)  # a helper or another task may have made it
        if found[path] is None:  # a helper leaves a damaged file, and one whose index cannot be kept, to us
            found[path] = make(path, file_format, has_header, folder)
    return [found[path] for path in paths]


def load(path: str, file_format: str, has_header: bool, folder: str | None) -> np.ndarray | None:
    """The index that was kept; None where there is none that fits the file as it is now."""
    of = _of(path, file_format, has_header)
    for kept in _places(path, folder):
        with contextlib.suppress(OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error):
            with np.load(kept, allow_pickle=False) as held:  # the zip file has a checksum of each array
                if tuple(held['of']) == of:
                    return held['first'] + np.concatenate([[0], np.cumsum(held['sizes'], dtype=np.int64)])
    return None


def make(path: str, file_format: str, has_header: bool, folder: str | None) -> np.ndarray:
    """Makes the index, and keeps it where it can."""
    of = _of(path, file_format, has_header)
    with opened(path, file_format) as data:
        starts = borders.of_tfrecord(data, path) if file_format == 'tfrecord' else borders.of_csv(data, has_header)
    preparing.advance()
    if _of(path, file_format, has_header) != of:
        raise DatasetError(f'{path} has changed while it was read; start again when it is complete')
    sizes = np.diff(starts)
    small = sizes.astype(np.uint32) if not len(sizes) or sizes.max() < 2**32 else sizes
    for kept in _places(path, folder):
        with contextlib.suppress(OSError):
            _write(kept, of=np.array(of), first=starts[0], sizes=small)
            break
    return starts


@contextlib.contextmanager
def opened(path: str, file_format: str):
    """A file's bytes: a memory map, or the decompressed bytes of a compressed file.

    Raises:
        BadExample: a compressed file is damaged.
        DatasetError: it cannot be read.
    """
    try:
        with _open(path) as file:
            if _is_compressed(path, file_format, file.read(borders.HEADER_BYTES)):
                yield decompressed(path)
            elif not os.fstat(file.fileno()).st_size:
                yield b''
            else:
                # It is closed when nothing refers to it any more: arrays over it may outlive this.
                yield mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    except OSError as error:
        raise DatasetError(f'{path} cannot be read ({error.strerror})') from error


def beginning(path: str, file_format: str) -> bytes:
    """The first MiB of a file, decompressed. Raises as `opened`."""
    if not isinstance(path, RemotePath):
        with opened(path, file_format) as data:
            return bytes(data[:_BEGINNING_BYTES])
    data = path.cache.read(path, 0, min(_BEGINNING_BYTES, path.size)) if path.size else b''
    if not _is_compressed(path, file_format, data):
        return data
    try:
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress(data, _BEGINNING_BYTES)
    except zlib.error as error:
        raise _damaged(path, error) from error


def is_compressed(path: str, file_format: str) -> bool:
    """Whether a file of this machine is compressed by gzip or zlib, as TFRecordWriter does and others."""
    with open(path, 'rb') as file:
        return _is_compressed(path, file_format, file.read(borders.HEADER_BYTES))


def _is_compressed(path, file_format, start) -> bool:
    """Some lengths of a first record, and some first letters of CSV, are the two bytes of a compressed file: those of
    zlib are 'x^' and the like. The checksum of a length decides, and for CSV the name."""
    if file_format == 'csv':
        return start.startswith(_GZIP) or (start.startswith(_ZLIB) and path.lower().endswith('.zlib'))
    return start.startswith((_GZIP, *_ZLIB)) and not borders.begins_with_frame(start)


def _open(path):
    return path.cache.open_copy(path) if isinstance(path, RemotePath) else open(path, 'rb')


def decompressed(path: str) -> bytes:
    """The decompressed bytes of a whole file.

    Raises:
        BadExample: the file is damaged.
    """
    try:
        with _open(path) as file:
            data = file.read()
        return gzip.decompress(data) if data.startswith(_GZIP) else zlib.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise _damaged(path, error) from error


def _damaged(path, error):
    return BadExample(f'{path}: is damaged and cannot be decompressed ({error}); copy it again')


def _of(path, file_format, has_header) -> tuple:
    try:
        return _VERSION, int(file_format == 'csv') + int(has_header), *listing.stamp(path)
    except OSError as error:
        raise DatasetError(f'{path} cannot be read ({error.strerror})') from error


def _places(path, folder):
    name = os.path.basename(path)
    if isinstance(path, RemotePath):
        yield os.path.join(path.cache.index_folder(path), f'.{name}.index')
        return
    yield os.path.join(os.path.dirname(path), f'.{name}.index')
    if folder:
        yield os.path.join(folder, f'{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}-{name}.index')


def _write(path, **arrays) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    unfinished = f'{path}.{os.getpid()}'
    try:
        with open(unfinished, 'xb') as file:
            np.savez_compressed(file, **arrays)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


def _make_in_parallel(paths, file_format, has_header, folder) -> None:
    """Has other processes make the indexes, if that is worth their start."""
    sizes = {path: listing.stamp(path).size for path in paths}
    total, cores = sum(sizes.values()), len(os.sched_getaffinity(0))
    if not paths or total < _PARALLEL_BYTES or not sys.executable or isinstance(paths[0], RemotePath):
        return
    _log.info('indexes %d file(s), %.1f GB, once', len(paths), total / 1e9)
    mixed = random.sample(paths, len(paths))  # other tasks do the same: each meets files that are done
    shares = [share for share in (mixed[core::cores] for core in range(cores)) if share]
    command = [sys.executable, '-m', 'estimator_trainer.data.files.index', file_format, str(int(has_header))]
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    environ = {**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, [root, os.environ.get('PYTHONPATH')]))}
    helpers = [
        subprocess.Popen([*command, folder or '', *share], env=environ, stdout=subprocess.PIPE, text=True)
        for share in shares
    ]
    try:
        _wait(helpers, sizes, total)
    finally:
        for helper in helpers:
            helper.kill()
            helper.wait()
            helper.stdout.close()


def _wait(helpers, sizes, total) -> None:
    """Until the helpers have ended. A damaged file takes as long as a whole one, so this needs no bound of its own."""
    done, said = set(), time.monotonic()
    for helper in helpers:
        os.set_blocking(helper.stdout.fileno(), False)
    while any(helper.poll() is None for helper in helpers):
        before = len(done)
        for helper in helpers:
            done.update(line.rstrip('\n') for line in helper.stdout)
        if len(done) > before:
            preparing.advance(len(done) - before)
        if time.monotonic() - said >= _SAY_SECS:
            said = time.monotonic()
            _log.info('indexes: %.0f %%', 100 * sum(sizes.get(path, 0) for path in done) / total)
        time.sleep(_POLL_SECS)


def main(argv) -> int:
    """Makes the indexes of some files; prints each one that is there. A damaged file is left to the caller."""
    file_format, header, folder, *paths = argv
    for path in paths:
        with contextlib.suppress(BadExample, DatasetError):
            if load(path, file_format, header == '1', folder or None) is None:  # another task may have made it
                make(path, file_format, header == '1', folder or None)
            print(path, flush=True)
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
