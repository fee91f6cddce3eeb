"""tf.data pipelines: whole data sets in memory in an exact order, larger ones as a stream.

A data set of examples in memory carries an `InMemory`, by which a step can take its batches itself. What a job makes of
the data set, such as by `map`, carries none.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_trainer.data import order
from estimator_trainer.data.batch import Structure

# A change of a training batch, such as an augmentation: (batch, positions int64 [batch_size]) -> batch.
Change = Callable[[Structure, tf.Tensor], Structure]

TRAIN = 'train'  # the value of tf.estimator.ModeKeys.TRAIN, which a program of today's TensorFlow may lack
PREFETCH_BATCHES = 4
_STREAM_SHUFFLE_EXAMPLES = 10_000
_CARRIED = 'taken_from_memory'  # attribute of a data set


@dataclasses.dataclass(frozen=True)
class InMemory:
    """The batches of a data set whose examples are in memory, as a function of their number.

    Attributes:
        whole: a data set with one element, the examples.
        num_bytes: their size; that of objects, such as strings, is not known, and their references count.
        replicas: that the data set feeds. They take batches in turn.
        batch: (the element of `whole`, number of the batch in the data set: int64 scalar) -> the batch.
    """

    whole: tf.data.Dataset
    num_bytes: int
    replicas: int
    batch: Callable[[Structure, tf.Tensor], Structure]


def in_memory(batches: Any) -> InMemory | None:
    """What a data set carries; None: nothing, or this is no data set."""
    return getattr(batches, _CARRIED, None)


def carrying(batches: tf.data.Dataset, carried: InMemory | None) -> tf.data.Dataset:
    """The data set, whose batches are those of `carried` in the same order."""
    setattr(batches, _CARRIED, carried)
    return batches


def array_batches(
    features: Mapping[str, Any],
    labels: Any,
    mode: str,
    params: Mapping[str, Any],
    input_context: tf.distribute.InputContext | None = None,
) -> tf.data.Dataset:
    """Makes the data set of an input_fn from arrays in memory.

    In training it repeats for ever in the order of `data.order`. Otherwise it has each example once, in order.

    Args:
        features: an array [num_examples, ...] for each name.
        labels: an array [num_examples, ...], or a dict of arrays, as several heads need them.
        mode: one of tf.estimator.ModeKeys.
        params: the params of the run: batch_size (per replica), seed, start_step, position_shift and, without
            an `input_context`, replicas_per_task are used.
        input_context: None for a single pipeline.

    Returns:
        A data set of (features, labels), with `batch_size` rows each. The last batch of an evaluation may be shorter.

    Raises:
        ValueError: the arrays have different lengths, there is none, or a value is no array of examples.
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
    num_bytes = sum(array.nbytes for array in tf.nest.flatten(arrays))
    return ordered_batches(whole, lengths[0], params, input_context, num_bytes=num_bytes)


