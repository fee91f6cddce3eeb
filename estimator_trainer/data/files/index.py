"""Makes and keeps the index of a TFRecord or CSV file: where each record begins. Imports no TensorFlow.

    python -m estimator_trainer.data.files.index FORMAT HEADER FOLDER

This command makes the indexes of the files whose names are on its stdin, one after the other. A zero byte separates two
names. The trainer starts one such process for each core.
An index is kept beside its file as .NAME.index, or in a folder of the run if it cannot be written there, or if somebody
else's file has this name. Several tasks may make the same index at the same time, so each writes a file of its own and
renames it.
"""

import contextlib
import hashlib
import logging
import os
import random
import re
import secrets
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.data import preparing
from estimator_trainer.data.files import borders, contents, unreadable
from estimator_trainer.data.remote import whole_copies
from estimator_trainer.data.remote.paths import RemotePath
from estimator_trainer.errors import BadExample, DatasetError
from estimator_trainer.run_dir import machine, removal
from estimator_trainer.this_process import parent_process
from estimator_trainer.this_process.child_process import PIPE, Child

_log = logging.getLogger('estimator_trainer')
_VERSION = 2  # of the rule that says where records begin
PARALLEL_BYTES = 64 * 2**20  # fewer bytes are indexed in this process, because another one takes longer to start
_POLL_SECS, _SAY_SECS = 0.05, 5.0
_HELPER_BYTES = 512 * 2**20  # that a process may take which makes indexes
_ALL_STREAMS = 'all_streams'  # the mark in the index of a compressed file that all of its streams were read
_UNFINISHED = 'estimator_trainer'  # the ending of an index that is being written
# An index is a zip file with the array `of` at its beginning, which proves that it is ours, even if it is damaged.
_MARK_BYTES, _MARK, _MEMBER = 36, b'PK\x03\x04', b'of.npy'
_LEFT_SECS = 86400  # no process still writes an unfinished index that is older


class _Rule(NamedTuple):
    """The rule of a format that says where records begin.

    Attributes:
        number: of the rule in the indexes that users have; of a file with a header it is one more. No number changes,
            and none is used twice.
        starts: (the bytes of a file, its path, has_header) -> its index.
    """

    number: int
    starts: Callable[[borders.Readable, str, bool], np.ndarray]


_RULES = {
    'tfrecord': _Rule(0, lambda data, path, has_header: borders.of_tfrecord(data, path)),
    'csv': _Rule(1, lambda data, path, has_header: borders.of_csv(data, has_header)),  # with a header: 2
}


def load_all(paths: Sequence[str], file_format: str, has_header: bool, folder: str | None) -> list[np.ndarray]:
    """Loads or makes the index of each file.

    Args:
        paths: the files.
        file_format: a format of _RULES: 'tfrecord' or 'csv'.
        has_header: the first row of each CSV file has the names of its columns.
        folder: the folder for indexes that cannot be written beside their files; None: these are not kept.

    Returns:
        For each file the byte at which each record begins, and the end of the last one: int64 [records + 1].

    Raises:
        BadExample: a file is damaged.
        DatasetError: a file cannot be read.
    """
    loaded = {path: load(path, file_format, has_header, folder) for path in paths}
    indexes = {path: starts for path, starts in loaded.items() if starts is not None}
    missing = [path for path in paths if path not in indexes]
    for place in {os.path.dirname(path) for path in missing if not isinstance(path, RemotePath)}:
        removal.files_in(place, _Left())
    if folder and missing:
        removal.files_in(folder, _LeftInFolder())
    _make_in_parallel(missing, file_format, has_header, folder)
    for path in whole_copies.in_turn(missing):
        starts = load(path, file_format, has_header, folder)  # a helper or another task may have made it
        # A helper makes no index of a damaged file, and none that cannot be kept.
        indexes[path] = make(path, file_format, has_header, folder) if starts is None else starts
    return [indexes[path] for path in paths]


