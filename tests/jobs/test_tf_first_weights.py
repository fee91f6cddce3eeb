"""compat.patches.seeds and jobs.first_weights: the weights a graph begins with if nobody has given a seed."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat.patches import seeds
from estimator_trainer.evaluation import exact_evaluation
from estimator_trainer.jobs import first_weights as of_get_variable

v1 = tf.compat.v1
_DRAW = {'RandomUniform', 'RandomStandardNormal', 'TruncatedNormal'}


@pytest.fixture(autouse=True)
def nobody_has_seeded_keras(monkeypatch):
    monkeypatch.setattr(seeds._generators(), 'generator', None, raising=False)


def first_weights(folder, seed=1, layer_seed=None):
    """Kernels by name: of two layers of Keras and of one variable of TensorFlow 1."""

    def model_fn(features, labels, mode):
        outputs = tf.matmul(tf.nn.dropout(features, 0.5), v1.get_variable('kernel', [4, 4]))
        for units in (3, 2):
            initializer = tf.keras.initializers.GlorotUniform(layer_seed)
            layer = tf.keras.layers.Dense(units, kernel_initializer=initializer, name=f'layer_{units}')
            outputs = layer(tf.nn.dropout(outputs, 0.5))
        loss = tf.reduce_mean(outputs)
        train_op = v1.train.GradientDescentOptimizer(0.0).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    config = tf.estimator.RunConfig(str(folder), tf_random_seed=seed)
    estimator = tf.estimator.Estimator(exact_evaluation.with_exact_loss(model_fn), config=config)
    estimator.train(lambda: tf.data.Dataset.from_tensors((tf.ones([2, 4]), tf.ones([2]))).repeat(), steps=1)
    return {
        name: estimator.get_variable_value(name).tolist()
        for name in estimator.get_variable_names()
        if name.endswith('kernel')
    }


def test_the_seed_of_the_run_decides_the_weights_of_layers_without_one(tmp_path):
    first = first_weights(tmp_path / 'a')
    assert len(first) == 3 and first == first_weights(tmp_path / 'b')
    assert first != first_weights(tmp_path / 'c', seed=2)


def test_a_seed_of_an_initializer_stays_in_force(tmp_path):
    first, other = (first_weights(tmp_path / str(seed), seed, layer_seed=7) for seed in (1, 2))
    assert first.pop('kernel') != other.pop('kernel') and first == other


def test_a_job_that_seeds_keras_itself(tmp_path):
    tf.keras.utils.set_random_seed(5)
    first = first_weights(tmp_path / 'a', 1)
    tf.keras.utils.set_random_seed(5)
    other = first_weights(tmp_path / 'b', 2)
    assert first.pop('kernel') != other.pop('kernel') and first == other


def table(parts=1, shape=(23, 4), **kwargs):
    """The first values of a table of some parts, and the largest tensor that they are made of."""
    with tf.Graph().as_default() as graph, of_get_variable.of_seed(1):
        partitioner = v1.fixed_size_partitioner(parts, axis=0) if parts > 1 else None
        whole = v1.get_variable('table', shape, partitioner=partitioner, **kwargs)
        drawn = [op.outputs[0].shape.num_elements() for op in graph.get_operations() if op.type in _DRAW]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            return session.run(tf.convert_to_tensor(whole)).tolist(), max(drawn)


@pytest.mark.parametrize(
    'initializer', [None, v1.random_normal_initializer(stddev=0.1), v1.variance_scaling_initializer(mode='fan_out')]
)
def test_a_large_table_is_drawn_in_blocks_and_begins_alike_whatever_its_parts(monkeypatch, initializer):
    small, drawn = table(initializer=initializer)
    assert drawn == 23 * 4 and all(table(parts, initializer=initializer)[0] == small for parts in (2, 5))
    monkeypatch.setattr(of_get_variable, 'BLOCK_VALUES', 20)  # 5 rows
    large, drawn = table(initializer=initializer)
    assert drawn == 20 and large[:5] != large[5:10]
    assert all(table(parts, initializer=initializer) == (large, 20) for parts in (2, 3, 5, 23))
    assert abs(np.std(large) / np.std(small) - 1) < 0.3  # the scale is that of the whole


@pytest.mark.parametrize('replicas', [1, 2])
def test_variables_whose_first_values_the_seed_does_not_decide_alone_are_named(tmp_path, caplog, replicas):
    def model_fn(features, labels, mode):
        outputs = tf.nn.dropout(features, 0.5) + v1.get_variable('get_variable', [4])
        outputs += tf.Variable(tf.random.normal([4]), name='random') + tf.Variable(tf.ones([4]), name='constant')
        outputs += tf.Variable(lambda: 2 * tf.random.uniform([4]), name='function')
        outputs += tf.Variable(tf.random.normal([4], seed=1), name='seeded')
        outputs = tf.keras.layers.Dense(3)(outputs)
        loss = tf.reduce_mean(outputs)
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def batches():
        return tf.data.Dataset.from_tensors((tf.ones([2, 4]), tf.ones([2]))).repeat()

    caplog.set_level(logging.WARNING, 'estimator_trainer')
    strategy = tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'][:replicas], tf.distribute.ReductionToOneDevice())
    config = tf.estimator.RunConfig(
        str(tmp_path), tf_random_seed=1, train_distribute=strategy if replicas > 1 else None
    )
    for steps in (1, 2):  # the second one goes on from a checkpoint
        estimator = tf.estimator.Estimator(exact_evaluation.with_exact_loss(model_fn), config=config)
        estimator.train(batches, max_steps=steps)
    (warning,) = (record.getMessage() for record in caplog.records if '--seed' in record.getMessage())
    assert 'first values of function, random:' in warning