def _named_arrays(given: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return {name: _array(name, values) for name, values in given.items()}


def _array(name: str, values: Any) -> np.ndarray:
    array = np.asarray(values)
    if not array.ndim:
        raise ValueError(f'{name}: an array [num_examples, ...] is needed; got {values!r}.')
    return array


def _one_element(arrays: Structure) -> tf.data.Dataset:
    """A data set with one element, the arrays.

    A graph has a call that returns them. As constants they would be written into graph.pbtxt, the events and the .meta
    file of each checkpoint, and a graph over 2 GiB cannot be run. Outside a graph the data set refers to the arrays
    itself, and they are freed with it.
    """
    if tf.executing_eagerly():
        return tf.data.Dataset.from_tensors(arrays)
    flat = [_plain(array) for array in tf.nest.flatten(arrays)]

    def give(_: tf.Tensor) -> Structure:
        tensors = tf.numpy_function(lambda: flat, [], [tf.as_dtype(array.dtype) for array in flat])
        for tensor, array in zip(tensors, flat):
            tensor.set_shape(array.shape)
        return tf.nest.pack_sequence_as(arrays, tensors)

    return tf.data.Dataset.range(1).map(give)


def _plain(array: np.ndarray) -> np.ndarray:
    """The array in a form that TensorFlow takes from Python code without changing a value."""
    if array.dtype.kind in 'SUO':  # NumPy pads strings of different lengths with zeros, but not objects
        return np.frompyfunc(tf.compat.as_bytes, 1, 1)(array)
    return array.astype(array.dtype.newbyteorder('='), copy=False)


def _batches_in_order(whole: tf.data.Dataset, num_examples: int, batch_size: int) -> tf.data.Dataset:
    """Each example once, in order. The last batch may be short."""

    def batch(tensors: Structure, first: tf.Tensor) -> Structure:
        return tf.nest.map_structure(lambda tensor: tensor[first : first + batch_size], tensors)

    batches = whole.flat_map(
        lambda *tensors: tf.data.Dataset.range(0, num_examples, batch_size).map(lambda first: batch(tensors, first))
    )
    return batches.apply(tf.data.experimental.assert_cardinality(-(-num_examples // batch_size)))


def ordered_batches(
    whole: tf.data.Dataset,
    num_examples: int,
    params: Mapping[str, Any],
    input_context: tf.distribute.InputContext | None = None,
    change: Change | None = None,
    num_bytes: int | None = None,
) -> tf.data.Dataset:
    """Endless training batches from a data set with one element, which is the whole split as tensors.

    TensorFlow's threads do all the work. The split is read once, and each batch is one gather.

    Args:
        whole: the data set.
        num_examples: the number of examples of the split.
        params: the params of the run, as in `array_batches`.
        input_context: None for a single pipeline.
        change: an augmentation; see `data.image_dataset`.
        num_bytes: the size of the split; None: steps do not take their batches themselves.
    """

    def batch(tensors: Structure, positions: tf.Tensor) -> Structure:
        index = order.permuted(positions, num_examples, params['seed'])
        taken = tf.nest.map_structure(lambda tensor: tf.gather(tensor, index), tensors)
        return change(taken, positions) if change else taken

    batches = ready(
        whole.flat_map(
            lambda *tensors: positions(params, input_context).map(lambda positions: batch(tensors, positions))
        )
    )
    if num_bytes is None:
        return batches
    replicas, positions_of = _positions(params, input_context)
    return carrying(
        batches, InMemory(whole, num_bytes, replicas, lambda tensors, number: batch(tensors, positions_of(number)))
    )


def positions(params: Mapping[str, Any], input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
    """The positions of each batch of one input pipeline: an endless data set of int64 [batch_size].

    Args:
        params: the params of the run: batch_size (per replica), start_step, position_shift and, without an
            `input_context`, replicas_per_task are used.
        input_context: None for a single pipeline.
    """
    return tf.data.Dataset.range(1 << 62).map(_positions(params, input_context)[1])


def _positions(
    params: Mapping[str, Any], input_context: tf.distribute.InputContext | None
) -> tuple[int, Callable[[tf.Tensor], tf.Tensor]]:
    """-> (replicas that the pipeline feeds, number of a batch of the pipeline -> its positions)"""
    batch_size, start_step, shift = params['batch_size'], params['start_step'], params.get('position_shift', 0)
    pipelines = input_context.num_input_pipelines if input_context else 1
    pipeline = input_context.input_pipeline_id if input_context else 0
    if input_context:
        replicas_here = max(1, input_context.num_replicas_in_sync // pipelines)
    else:
        replicas_here = params.get('replicas_per_task', 1)
    # This equals plan.global_batch_size, except for asynchronous workers. Each of them is a single replica, but their
    # batches still interleave.
    global_batch = batch_size * replicas_here * pipelines
    offset = pipeline * replicas_here * batch_size

    def of_batch(number: tf.Tensor) -> tf.Tensor:
        return order.positions(number, batch_size, replicas_here, global_batch, offset, start_step, shift)

    return replicas_here, of_batch


def streamed_batches(
    examples: tf.data.Dataset,
    params: Mapping[str, Any],
    input_context: tf.distribute.InputContext | None = None,
    change: Change | None = None,
) -> tf.data.Dataset:
    """Endless training batches from a data set that is too large for memory.

    Args:
        examples: this pipeline's share of one epoch, whose files are shuffled already.
        params: the params of the run: batch_size (per replica), seed and start_step are used.
        input_context: None for a single pipeline.
        change: as in `ordered_batches`. No other pipeline has the same positions.
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


def ready(batches: tf.data.Dataset) -> tf.data.Dataset:
    """The data set with prefetching, declared infinite, and without the autotuner.

    A data set that is not declared infinite costs the workers an all-reduce in every step. The autotuner has nothing to
    tune in it. The autotuner's thread sleeps for up to a minute, which would delay the end of a session that has one
    thread for operations.
    """
    batches = batches.apply(tf.data.experimental.assert_cardinality(tf.data.experimental.INFINITE_CARDINALITY))
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.prefetch(PREFETCH_BATCHES).with_options(options)