def load(path: str, file_format: str, has_header: bool, folder: str | None) -> np.ndarray | None:
    """The index that was kept; None if there is none for the file as it is now."""
    key = _key(path, file_format, has_header)
    for kept in _places(path, folder):
        with contextlib.suppress(OSError, EOFError, ValueError, KeyError, zipfile.BadZipFile, zlib.error):
            with np.load(kept, allow_pickle=False) as held:  # the zip file has a checksum of each array
                if tuple(held['of']) == key:
                    starts: np.ndarray = held['first'] + np.concatenate([[0], np.cumsum(held['sizes'], dtype=np.int64)])
                    # Earlier versions knew only the first of several streams of zlib.
                    if not _is_compressed(path, starts) or _ALL_STREAMS in held or not contents.is_zlib(path):
                        return starts
    return None


def make(path: str, file_format: str, has_header: bool, folder: str | None) -> np.ndarray:
    """Makes the index of a file, and keeps it if possible. Raises as `load_all`."""
    key = _key(path, file_format, has_header)
    with contents.opened(path, file_format) as data:
        starts = _RULES[file_format].starts(data, path, has_header)
    preparing.advance()
    if _key(path, file_format, has_header) != key:
        raise DatasetError(f'{path} has changed while it was read; start again when it is complete')
    sizes = np.diff(starts)
    small = sizes.astype(np.uint32) if not len(sizes) or sizes.max() < 2**32 else sizes
    marks = {_ALL_STREAMS: True} if _is_compressed(path, starts) else {}
    for kept in _places(path, folder):
        with contextlib.suppress(OSError):
            if os.path.lexists(kept) and not _is_ours(kept):
                continue  # a file of the user, who may have given it this name
            write(kept, of=np.array(key), first=starts[0], sizes=small, **marks)
            break
    return starts


def _key(path: str, file_format: str, has_header: bool) -> tuple[int, ...]:
    """The numbers that an index must have to be that of the file as it is now."""
    return _VERSION, _RULES[file_format].number + int(has_header), *unreadable.stamp(path)


def _is_compressed(path: str, starts: np.ndarray) -> bool:
    """Whether a file is compressed, without reading it: if it is not, its last record ends where the file ends."""
    return int(starts[-1]) != unreadable.stamp(path).size


def _places(path: str, folder: str | None) -> Iterator[str]:
    """The paths at which the index of a file may be kept, the best one first."""
    name = os.path.basename(path)
    if isinstance(path, RemotePath):
        yield os.path.join(path.cache.index_folder(path), f'.{name}.index')
        return
    yield os.path.join(os.path.dirname(path), f'.{name}.index')
    if folder:
        yield os.path.join(folder, f'{hashlib.sha256(os.fsencode(path)).hexdigest()[:16]}-{name}.index')


def write(path: str, **arrays: Any) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    unfinished = f'{path}.{secrets.token_hex(4)}.{_UNFINISHED}'
    try:
        with open(unfinished, 'xb') as file:
            np.savez_compressed(file, **arrays)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            removal.file(unfinished, removal.Written([unfinished]))
        raise


def _is_ours(path: str) -> bool:
    """Whether a file is an index, which may be damaged or unfinished. Raises OSError if it cannot be read."""
    if os.path.islink(path) or not os.path.isfile(path):
        return False
    with open(path, 'rb') as file:
        beginning = file.read(_MARK_BYTES)
    return beginning.startswith(_MARK) and beginning.endswith(_MEMBER)


class _Left:
    """A proof for unfinished indexes that killed processes have left beside the files.

    Their names end with our own. Those of earlier versions end with a number, as the backups of a user may, so the
    beginning of the file has to prove that it is an index.
    """

    _matches = re.compile(rf'\.(.+)\.index\.(?:[0-9a-f]{{8}}(\.{_UNFINISHED})?|[0-9]+)').fullmatch

    def covers(self, path: str) -> bool:
        folder, name = os.path.split(path)
        match = self._matches(name)
        if match is None or not os.path.lexists(os.path.join(folder, match[1])):
            return False
        try:
            is_old = time.time() - os.lstat(path).st_mtime > _LEFT_SECS
            return is_old and (match[2] is not None or _is_ours(path))
        except OSError:
            return False


