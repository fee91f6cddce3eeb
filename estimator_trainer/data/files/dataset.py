"""The data set of --train_files and --eval_files. The number of examples is known before training begins."""

import contextlib
import dataclasses
import hashlib
import logging
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from estimator_trainer.config import start_folder
from estimator_trainer.data import evaluation_data
from estimator_trainer.data.files import listing, units
from estimator_trainer.data.remote import cache
from estimator_trainer.errors import BadExample, DatasetError, UsageError
from estimator_trainer.run_dir import config_file

if TYPE_CHECKING:
    import tensorflow as tf

    from estimator_trainer.config.trainer_config import TrainerConfig
    from estimator_trainer.data.files.source import Source
    from estimator_trainer.data.files.spec import FileSpec

_log = logging.getLogger('estimator_trainer')
OF_WINDOWS = {'windows', 'blocks'}  # of FileDataset.contents
WHY_OTHER_WINDOWS = 'by another --in_memory_mb or another version of pyarrow'


def listed(flag: str, files: str, file_format: str) -> list[str]:
    """Finds the files that a flag names, and checks their format. Imports no TensorFlow.

    Args:
        flag: the name of the flag, without --.
        files: its value.
        file_format: the value of --file_format.

    Returns:
        The paths of the files.

    Raises:
        DatasetError: there are no such files, or they have another format. The message names the flag.
    """
    with _naming(flag):
        paths = listing.expand(files, f'--{flag}', start_folder.path())
        listing.format_of(paths, file_format)
        return paths


class FileDataset:
    """The training files and the evaluation files of a run.

    Args:
        spec: describes an example of the files.
        config: the flags.

    Attributes:
        num_train: the number of training examples.
        image_shape, num_classes: None; see data.sources.ImageDataset.
        in_memory: True, because the training examples are read in an exact order.
        shuffle: the value of --shuffle, after auto has been decided.
        contents: describes the files, for config.json and for the other tasks: the number of files and examples, a
            digest of the names, sizes and counts of the training files, the units of the columns if files say types,
            and for shuffle 'blocks' what decides the windows.
        evaluation_data: changes with the names, sizes and counts of the evaluation files, with --eval_steps, and with
            the number of examples that --eval_steps allows.
        serving_features: the features of a tf.Example that a SavedModel takes, by name.

    Raises:
        DatasetError: the files cannot be used. Every message names the flag.
        BadExample: an example is damaged.
        UsageError: a store cannot be used; or a column has another unit in other files, or than when the run was
            trained.
    """

    image_shape = None
    num_classes = None
    in_memory = True

    def __init__(self, spec: 'FileSpec', config: 'TrainerConfig') -> None:
        from estimator_trainer.data.files import batches, source

        self._sources: dict[str, Source] = {}
        index_dir = os.path.join(config.model_dir, 'index')
        is_evaluation = config.train_files == config.eval_files  # as for a command that only evaluates
        for flag in ('train_files', 'eval_files'):
            named = 'eval_files' if is_evaluation else flag
            with _naming(named):
                self._sources[flag] = source.open_source(
                    listed(named, getattr(config, flag), config.file_format),
                    spec,
                    file_format=config.file_format,
                    in_memory_mb=config.in_memory_mb,
                    max_bad_examples=config.max_bad_examples,
                    index_dir=index_dir,
                    cache=cache.at(config.data_cache_dir, config.data_cache_mib),
                )
            if spec.features is None:  # those of the first training file, for the evaluation files too
                spec = dataclasses.replace(spec, features=self._sources[flag].features)
        train, evaluation = self._sources['train_files'], self._sources['eval_files']
        self._check_units(config)
        self.shuffle = batches.shuffle_of(train, config.shuffle, config.in_memory_mb)
        self.num_train = train.num_examples
        self.contents: dict[str, Any] = {**_contents(train), 'shuffle': self.shuffle}
        if recorded := units.names(train.units):
            self.contents['units'] = recorded
        if self.shuffle == 'blocks':  # the windows depend on the size of decoded blocks and on --in_memory_mb
            order = batches.block_order(train, config.seed)
            self.contents |= {'windows': order.num_windows, 'blocks': order.digest}
        self.serving_features: dict[str, Any] = {
            name: feature for name, feature in train.features.items() if name not in (spec.label, spec.key)
        }
        digest = str(_contents(evaluation)['digest'])
        self.evaluation_data = evaluation_data.described(digest, evaluation.num_examples, config)
        if train.paths == evaluation.paths:
            _log.info('data: %d file(s) with %d examples, --shuffle=%s', len(train.paths), self.num_train, self.shuffle)
        else:
            _log.info(
                'data: %d training file(s) with %d examples, --shuffle=%s; %d evaluation file(s) with %d',
                len(train.paths),
                self.num_train,
                self.shuffle,
                len(evaluation.paths),
                evaluation.num_examples,
            )

    def _check_units(self, config: 'TrainerConfig') -> None:
        trained = {} if config.allow_config_change else config_file.trained_files(config.model_dir)
        for flag, source in self._sources.items():
            with _naming(flag):
                units.refuse_other_than_trained(trained.get('units') or {}, source.units, config.model_dir)
                units.refuse_others(self._sources['train_files'].units, source.units)

    def counts(self) -> dict[str, int]:
        """The entries of metrics.jsonl about the data: the number of examples that this task has left out, if any."""
        left_out = self._sources['train_files'].tolerance.count
        return {'bad_examples': left_out} if left_out else {}

    def input_fn(
        self, mode: str, params: dict[str, Any], input_context: 'tf.distribute.InputContext | None' = None
    ) -> 'tf.data.Dataset':
        """Batches of (features, labels): of the training files if `mode` is 'train', else of the evaluation files."""
        from estimator_trainer.data.files import batches

        source = self._sources['train_files' if mode == 'train' else 'eval_files']
        return batches.batches_of(source, mode, params, input_context, self.shuffle)


def difference(one: Mapping[str, Any], other: Mapping[str, Any]) -> set[str]:
    """The names of what differs between two `FileDataset.contents`.

    Earlier versions recorded no blocks, and of the units only those that are not ''. What `one` lacks is no difference.
    """
    one = {'units': other.get('units'), 'blocks': other.get('blocks'), **one}
    return {name for name in {*one, *other} if _without_empty(one.get(name)) != _without_empty(other.get(name))}


def _without_empty(value: Any) -> Any:
    return {name: held for name, held in value.items() if held} or None if isinstance(value, dict) else value


def _contents(source: 'Source') -> dict[str, int | str]:
    digest = hashlib.sha256()
    for path, size in zip(source.paths, source.sizes):
        digest.update(os.fsencode(f'{os.path.basename(path)} {listing.stamp(path).size} {size}\n'))
    return {'files': len(source.paths), 'examples': source.num_examples, 'digest': digest.hexdigest()[:16]}


@contextlib.contextmanager
def _naming(flag: str) -> Iterator[None]:
    """Makes the errors of its body name the flag."""
    try:
        yield
    except (DatasetError, BadExample, UsageError) as error:
        raise type(error)(f'--{flag}: {error}') from error
