"""Makes batches of the examples in files, in an exact order."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_trainer.data import batch, order, pipeline
from estimator_trainer.data.batch import Structure
from estimator_trainer.data.block_order import WINDOW_BYTES, BlockOrder
from estimator_trainer.data.files.source import Source, open_source
from estimator_trainer.data.files.spec import FileSpec
from estimator_trainer.data.remote.cache import Cache
from estimator_trainer.errors import UsageError

_PARALLEL_PARSES = 2  # batches
SHUFFLES = ('auto', 'records', 'blocks', 'none')


def file_batches(
    files: str | Sequence[str],
    spec: FileSpec,
    mode: str,
    params: Mapping[str, Any],
    input_context: tf.distribute.InputContext | None = None,
    *,
    file_format: str = 'auto',
    shuffle: str = 'auto',
    max_bad_examples: int = 0,
    in_memory_mb: int = 1024,
    index_dir: str | None = None,
    cache: Cache | None = None,
) -> tf.data.Dataset:
    """Makes the data set of an input_fn from files.

    In training it repeats for ever. The order follows from the seed alone, not from the number of workers or of files
    per worker, nor from interruptions. Otherwise it has each example once, in the order of the files.

    Args:
        files, spec, file_format, in_memory_mb, max_bad_examples, index_dir, cache: see `open_source`.
        mode: one of tf.estimator.ModeKeys.
        params: the params of the run: batch_size (per replica), seed, start_step, position_shift and, without
            an `input_context`, replicas_per_task are used.
        input_context: None for a single pipeline.
        shuffle: see `shuffle_of`.

    Returns:
        A data set of (dict of features [batch_size, ...], labels [batch_size, ...]), or of the features alone if the
        spec names no label.

    Raises:
        UsageError, DatasetError, DatasetUnavailable, BadExample: as `open_source`; UsageError also as `shuffle_of`.
    """
    source = open_source(
        files,
        spec,
        file_format=file_format,
        in_memory_mb=in_memory_mb,
        max_bad_examples=max_bad_examples,
        index_dir=index_dir,
        cache=cache,
    )
    return batches_of(source, mode, params, input_context, shuffle_of(source, shuffle, in_memory_mb))


def shuffle_of(source: Source, shuffle: str, in_memory_mb: int) -> str:
    """Decides what `shuffle` means for these files.

    Args:
        source: the files.
        shuffle: 'records' shuffles all examples of an epoch. Files from which not any example can be read (Parquet,
            compressed files, and files of a store that are larger than the cache) must fit into memory for this.
            'blocks' is the order of data.block_order. 'none' is the order of the files. 'auto' means 'records' if that
            is possible, else 'blocks'.
        in_memory_mb: the MiB that decoded blocks may take.

    Returns:
        'records', 'blocks' or 'none'.

    Raises:
        UsageError: `shuffle` has another value, or is 'records', and the files do not allow it.
    """
    if shuffle not in SHUFFLES:
        raise UsageError(f'--shuffle={shuffle}: use one of {", ".join(SHUFFLES)}')
    fits = source.enters_anywhere or int(source.block_bytes.sum()) <= in_memory_mb * 2**20
    if shuffle == 'records' and not fits:
        raise UsageError(
            f'--shuffle=records: these files cannot be entered anywhere, and hold '
            f'{source.block_bytes.sum() / 2**20:.0f} MiB; use --shuffle=blocks, or raise --in_memory_mb, or '
            '--data_cache_mib for files of a store'
        )
    if shuffle == 'auto':
        return 'records' if fits else 'blocks'
    return shuffle


def batches_of(
    source: Source, mode: str, params: Mapping[str, Any], input_context: tf.distribute.InputContext | None, shuffle: str
) -> tf.data.Dataset:
    """Does what `file_batches` does, for files that are open already. `shuffle` is the result of `shuffle_of`."""
    if mode == pipeline.TRAIN:
        examples = _order(source, shuffle, params['seed'])
        return pipeline.ready(_parsed(source, pipeline.positions(params, input_context), examples, never_empty=True))
    size = params['batch_size']
    firsts = tf.data.Dataset.range(0, source.num_examples, size)
    batches = _parsed(source, firsts, lambda first: tf.range(first, tf.minimum(first + size, source.num_examples)))
    if source.tolerance.most:  # all examples of a batch may be left out
        batches = batches.filter(lambda *parts: batch.size(*reversed(parts)) > 0)
    return batches.prefetch(pipeline.PREFETCH_BATCHES)


def _parsed(
    source: Source, places: tf.data.Dataset, examples: Callable[[tf.Tensor], tf.Tensor], never_empty: bool = False
) -> tf.data.Dataset:
    """A data set with the features and labels of examples(place) for each place.

    The Python code that reads runs for one batch at a time. Threads that wait for Python's lock at each system call
    would take twice as long.
    """
    raw = places.map(lambda place: tuple(source.raw(examples(place), never_empty)), num_parallel_calls=1)
    return raw.map(lambda *raw: _features_and_labels(source, raw), num_parallel_calls=_PARALLEL_PARSES)


def _order(source: Source, shuffle: str, seed: int) -> Callable[[tf.Tensor], tf.Tensor]:
    """A function from positions, int64 [n], to the numbers of their examples, int64 [n]."""
    if shuffle == 'none':
        return lambda positions: positions % source.num_examples
    if shuffle == 'records':
        return lambda positions: order.permuted(positions, source.num_examples, seed)
    blocks = block_order(source, seed)

    def examples(positions: np.ndarray) -> np.ndarray:
        source.load_ahead(blocks.blocks_after(positions[-1]), blocks.blocks_at(positions[-1]))
        return blocks.examples(positions)

    def in_graph(positions: tf.Tensor) -> tf.Tensor:
        numbers = tf.numpy_function(examples, [positions], tf.int64, stateful=False)
        numbers.set_shape(positions.shape)
        return numbers

    return in_graph


def block_order(source: Source, seed: int) -> BlockOrder:
    """The order for shuffle 'blocks'. Two of its windows fit into memory: one is read while the next one is loaded."""
    return BlockOrder(source.block_sizes, source.block_bytes, seed, min(WINDOW_BYTES, source.most_bytes // 2))


def _features_and_labels(source: Source, raw: Sequence[tf.Tensor]) -> Structure:
    parsed, spec = source.parse(raw), source.spec
    if spec.key and spec.key != spec.label:
        parsed.pop(spec.key, None)
    return (parsed, parsed.pop(spec.label)) if spec.label else parsed
