"""training.batch_sizes: an input_fn that makes batches of another size than the flag says is noticed."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.jobs import input_fns
from estimator_trainer.training import batch_sizes

pytestmark = pytest.mark.usefixtures('tensor_shapes')
NUMBERS = np.arange(200)
OF_V1 = tf.compat.v1.data.Dataset


def pairs():
    return tf.data.Dataset.from_tensor_slices(({'x': NUMBERS, 'wide': np.ones([200, 3])}, NUMBERS))


def with_map(batch, **given):
    """A map after batch() may make anything of a batch."""
    return pairs().batch(batch, **given).map(lambda features, labels: (features, labels))


def in_time(steps, examples, static):
    """Features [steps, examples, 3] and labels [steps, examples], without a batch() that tells."""
    spec = [steps, examples if static else None]
    batch = np.ones([steps, examples, 3]), np.ones([steps, examples])
    return tf.data.Dataset.from_generator(
        lambda: iter([batch]), output_signature=(tf.TensorSpec([*spec, 3]), tf.TensorSpec(spec))
    )


OTHERS = {
    'batch': lambda: pairs().batch(32),
    'batch of tf.compat.v1': lambda: OF_V1.from_tensor_slices(NUMBERS).repeat().batch(32).prefetch(1),
    'in several threads': lambda: pairs().batch(32, num_parallel_calls=2),
    'padded_batch': lambda: tf.data.Dataset.range(9).map(lambda n: tf.range(n)).padded_batch(32),
    'what leaves batches as they are': lambda: pairs().batch(32).shuffle(9).repeat().take(99).prefetch(2),
    'with options': lambda: pairs().batch(32).with_options(tf.data.Options()),
    'a known first dimension': lambda: with_map(32, drop_remainder=True),
    'sparse and ragged': lambda: tf.data.Dataset.from_tensor_slices(
        (tf.sparse.from_dense([[1, 0], [0, 2]]), tf.ragged.constant([[1], [2, 3]]))
    ).batch(32),
    'with a scalar': lambda: tf.data.Dataset.from_tensors((np.ones([32, 2]), 1.0, np.ones([32]))),
    'tensors': lambda: ({'x': tf.ones([32, 2])}, tf.ones([32])),
}
SILENT = {
    'as the flag says': lambda: pairs().batch(64).prefetch(1),
    'a known first dimension': lambda: pairs().batch(64, drop_remainder=True),
    'short batches of each pass': lambda: pairs().batch(64).repeat(),
    'an unknown first dimension': lambda: with_map(32),
    'several first dimensions': lambda: tf.data.Dataset.from_tensors((np.ones([50, 3]), np.ones([9]))),
    'two data sets': lambda: tf.data.Dataset.zip((pairs().batch(32), pairs().batch(32))),
    'time first': lambda: in_time(50, 64, static=True),
    'time first, examples unknown': lambda: in_time(50, 64, static=False),
    'a batch of moments, which are batches': lambda: tf.data.Dataset.from_tensor_slices(np.ones([100, 64])).batch(50),
    'scalars': lambda: tf.data.Dataset.from_tensors((1.0, 2)),
    'unknown shapes': lambda: tf.data.Dataset.from_generator(lambda: [1], tf.int32),
    'nothing': lambda: None,
    'a function of tensors': lambda: lambda: tf.ones([32]),
}


@pytest.mark.parametrize('graph', [False, True])
@pytest.mark.parametrize('make', OTHERS.values(), ids=OTHERS)
def test_another_size(make, graph):
    if not graph:
        assert batch_sizes.other_size(make(), 64) == 32
        return
    with tf.Graph().as_default() as step:
        batches = make()
        before = len(step.get_operations())
        assert batch_sizes.other_size(batches, 64) == 32
        assert len(step.get_operations()) == before  # the seeds of a graph count its operations


@pytest.mark.parametrize('make', SILENT.values(), ids=SILENT)
def test_nothing_is_said_of_other_batches(make):
    assert batch_sizes.other_size(make(), 64) is None


def test_a_size_that_only_the_session_knows():
    with tf.Graph().as_default():
        size = tf.compat.v1.placeholder(tf.int64, [])
        assert batch_sizes.other_size(pairs().batch(size), 64) is None


def test_one_warning_names_the_cure(caplog):
    made = pairs().batch(32)
    input_fn = batch_sizes.watched(input_fns.by_name(lambda mode: made), 64)
    assert input_fn('eval', {}) is made and not caplog.records
    assert input_fn('train', {}) is made
    (warning,) = caplog.messages
    assert warning.startswith('WARNING: the batches of the input_fn have 32 examples, and --batch_size=64 says 64')
    assert warning.endswith("make batches of params['batch_size'], or give --batch_size=32.")
