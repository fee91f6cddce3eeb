"""The data set of --train_files and --eval_files. It knows what the files hold before training begins."""

import contextlib
import hashlib
import logging
import os
from collections.abc import Callable

from estimator_trainer.data.files import listing
from estimator_trainer.data.remote import cache
from estimator_trainer.errors import BadExample, DatasetError, UsageError

_log = logging.getLogger('estimator_trainer')


def listed(flag: str, files: str, file_format: str) -> list[str]:
    """The paths of the files of a flag, and a check of their format. Imports no TensorFlow.

    Raises:
        DatasetError: names the flag.
    """
    with _naming(flag):
        paths = listing.expand(files, f'--{flag}')
        listing.format_of(paths, file_format)
        return paths


class FileDataset:
    """The training files and the evaluation files of a run. The attributes that data.sources.ImageDataset has mean
    the same.

    Args:
        spec: data.files.FileSpec.
        config: TrainerConfig, or what has its attributes.

    Attributes:
        contents: what the files hold, for config.json and for the other tasks: number of files and examples, and a
            digest of the names, sizes and counts of the training files.
        serving_features: name -> feature of a tf.Example that a SavedModel takes.
        input_fn: (mode, params, input_context) -> tf.data.Dataset.

    Raises:
        UsageError, DatasetError, BadExample: each names the flag.
    """

    image_shape = num_classes = None
    in_memory = True  # it is read in an exact order

    def __init__(self, spec, config):
        from estimator_trainer.data.files import batches, source

        self._sources = {}
        index_dir = os.path.join(config.model_dir, 'index')
        for flag in ('train_files', 'eval_files'):
            with _naming(flag):
                self._sources[flag] = source.open_source(
                    listed(flag, getattr(config, flag), config.file_format),
                    spec,
                    file_format=config.file_format,
                    in_memory_mb=config.in_memory_mb,
                    max_bad_examples=config.max_bad_examples,
                    index_dir=index_dir,
                    cache=cache.at(config.data_cache_dir, config.data_cache_mib),
                )
        train = self._sources['train_files']
        self.shuffle = batches.shuffle_of(train, config.shuffle, config.in_memory_mb)
        self.num_train = train.num_examples
        self.contents = {**_contents(train), 'shuffle': self.shuffle}
        if self.shuffle == 'blocks':  # how large decoded blocks are, and --in_memory_mb, decide it
            self.contents['windows'] = batches.block_order(train, config.seed).num_windows
        self.serving_features: dict = {
            name: feature for name, feature in train.features.items() if name not in (spec.label, spec.key)
        }
        self.input_fn: Callable = self._batches
        _log.info(
            'data: %d training file(s) with %d examples, --shuffle=%s; %d evaluation file(s) with %d',
            len(train.paths),
            self.num_train,
            self.shuffle,
            len(self._sources['eval_files'].paths),
            self._sources['eval_files'].num_examples,
        )

    def counts(self) -> dict:
        """What metrics.jsonl tells of the data: examples that this task has left out, if any."""
        left_out = self._sources['train_files'].tolerance.count
        return {'bad_examples': left_out} if left_out else {}

    def _batches(self, mode, params, input_context=None):
        from estimator_trainer.data.files import batches

        source = self._sources['train_files' if mode == 'train' else 'eval_files']
        return batches.batches_of(source, mode, params, input_context, self.shuffle)


def _contents(source) -> dict:
    digest = hashlib.sha256()
    for path, size in zip(source.paths, source.sizes):
        digest.update(f'{os.path.basename(path)} {listing.stamp(path).size} {size}\n'.encode())
    return {'files': len(source.paths), 'examples': source.num_examples, 'digest': digest.hexdigest()[:16]}


@contextlib.contextmanager
def _naming(flag):
    try:
        yield
    except (DatasetError, BadExample, UsageError) as error:
        raise type(error)(f'--{flag}: {error}') from error
