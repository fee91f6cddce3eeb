"""Copies data sets that TFDS has prepared from a store to this machine, where TFDS reads them."""

import hashlib
import posixpath
from collections.abc import Sequence

from estimator_trainer.config import urls
from estimator_trainer.data.remote import paths, whole_copies
from estimator_trainer.data.remote.cache import Cache
from estimator_trainer.errors import DatasetError

_DESCRIPTION = 'dataset_info.json'
_SMALL_BYTES = 2**20  # files that describe a data set (features, labels) are smaller


class RemoteSet:
    """A prepared data set in a folder of a store.

    Args:
        name: the value of --dataset: NAME, NAME/CONFIG, NAME:VERSION.
        data_dir: the URL of the folder.

    Raises:
        UsageError, DatasetUnavailable: as data.remote.paths.expand.
        DatasetError: there is no such data set.
    """

    def __init__(self, name: str, data_dir: str) -> None:
        self._data_dir = urls.normal(data_dir)
        folder = f'{self._data_dir}/{name.partition("/")[0].partition(":")[0]}'
        self._files = {posixpath.relpath(path, self._data_dir): path for path in paths.in_folder(folder, '--data_dir')}
        if not any(posixpath.basename(file) == _DESCRIPTION for file in self._files):
            raise DatasetError(
                f'--data_dir={data_dir}: {folder} holds no prepared set. A set is not downloaded into a store: prepare '
                f'it on a machine (--dataset={name} without --data_dir), and copy its folder to {folder}.'
            )

    def describe(self, cache: Cache) -> str:
        """Fetches the files that describe the data set, and returns the folder in which TFDS finds it."""
        small = [file for file, path in self._files.items() if path.size < _SMALL_BYTES and _describes(file)]
        self._fetch(small, cache)
        return cache.path_of(self._entry, '')

    def fetch(self, shards: Sequence[str], cache: Cache) -> None:
        """Fetches these files, whose names are relative to the folder.

        Raises:
            DatasetError: the store does not have one of them, or there is no room.
        """
        missing = [file for file in shards if file not in self._files]
        if missing:
            raise DatasetError(f'--data_dir={self._data_dir}: {missing[0]} is missing; copy the whole folder again')
        size = sum(self._files[file].size for file in shards)
        if not cache.has_room_for([self._files[file] for file in shards]):
            raise DatasetError(
                f'--data_dir={self._data_dir}: a set of TFDS is read from a whole copy; this one has '
                f'{size / 2**20:,.0f} MiB, and there is room for {cache.folder.most_bytes / 2**20:,.0f} MiB; raise '
                '--data_cache_mib'
            )
        self._fetch(shards, cache)

    def _fetch(self, files: Sequence[str], cache: Cache) -> None:
        cache.folder.hold({self._entry: sum(self._files[file].size for file in files)})
        whole_copies.fetch([(self._files[file], self._entry, file) for file in files], cache)

    @property
    def _entry(self) -> str:
        """The entry of the cache for all files as they are now. So a copy never mixes two states of the data set."""
        return hashlib.sha256('\n'.join(path.digest for path in self._files.values()).encode()).hexdigest()[:16]


def _describes(file: str) -> bool:
    name = posixpath.basename(file)
    return not name.startswith('.') and 'tfrecord' not in name and 'array_record' not in name
