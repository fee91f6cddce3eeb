"""Fetches whole copies of objects. The copies stay for as long as this process lives."""

import collections
import concurrent.futures
import logging
import os
import shutil
import time
from collections.abc import Collection, Iterator, Sequence

from estimator_trainer.data.remote import threads
from estimator_trainer.data.remote.cache import Cache, at, entry_of, is_there
from estimator_trainer.data.remote.paths import RemotePath
from estimator_trainer.errors import DatasetError

_log = logging.getLogger('estimator_trainer')
_SAY_SECS = 10.0


def in_place_of(paths: list[str], cache: Cache | None, must_be_whole: bool) -> list[str]:
    """The paths to read from. Objects of a store are replaced by whole copies if there is room for them.

    Args:
        paths: files of this machine and objects of a store.
        cache: the cache of the objects; None: `cache.at()`.
        must_be_whole: the files are ArrayRecord, which is not read by the block.

    Raises:
        DatasetError, DatasetUnavailable: as `copies`; DatasetError also if they must be whole, and there is no room.
    """
    objects = [path for path in paths if isinstance(path, RemotePath)]
    if not objects:
        return paths
    cache = cache or at()
    for remote in objects:
        remote.cache = cache
    if cache.has_room_for(objects):
        return copies(objects, cache)
    size = sum(remote.size for remote in objects) / 2**20
    if must_be_whole:
        raise DatasetError(
            f'{paths[0]} and others: ArrayRecord files of a store are read as whole copies; these have '
            f'{size:,.0f} MiB, and there is room for {cache.folder.most_bytes / 2**20:,.0f} MiB; raise --data_cache_mib'
        )
    _log.info('data: %.0f MiB do not fit into --data_cache_mib, and are read by the block', size)
    return paths


def copies(paths: Sequence[RemotePath], cache: Cache) -> list[str]:
    """Fetches the copies that are not there yet, and returns the paths of all copies in the order of the objects.

    Raises:
        DatasetError: an object has changed, the store refuses, or there is no room even without what nobody holds.
        DatasetUnavailable: the store does not answer.
    """
    cache.folder.hold({entry_of(path): path.size for path in paths})
    return fetch([(path, entry_of(path), os.path.basename(path)) for path in paths], cache)


def fetch(objects: Sequence[tuple[RemotePath, str, str]], cache: Cache) -> list[str]:
    """Does what `copies` does, for objects whose entries are held already.

    Args:
        objects: (object, its entry in the cache, the name of its copy in the entry).
        cache: the cache.

    Raises:
        DatasetError, DatasetUnavailable: as `copies`.
    """
    missing = [one for one in objects if not is_there(cache.path_of(*one[1:]), one[0].size)]
    total = sum(path.size for path, _, _ in missing)
    if missing:
        # What other processes have written of these files is no longer free, and need not be written again.
        written = sum(cache.folder.written(cache.path_of(entry, name)) for _, entry, name in missing)
        free = shutil.disk_usage(cache.folder.made('')).free + written
        if total > free:
            free += cache.folder.give_up(total - free)
        if total > free:
            raise DatasetError(
                f'{os.path.dirname(missing[0][0])}: {total / 1e6:,.0f} MB are to be fetched to {cache.folder.path}, '
                f'where {free / 1e6:,.0f} MB are free; lower --data_cache_mib, or name another folder with '
                '--data_cache_dir'
            )
        _log.info('data: fetches %d file(s), %.1f MB, to %s', len(missing), total / 1e6, cache.folder.path)
    began = said = time.monotonic()
    pending = {threads.submit(cache.copy, *one): one[0].size for one in missing}
    while pending:
        done, _ = concurrent.futures.wait(pending, 1, concurrent.futures.FIRST_COMPLETED)
        for future in done:
            future.result()
            del pending[future]
        if time.monotonic() - said >= _SAY_SECS:
            said = time.monotonic()
            _log.info('data: %.0f %% fetched', 100 * (1 - sum(pending.values()) / max(1, total)))
    if missing:
        secs = time.monotonic() - began
        _log.info('data: fetched in %.1f s, %.1f MB/s', secs, total / 1e6 / max(secs, 1e-3))
    return [cache.copy(*one) for one in objects]


def in_turn(paths: Sequence[str]) -> Iterator[str]:
    """Yields each of these files when it can be read. While one is in use, copies of the next ones are fetched.

    Raises:
        DatasetError, DatasetUnavailable: as `copies`.
    """
    waiting = collections.deque(paths)
    fetched: collections.deque[tuple[RemotePath, concurrent.futures.Future[str]]] = collections.deque()
    while waiting or fetched:
        while waiting and isinstance(next_path := waiting[0], RemotePath) and _may_be_fetched(next_path, fetched):
            waiting.popleft()
            fetched.append((next_path, threads.submit(next_path.cache.copy, next_path)))
        if not fetched:
            yield waiting.popleft()  # a file of this machine
            continue
        path, future = fetched.popleft()
        future.result()
        yield path


def _may_be_fetched(path: RemotePath, fetched: Collection[tuple[RemotePath, object]]) -> bool:
    """Whether another copy may be fetched ahead: those that nobody has used yet take at most half of the cache."""
    ahead = sum(each.size for each, _ in fetched)
    return not fetched or ahead + path.size <= path.cache.folder.most_bytes // 2
