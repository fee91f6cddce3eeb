"""Gradients of several batches in one step of keras_fit and custom_loop: --accumulate_steps."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

from estimator_trainer.compat.patches import counted_replicas
from estimator_trainer.data import batch
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import losses

_SEED_OF_ZEROS = 2**31 - 1  # TensorFlow's in place of two seeds that are both 0
Gradients = list[Any]  # a tensor, tf.IndexedSlices or None for each variable


def added_up(of_batch: Callable[..., tuple[tf.Tensor, Gradients]], batches: Sequence[tuple]) -> tuple:
    """The shares of the loss and the gradients of some micro-batches, added up.

    All but the first are computed in a loop, one after another, in the memory of one. Rows of sparse gradients are put
    behind each other.

    Args:
        of_batch: (features, labels) -> (this replica's share of the loss, gradients), for a micro-batch.
        batches: of this replica, (features, labels) each.
    """
    if len(batches) == 1:
        return of_batch(*batches[0])
    sizes = [batch.size(labels, features) for features, labels in batches]
    if batch.static_size((batches[0][1], batches[0][0])) is None:
        examples = losses.over_replicas(tf.add_n(sizes))
    else:
        examples = tf.add_n(sizes) * tf.distribute.get_replica_context().num_replicas_in_sync

    def of_one(size: tf.Tensor, *features_and_labels: Any) -> tuple[tf.Tensor, Gradients]:
        with losses.counting(lambda given: losses.checked_count(given, size, examples)):
            return of_batch(*features_and_labels)

    with counted_replicas.times(len(batches)):
        share, gradients = of_one(sizes[0], *batches[0])
        parts, shapes = _parts(gradients)
        stacked = _Stacked([(size, *of_this) for size, of_this in zip(sizes, batches)][1:])

        drawn = [_drawn()]

        def take_another(number: tf.Tensor, share: tf.Tensor, parts: list[tf.Tensor]) -> tuple:
            _draw_on(drawn[-1])
            more_share, more = of_one(*stacked.read(number))
            drawn.append(_drawn())
            sums = [_added(gradient, *pair) for gradient, *pair in zip(_of_parts(gradients), parts, _parts(more)[0])]
            return number + 1, share + more_share, sums

        with _no_meeting():
            _, share, parts = tf.while_loop(
                lambda number, *_: number < len(batches) - 1,
                take_another,
                (tf.constant(0), share, parts),
                shape_invariants=(tf.TensorShape([]), share.shape, shapes),
                parallel_iterations=1,
            )
        _draw_on(drawn[-1])
    return share, _packed(gradients, parts)


@contextlib.contextmanager
def _no_meeting() -> Iterator[None]:
    """Says what to do about a layer that asks the other replicas, which TensorFlow allows in no loop."""
    try:
        yield
    except RuntimeError as error:
        if 'merge_call' not in str(error):
            raise
        raise UsageError(
            '--accumulate_steps: a layer asks the other replicas within a step, which a step of several batches '
            'cannot; leave synchronized=True of BatchNormalization out, or --accumulate_steps.'
        ) from error


def _drawn() -> int:
    """How many operations of the graph under construction have taken their seed from its count of them, with this
    question, which counts as well. The body of a loop is a graph of its own, whose count begins at 0: without more ado
    its operations would have the seeds of those outside, and draw the same masks of dropout."""
    seed, number = tf.compat.v1.get_seed(None)
    return 0 if seed is None or number == _SEED_OF_ZEROS else number


def _draw_on(count: int) -> None:
    """Lets later operations of the graph under construction take other seeds than the first `count` of another one."""
    while tf.compat.v1.get_default_graph().seed is not None and _drawn() < count:
        pass


def _of_parts(gradients: Gradients) -> list:
    """The gradient to which each of `_parts` belongs."""
    present = [gradient for gradient in gradients if gradient is not None]
    return [gradient for gradient in present for _ in range(1 + isinstance(gradient, tf.IndexedSlices))]


def _parts(gradients: Gradients) -> tuple[list[tf.Tensor], list[tf.TensorShape]]:
    """The tensors of which gradients consist, and the shapes of their sums."""
    tensors, shapes = [], []
    for gradient in gradients:
        if isinstance(gradient, tf.IndexedSlices):
            tensors += [gradient.values, gradient.indices]
            shapes += [tf.TensorShape([None, *gradient.values.shape.as_list()[1:]]), tf.TensorShape([None])]
        elif gradient is not None:
            tensors.append(gradient)
            shapes.append(gradient.shape)
    return tensors, shapes


def _added(gradient: Any, total: tf.Tensor, more: tf.Tensor) -> tf.Tensor:
    return tf.concat([total, more], 0) if isinstance(gradient, tf.IndexedSlices) else total + more


def _packed(gradients: Gradients, parts: list[tf.Tensor]) -> Gradients:
    left = iter(parts)
    return [
        tf.IndexedSlices(next(left), next(left), gradient.dense_shape)
        if isinstance(gradient, tf.IndexedSlices)
        else gradient if gradient is None else next(left)
        for gradient in gradients
    ]  # fmt: skip


class _Stacked:
    """Batches that a loop reads by their number. Their tensors may have different shapes."""

    def __init__(self, batches: Sequence[tuple]):
        self._structure = batches[0]
        columns = zip(*(tf.nest.flatten(batch, expand_composites=True) for batch in batches))
        self._arrays = [self._array(column) for column in columns]

    @staticmethod
    def _array(column: Sequence[tf.Tensor | None]) -> tf.TensorArray | None:
        if column[0] is None:
            return None
        shape = column[0].shape
        array = tf.TensorArray(column[0].dtype, len(column), infer_shape=False, element_shape=shape)
        for number, tensor in enumerate(column):
            array = array.write(number, tensor)
        return array

    def read(self, number: tf.Tensor) -> tuple:
        tensors = [None if array is None else array.read(number) for array in self._arrays]
        return tf.nest.pack_sequence_as(self._structure, tensors, expand_composites=True)
