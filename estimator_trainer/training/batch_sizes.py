"""Notices an input_fn whose batches have another number of examples than --batch_size says.

Epochs, examples/s and the position at which a run resumes are counted by the flag. The data set tells its size before
the first step, so that no step becomes slower. If it does not tell for certain, nothing is said.
"""

import logging
from typing import Any

import tensorflow as tf

from estimator_trainer.compat.patches import data_sets
from estimator_trainer.jobs.input_fns import InputFnOfAll
from estimator_trainer.jobs.job_types import Mode, Params, RunConfig

_log = logging.getLogger('estimator_trainer')


def watched(input_fn: InputFnOfAll, batch_size: int) -> InputFnOfAll:
    """An input_fn of `jobs.input_fns` that warns if it makes training batches of another size than `batch_size`."""

    def call(
        mode: Mode, params: Params, input_context: tf.distribute.InputContext | None = None, config: RunConfig = None
    ) -> tf.data.Dataset:
        batches = input_fn(mode, params, input_context, config)
        size = other_size(batches, batch_size) if mode == tf.estimator.ModeKeys.TRAIN else None
        if size is not None:
            _log.warning('WARNING: %s', _warning(size, batch_size))
        return batches

    return call


def other_size(batches: Any, batch_size: int) -> int | None:
    """How many examples each batch has, if that is certainly not `batch_size`; else None. A batch at the end of the
    data may be short.

    The number is what the data set was told to put into a batch. If that is unknown, it is the first dimension of all
    tensors, where all have the same. A second dimension of `batch_size` may be the examples, after one of time.

    Args:
        batches: what an input_fn returns: a data set, the tensors of a batch, or a function that makes these.
    """
    of_data = isinstance(batches, tf.data.Dataset)
    leaves = tf.nest.flatten(batches.element_spec if of_data else batches)
    shapes = [tf.TensorShape(leaf.shape) for leaf in leaves if getattr(leaf, 'shape', None) is not None]
    sizes = [[None] if shape.rank is None else shape.as_list() for shape in shapes if shape.rank != 0]
    first, second = {each[0] for each in sizes}, {each[1] for each in sizes if len(each) > 1}
    size = data_sets.batch_size(batches) if of_data else None
    if size is None and len(first) == 1 and None not in first | second:
        (size,) = first
    return None if size == batch_size or batch_size in second else size


def _warning(size: int, batch_size: int) -> str:
    return (
        f'the batches of the input_fn have {size} examples, and --batch_size={batch_size} says {batch_size} (of each '
        'replica). Epochs, examples/s and the position at which a run resumes are counted by the flag, and come out '
        f"wrong. Let the input_fn make batches of params['batch_size'], or give --batch_size={size}."
    )
