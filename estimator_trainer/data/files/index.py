"""Makes and keeps the index of a TFRecord or CSV file: where each record begins. Imports no TensorFlow.

    python -m estimator_trainer.data.files.index FORMAT HEADER FOLDER

This command makes the indexes of the files whose names are on its stdin, with a zero byte between two of them, one
after the other; the trainer starts one such process for each core.
An index is kept beside its file as .NAME.index, or in a folder of the run if it cannot be written there. Several tasks
may make the same index at the same time: each writes a file of its own and renames it.
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

import numpy as np

from estimator_trainer.data import preparing
from estimator_trainer.data.files import borders, contents, unreadable
from estimator_trainer.data.remote import whole_copies
from estimator_trainer.data.remote.paths import RemotePath
from estimator_trainer.errors import BadExample, DatasetError
from estimator_trainer.run_dir import removal
from estimator_trainer.this_process import parent_process
from estimator_trainer.this_process.child_process import PIPE, Child

_log = logging.getLogger('estimator_trainer')
_VERSION = 2  # of the rule that says where records begin
_PARALLEL_BYTES = 64 * 2**20  # fewer are indexed here: another process takes longer to start
_POLL_SECS, _SAY_SECS = 0.05, 5.0
_LEFT_SECS = 86400  # after so long nobody writes an unfinished index any more


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
    for place in {os.path.dirname(path) for path in missing if not isinstance(path, RemotePath)}:
        removal.files_in(place, _Left())
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
    with contents.opened(path, file_format) as data:
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


def _of(path, file_format, has_header) -> tuple:
    return _VERSION, int(file_format == 'csv') + int(has_header), *unreadable.stamp(path)


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
    unfinished = f'{path}.{secrets.token_hex(4)}'
    try:
        with open(unfinished, 'xb') as file:
            np.savez_compressed(file, **arrays)
        os.replace(unfinished, path)
    except BaseException:
        with contextlib.suppress(OSError):
            removal.file(unfinished, removal.Written([unfinished]))
        raise


class _Left:
    """A proof for unfinished indexes, which processes that were killed have left beside the files."""

    _matches = re.compile(r'\.(.+)\.index\.(?:[0-9a-f]{8}|[0-9]+)').fullmatch

    def covers(self, path) -> bool:
        folder, name = os.path.split(path)
        found = self._matches(name)
        is_of_a_file = found is not None and os.path.lexists(os.path.join(folder, found[1]))
        return is_of_a_file and time.time() - os.lstat(path).st_mtime > _LEFT_SECS


def _make_in_parallel(paths, file_format, has_header, folder) -> None:
    """Has other processes make the indexes, if that is worth their start."""
    if not paths or not sys.executable or isinstance(paths[0], RemotePath):
        return
    sizes = {os.fsencode(path): unreadable.stamp(path).size for path in paths}
    total, cores = sum(sizes.values()), len(os.sched_getaffinity(0))
    if total < _PARALLEL_BYTES:
        return
    _log.info('indexes %d file(s), %.1f GB, once', len(paths), total / 1e9)
    mixed = random.sample(paths, len(paths))  # other tasks do the same: each meets files that are done
    shares = [share for share in (mixed[core::cores] for core in range(cores)) if share]
    command = [sys.executable, '-m', 'estimator_trainer.data.files.index', file_format, str(int(has_header))]
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
    environ = {**os.environ, 'PYTHONPATH': os.pathsep.join(filter(None, [root, os.environ.get('PYTHONPATH')]))}
    helpers = []
    try:
        for share in shares:
            tied = parent_process.tying((*command, folder or ''))
            helpers.append(Child(tied, env=environ, stdin=PIPE, stdout=PIPE, ties=False))
            # A command line has no room for thousands of names. The helper reads all of them before it answers.
            with contextlib.suppress(BrokenPipeError):  # it has ended: its files are left to us
                helpers[-1].give(b'\0'.join(map(os.fsencode, share)))
        _wait(helpers, sizes, total)
    finally:
        for helper in helpers:
            helper.close()


def _wait(helpers, sizes, total) -> None:
    """Until the helpers have ended. A damaged file takes as long as a whole one, so this needs no bound of its own."""
    done, said, rests = set(), time.monotonic(), dict.fromkeys(helpers, b'')
    while any(helper.poll() is None for helper in helpers):
        before = len(done)
        for helper in helpers:
            *names, rests[helper] = (rests[helper] + (helper.read(helper.stdout) or b'')).split(b'\0')
            done.update(names)
        if len(done) > before:
            preparing.advance(len(done) - before)
        if time.monotonic() - said >= _SAY_SECS:
            said = time.monotonic()
            _log.info('indexes: %.0f %%', 100 * sum(sizes.get(path, 0) for path in done) / total)
        time.sleep(_POLL_SECS)


def main(argv) -> int:
    """Makes the indexes of the files whose names are on stdin; writes the name of each one that is there to stdout. A
    damaged file is left to the caller."""
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
