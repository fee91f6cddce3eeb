"""Makes batches of the examples in files, in an exact order."""

import tensorflow as tf

from estimator_trainer.data import batch, order, pipeline
from estimator_trainer.data.block_order import WINDOW_BYTES, BlockOrder
from estimator_trainer.data.files.source import Source, open_source
from estimator_trainer.errors import UsageError

_PARALLEL_PARSES = 2  # batches
SHUFFLES = ('auto', 'records', 'blocks', 'none')


def file_batches(
    files,
    spec,
    mode,
    params,
    input_context=None,
    *,
    file_format='auto',
    shuffle='auto',
    max_bad_examples=0,
    in_memory_mb=1024,
    index_dir=None,
    cache=None,
):
    """An input_fn's data set over files.

    TRAIN repeats for ever, in an order that depends on the seed alone: not on the number of workers or of files per
    worker, nor on interruptions. EVAL gives each example once, in the order of the files.

    Args:
        files, spec, file_format, in_memory_mb, max_bad_examples, index_dir, cache: those of `open_source`.
        mode: a tf.estimator.ModeKeys.
        params: those of the run: batch_size (per replica), seed and start_step are used.
        input_context: tf.distribute.InputContext, or None for a single pipeline.
        shuffle: see `shuffle_of`.

    Returns:
        tf.data.Dataset of (dict of features [batch_size, ...], labels [batch_size, ...]), or of the features alone
        where the spec names no label.

    Raises:
        DatasetError, BadExample: those of `open_source`.
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
    """What `shuffle` means for these files.

    'records': all examples of an epoch are shuffled. Files that cannot be entered anywhere (Parquet, compressed ones,
    those of a store that are larger than the cache) have to fit into memory for that. 'blocks': see data.block_order.
    'none': the order of the files. 'auto': records where that is possible, else blocks.

    Raises:
        UsageError: no such value, or records where the files do not allow it.
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


def batches_of(source: Source, mode, params, input_context, shuffle: str):
    """`file_batches` of an open source."""
    if mode == pipeline.TRAIN:
        examples = _order(source, shuffle, params['seed'])
        return pipeline.ready(_parsed(source, pipeline.positions(params, input_context), examples, never_empty=True))
    size = params['batch_size']
    firsts = tf.data.Dataset.range(0, source.num_examples, size)
    found = _parsed(source, firsts, lambda first: tf.range(first, tf.minimum(first + size, source.num_examples)))
    if source.tolerance.most:  # all examples of a batch may be left out
        found = found.filter(lambda *parts: batch.size(*reversed(parts)) > 0)
    return found.prefetch(pipeline.PREFETCH_BATCHES)


def _parsed(source, places, examples, never_empty=False):
    """Features and labels of examples(place) for each place.

    Python code, which reads, runs for one batch at a time: threads that contend for Python's lock at each system call
    would take twice as long.
    """
    raw = places.map(lambda place: tuple(source.raw(examples(place), never_empty)), num_parallel_calls=1)
    return raw.map(lambda *raw: _features_and_labels(source, raw), num_parallel_calls=_PARALLEL_PARSES)


def _order(source, shuffle, seed):
    """positions int64 [n] -> examples int64 [n]."""
    if shuffle == 'none':
        return lambda positions: positions % source.num_examples
    if shuffle == 'records':
        return lambda positions: order.permuted(positions, source.num_examples, seed)
    blocks = block_order(source, seed)

    def examples(positions):
        source.load_ahead(blocks.blocks_after(positions[-1]), blocks.blocks_at(positions[-1]))
        return blocks.examples(positions)

    def in_graph(positions):
        found = tf.numpy_function(examples, [positions], tf.int64, stateful=False)
        found.set_shape(positions.shape)
        return found

    return in_graph


def block_order(source, seed) -> BlockOrder:
    """Two windows fit into memory: one is read, and the next one is loaded meanwhile."""
    return BlockOrder(source.block_sizes, source.block_bytes, seed, min(WINDOW_BYTES, source.most_bytes // 2))


def _features_and_labels(source, raw):
    parsed, spec = source.parse(raw), source.spec
    if spec.key and spec.key != spec.label:
        parsed.pop(spec.key, None)
    return (parsed, parsed.pop(spec.label)) if spec.label else parsed
