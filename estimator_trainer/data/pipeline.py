"""tf.data pipelines: whole data sets in memory in an exact order, larger ones as a stream."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from estimator_trainer.data import order

TRAIN = 'train'  # as tf.estimator.ModeKeys, which a program of today's TensorFlow may lack
PREFETCH_BATCHES = 4
_STREAM_SHUFFLE_EXAMPLES = 10_000


def array_batches(features, labels, mode, params, input_context=None):
    """An input_fn's data set over arrays in memory.

    TRAIN repeats for ever in the order of `data.order`; EVAL gives each example once, in order.

    Args:
        features: dict of name -> array [num_examples, ...].
        labels: array [num_examples, ...], or a dict of name -> array, as for several heads.
        mode: a tf.estimator.ModeKeys.
        params: those of the run: batch_size (per replica), seed and start_step are used.
        input_context: tf.distribute.InputContext, or None for a single pipeline.

    Returns:
        tf.data.Dataset of (dict of [batch_size, ...], [batch_size, ...] or dict of them).

    Raises:
        ValueError: arrays of different lengths, or none at all; what is no array of examples.
    """
    arrays = (
        _named_arrays(features),
        _named_arrays(labels) if isinstance(labels, Mapping) else _array('labels', labels),
    )
    lengths = sorted({len(array) for array in tf.nest.flatten(arrays)})
    if len(lengths) != 1 or lengths[0] == 0:
        raise ValueError(f'Arrays of one length, with at least one example, are needed; got {lengths}.')
    whole = _one_element(arrays)
    if mode != TRAIN:
        return _batches_in_order(whole, lengths[0], params['batch_size'])
    return ordered_batches(whole, lengths[0], params, input_context)


def _named_arrays(given) -> dict:
    return {name: _array(name, values) for name, values in given.items()}


def _array(name, values) -> np.ndarray:
    array = np.asarray(values)
    if not array.ndim:
        raise ValueError(f'{name}: an array [num_examples, ...] is needed; got {values!r}.')
    return array


def _one_element(arrays):
    """A data set with one element, the arrays.

    A graph only holds a call that gives them: as constants they would be written into graph.pbtxt, the
    events and the .meta file of each checkpoint, and a graph over 2 GiB cannot be run. Outside a graph
    the data set refers to the arrays itself, and they are freed with it.
    """
    if tf.executing_eagerly():
        return tf.data.Dataset.from_tensors(arrays)
    flat = [_plain(array) for array in tf.nest.flatten(arrays)]

    def give(_):
        tensors = tf.numpy_function(lambda: flat, [], [tf.as_dtype(array.dtype) for array in flat])
        for tensor, array in zip(tensors, flat):
            tensor.set_shape(array.shape)
        return tf.nest.pack_sequence_as(arrays, tensors)

    return tf.data.Dataset.range(1).map(give)


def _plain(array):
    """The array in the form in which TensorFlow takes it over from Python code unchanged."""
    if array.dtype.kind in 'SUO':  # NumPy pads strings of different lengths with zeros, but not objects
        return np.frompyfunc(tf.compat.as_bytes, 1, 1)(array)
    return array.astype(array.dtype.newbyteorder('='), copy=False)


def _batches_in_order(whole, num_examples, batch_size):
    """Each example once, in order. The last batch may be short."""

    def batch(tensors, first):
        return tf.nest.map_structure(lambda tensor: tensor[first : first + batch_size], tensors)

    batches = whole.flat_map(
        lambda *tensors: tf.data.Dataset.range(0, num_examples, batch_size).map(lambda first: batch(tensors, first))
    )
    return batches.apply(tf.data.experimental.assert_cardinality(-(-num_examples // batch_size)))


def ordered_batches(whole, num_examples, params, input_context=None, change=None):
    """Endless training batches out of a data set with one element, the whole split as tensors.

    All of it happens in TensorFlow's threads; the split is read once, and a batch is one gather.

    Args:
        change: (batch, positions) -> batch, an augmentation; see `data.augment`.
    """

    def batch(tensors, positions):
        index = order.permuted(positions, num_examples, params['seed'])
        taken = tf.nest.map_structure(lambda tensor: tf.gather(tensor, index), tensors)
        return change(taken, positions) if change else taken

    batches = whole.flat_map(
        lambda *tensors: positions(params, input_context).map(lambda positions: batch(tensors, positions))
    )
    return ready(batches)


def positions(params, input_context=None):
    """The positions of each per-replica batch of one input pipeline, for ever: a data set of int64 [batch_size].

    Args:
        params: those of the run: batch_size (per replica), start_step and position_shift are used.
        input_context: tf.distribute.InputContext, or None for a single pipeline.
    """
    batch_size, start_step, shift = params['batch_size'], params['start_step'], params.get('position_shift', 0)
    pipelines = input_context.num_input_pipelines if input_context else 1
    pipeline = input_context.input_pipeline_id if input_context else 0
    replicas = input_context.num_replicas_in_sync if input_context else 1
    replicas_here = max(1, replicas // pipelines)
    # Equals plan.global_batch_size, except for asynchronous workers: each is one replica, in sync with nobody, and
    # their batches still interleave.
    global_batch = batch_size * replicas_here * pipelines
    offset = pipeline * replicas_here * batch_size
    return tf.data.Dataset.range(1 << 62).map(
        lambda element: order.positions(element, batch_size, replicas_here, global_batch, offset, start_step, shift)
    )


def streamed_batches(examples, params, input_context=None, change=None):
    """Endless training batches out of a data set too large for memory.

    Args:
        examples: this pipeline's share of one epoch, its files already shuffled.
        change: as in `ordered_batches`; the positions are this pipeline's own, which no other has.
    """
    batch_size = params['batch_size']
    pipelines = input_context.num_input_pipelines if input_context else 1
    pipeline = input_context.input_pipeline_id if input_context else 0
    seed = params['seed'] + params['start_step']
    batches = (
        examples.shuffle(_STREAM_SHUFFLE_EXAMPLES, seed=seed, reshuffle_each_iteration=True)
        .repeat()
        .batch(batch_size, drop_remainder=True)
    )
    if change:
        batches = batches.enumerate().map(
            lambda element, batch: change(
                batch,
                ((params['start_step'] + element) * pipelines + pipeline) * batch_size
                + tf.range(batch_size, dtype=tf.int64),
            )
        )
    return ready(batches)


def ready(batches):
    """Prefetched, infinite, and without the autotuner.

    Infinite is said aloud: a finite data set costs the workers an all-reduce in every step. Nothing
    here is tuned, and the tuner's thread, asleep for up to a minute, can hold up the end of a session
    that has one thread for operations.
    """
    batches = batches.apply(tf.data.experimental.assert_cardinality(tf.data.experimental.INFINITE_CARDINALITY))
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.prefetch(PREFETCH_BATCHES).with_options(options)
