"""Names of slots, and partitions put together."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.tools.migrate.canned import checkpoint_reader

NAMES = [
    'dnn/kernel',
    'dnn/kernel/Adagrad',
    'dnn/kernel_2/Adagrad',
    'linear/word/weights/part_10/Ftrl',
    'linear/word/weights/part_2/Ftrl',
    'linear/word/weights/part_2/Ftrl_1',
    'dnn/bias/t_0/Adagrad',
    'training/Ftrl/linear/word/weights/linear',
    'training/Ftrl/linear/word/weights/accumulator',
]


@pytest.mark.parametrize(
    'variable, slot, expected',
    [
        ('dnn/kernel', '{variable}/Adagrad', [1]),
        ('linear/word/weights', '{variable}/Ftrl', [4, 3]),
        ('linear/word/weights', '{variable}/Ftrl_1', [5]),
        ('dnn/bias', '{variable}/Adagrad', [6]),
        ('linear/word/weights', 'training/Ftrl/{variable}/linear', [7]),
        ('kernel', '{variable}/Adagrad', []),
    ],
)
def test_names_of_slots(variable, slot, expected):
    assert checkpoint_reader.slot_names(NAMES, variable, slot) == [NAMES[number] for number in expected]


@pytest.mark.parametrize('parts', [1, 2, 3])
def test_slots_of_partitions_are_put_together(tmp_path, parts):
    """7 rows do not divide: earlier partitions have a row more."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        v1.train.get_or_create_global_step()
        table = v1.get_variable(
            'table', initializer=v1.random_uniform_initializer(seed=1), shape=[7, 2],
            partitioner=v1.fixed_size_partitioner(parts),
        )  # fmt: skip
        loss = tf.reduce_sum(v1.nn.embedding_lookup(table, list(range(7)), partition_strategy='div') ** 2)
        optimizer = v1.train.AdagradOptimizer(0.1)
        step = optimizer.minimize(loss, v1.train.get_global_step())
        slots = [optimizer.get_slot(part, 'accumulator') for part in table]
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(step)
            prefix = v1.train.Saver().save(session, str(tmp_path / 'model.ckpt'), 1)
            expected = np.concatenate(session.run(slots))
    found = checkpoint_reader.CheckpointReader(prefix)
    assert found.step == 1 and found.variable('table').shape == (7, 2)
    np.testing.assert_array_equal(found.slot('table', '{variable}/Adagrad'), expected)
    assert set(found.shapes) == found.used
    with pytest.raises(KeyError, match='table/Adam'):
        found.slot('table', '{variable}/Adam')