class _LeftInFolder:
    """A proof for those that are left in a folder for indexes that cannot be written beside the files."""

    _matches = re.compile(rf'[0-9a-f]{{16}}-.+\.index\.[0-9a-f]{{8}}\.{_UNFINISHED}').fullmatch

    def covers(self, path: str) -> bool:
        try:
            return bool(self._matches(os.path.basename(path))) and time.time() - os.lstat(path).st_mtime > _LEFT_SECS
        except OSError:
            return False


def _make_in_parallel(paths: Sequence[str], file_format: str, has_header: bool, folder: str | None) -> None:
    """Lets other processes make the indexes, if the files are large enough."""
    if not paths or not sys.executable or isinstance(paths[0], RemotePath):
        return
    sizes = {os.fsencode(path): unreadable.stamp(path).size for path in paths}
    total = sum(sizes.values())
    if total < PARALLEL_BYTES:
        return
    _log.info('indexes %d file(s), %.1f GB, once', len(paths), total / 1e9)
    mixed = random.sample(paths, len(paths))  # other tasks do the same, so each finds files that are done
    free = machine.free_bytes()
    most = machine.whole_cores() if free is None else min(machine.whole_cores(), max(1, free // _HELPER_BYTES))
    shares = [share for share in (mixed[first::most] for first in range(most)) if share]
    command = [sys.executable, '-m', 'estimator_trainer.data.files.index', file_format, str(int(has_header))]
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    environ = {**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, [root, os.environ.get('PYTHONPATH')]))}
    helpers: list[Child] = []
    try:
        for share in shares:
            argv = parent_process.tying((*command, folder or ''))
            helpers.append(Child(argv, env=environ, stdin=PIPE, stdout=PIPE, ties=False))
            # A command line has no room for thousands of names. The helper reads all of them before it answers.
            with contextlib.suppress(BrokenPipeError):  # it has ended: its files are left to us
                helpers[-1].give(b'\0'.join(map(os.fsencode, share)))
        _wait(helpers, sizes, total)
    finally:
        for helper in helpers:
            helper.close()


def _wait(helpers: Sequence[Child], sizes: Mapping[bytes, int], total: int) -> None:
    """Waits until the helpers have ended. A damaged file takes no longer than a whole one, so this needs no bound."""
    done: set[bytes] = set()
    reported, rests = time.monotonic(), dict.fromkeys(helpers, b'')
    while any(helper.poll() is None for helper in helpers):
        before = len(done)
        for helper in helpers:
            *names, rests[helper] = (rests[helper] + (helper.read(helper.stdout) or b'')).split(b'\0')
            done.update(names)
        if len(done) > before:
            preparing.advance(len(done) - before)
        if time.monotonic() - reported >= _SAY_SECS:
            reported = time.monotonic()
            _log.info('indexes: %.0f %%', 100 * sum(sizes.get(path, 0) for path in done) / total)
        time.sleep(_POLL_SECS)


def main(argv: Sequence[str]) -> int:
    """Makes the indexes of the files whose names are on stdin, and writes the name of each file that has one to stdout.

    Damaged files are left out, so that the caller reports them.
    """
    file_format, header, folder = argv
    for name in sys.stdin.buffer.read().split(b'\0'):
        path = os.fsdecode(name)
        with contextlib.suppress(BadExample, DatasetError):
            if load(path, file_format, header == '1', folder or None) is None:  # another task may have made it
                make(path, file_format, header == '1', folder or None)
            sys.stdout.buffer.write(name + b'\0')
            sys.stdout.buffer.flush()
    return 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
