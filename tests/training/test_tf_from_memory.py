"""Steps that take their batches from examples in memory themselves: they compute what tf.data's batches give, bit for
bit, and everything that they cannot take is read by tf.data.

A run takes some steps with batches of tf.data, and goes on in the middle of an epoch: once with batches of tf.data, and
once with its own. Both have to end with the same variables.
"""

import shutil
import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer import main
from estimator_trainer.data import array_batches, pipeline
from estimator_trainer.evaluation import evaluation
from estimator_trainer.jobs import Job, image_classifier, losses
from estimator_trainer.run_dir import checkpoints
from estimator_trainer.training import from_memory

v1 = tf.compat.v1
EXAMPLES, FIRST, STEPS = 22, 3, 8  # batches of 4 end no epoch
_random = np.random.RandomState(0)
X = _random.normal(size=[EXAMPLES, 6]).astype(np.float32)
Y = _random.randint(0, 10, [EXAMPLES])


def input_fn(mode, params, input_context):
    return array_batches({'x': X}, Y, mode, params, input_context)


def make_model(params):
    x = tf.keras.Input([6], name='x')
    hidden = tf.keras.layers.Dense(5, 'relu', kernel_initializer=tf.keras.initializers.GlorotUniform(1))(x)
    hidden = tf.keras.layers.Dropout(0.3)(tf.keras.layers.BatchNormalization()(hidden))
    outputs = tf.keras.layers.Dense(10, kernel_initializer=tf.keras.initializers.GlorotUniform(2))(hidden)
    return tf.keras.Model({'x': x}, outputs)


job = Job(
    make_model=make_model,
    parts=image_classifier.PARTS,
    input_fn=input_fn,
    params={**image_classifier.PARAMS, 'optimizer': 'momentum'},
)


def of_unknown_size(features, labels, mode, params):
    """The static shape of the losses does not say how many examples there are."""
    weights = v1.get_variable('weights', [6, 10], initializer=v1.zeros_initializer())
    logits = tf.matmul(features['x'], weights)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    loss = losses.of_replica(v1.placeholder_with_default(each, [None]))
    optimizer = v1.train.MomentumOptimizer(0.1, 0.9)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, v1.train.get_global_step()))


job_of_unknown_size = Job(model_fn=of_unknown_size, input_fn=input_fn)

PARAMS = dict(batch_size=4, seed=7, start_step=3, position_shift=5)
WORDS = np.array([f'word {number}' for number in range(EXAMPLES)], object)


def plan_of(**changes):
    config = types.SimpleNamespace(**{'in_memory_mb': 1, 'mixed_precision': '', **changes.pop('config', {})})
    alone = dict(trains_alone=True, is_multi_worker=False, num_replicas=1)
    return types.SimpleNamespace(config=config, **{**alone, **changes})


def words(mode='train', params=PARAMS, input_context=None):
    return array_batches({'x': X, 'word': WORDS}, {'y': Y}, mode, params, input_context)


@pytest.mark.parametrize('replicas', [1, 2])
def test_the_batches_are_those_of_the_data_set(replicas):
    data = words(input_context=tf.distribute.InputContext(1, 0, replicas))
    carried = pipeline.in_memory(data)
    whole = carried.whole.get_single_element()
    assert carried.replicas == replicas
    for number, batch in enumerate(data.take(2 * EXAMPLES)):  # eight epochs
        taken = carried.batch(whole, tf.constant(number, tf.int64))
        tf.nest.map_structure(np.testing.assert_array_equal, taken, batch)


def all_of(batch, data):
    features, labels = batch
    text = tf.strings.join([features['word'], tf.as_string(features['x'][:, 0]), tf.as_string(labels['y'])])
    return tf.strings.reduce_join(text)


def test_a_step_in_a_graph_gets_the_same_batches():
    rows = []
    for takes_over in (False, True):
        with tf.Graph().as_default() as graph:
            data = words()
            iterator = v1.data.make_initializable_iterator(data)
            target = all_of(iterator.get_next(), data)
            taken = from_memory.take_over([data], plan_of(), [target.op]) if takes_over else None
            assert (taken is not None) == takes_over
            with v1.Session(graph=graph) as session:
                for _ in range(2):  # one that begins anew reads them anew
                    taken.start(session) if taken else session.run(iterator.initializer)
                    rows.append([session.run(target) for _ in range(6)])
    assert all(row == rows[0] for row in rows)
    assert len(set(rows[0])) == 6


def twice(iterator, data):
    iterator.get_next()
    return all_of(iterator.get_next(), data)


def of_another(iterator, data):
    return all_of(iterator.get_next(), data), v1.data.make_one_shot_iterator(tf.data.Dataset.range(3)).get_next()


def after_it(iterator, data):
    features, labels = iterator.get_next()
    with tf.control_dependencies([labels['y']]):
        return tf.constant('')


@pytest.mark.parametrize(
    'step, plan, changed',
    [
        (twice, {}, None),
        (of_another, {}, None),
        (after_it, {}, None),
        (None, {}, lambda data: data.map(lambda *batch: batch)),
        (None, {}, lambda data: data.take(5)),
        (None, dict(trains_alone=False), None),
        (None, dict(is_multi_worker=True), None),
        (None, dict(num_replicas=2), None),
        (None, dict(config=dict(in_memory_mb=0)), None),
        (None, dict(config=dict(mixed_precision='bfloat16')), None),
    ],
)
def test_what_is_left_to_tf_data(step, plan, changed):
    with tf.Graph().as_default():
        data = (changed or (lambda data: data))(words())
        iterator = v1.data.make_initializable_iterator(data)
        made = step(iterator, data) if step else all_of(iterator.get_next(), data)
        target = made[0] if isinstance(made, tuple) else made
        assert from_memory.take_over([data], plan_of(**plan), [target.op]) is None


def noted(method, used):
    def call(*args):
        used.append(method)
        return method(*args)

    return call


@pytest.fixture
def train(monkeypatch, tmp_path):
    """(folder, steps, takes_over, *flags) -> (variables of the last checkpoint, whether steps took their batches)"""
    monkeypatch.setattr(tf.config, 'set_logical_device_configuration', lambda *args: None)  # there are two
    for name in ('set_intra_op_parallelism_threads', 'set_inter_op_parallelism_threads'):
        monkeypatch.setattr(tf.config.threading, name, lambda threads: None)
    for name in ('evaluate_checkpoint', 'of_last', 'check_early'):
        monkeypatch.setattr(evaluation.Evaluation, name, lambda *args, **kwargs: None)
    usable, used = from_memory.usable, []
    for its, method in ((from_memory.InGraph, 'start'), (from_memory.Iterator, 'get_next_as_optional')):
        monkeypatch.setattr(its, method, noted(getattr(its, method), used))

    def train(folder, steps, takes_over, *flags):
        used.clear()
        monkeypatch.setattr(from_memory, 'usable', usable if takes_over else lambda *args: None)
        argv = [f'--model_dir={tmp_path / folder}', f'--max_steps={steps}', '--batch_size=4', '--seed=3', '--export=']
        argv += ['--report=off', '--allocator=system', '--secure=off', '--save_checkpoints_steps=100']
        assert main.main(['trainer', *argv, *flags]) == 0
        reader = tf.train.load_checkpoint(checkpoints.latest(str(tmp_path / folder)))
        values = {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
        values.pop('save_counter/.ATTRIBUTES/VARIABLE_VALUE', None)
        values.pop('_CHECKPOINTABLE_OBJECT_GRAPH', None)
        return values, bool(used)

    return train


def check_equal(values, expected):
    assert set(values) == set(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(values[name], value, err_msg=name)


CASES = [
    *((loop, *numbers) for loop in ('keras_fit', 'custom_loop') for numbers in ((1, 1), (2, 3))),
    ('estimator', 1, 1),
    ('estimator', 2, 3),
    *(pytest.param('estimator', *numbers, marks=pytest.mark.slow) for numbers in ((1, 3), (2, 1))),
]


@pytest.mark.parametrize('loop, replicas, accumulated', CASES)
def test_bit_for_bit_and_resumed_across_the_change(train, tmp_path, loop, replicas, accumulated):
    flags = [
        f'--loop={loop}',
        f'--num_replicas={replicas}',
        f'--accumulate_steps={accumulated}',
        f'--job={__name__}:job',
    ]
    train('before', FIRST, False, *flags)
    shutil.copytree(tmp_path / 'before', tmp_path / 'after')
    expected, taken = train('before', STEPS, False, *flags)
    assert not taken
    values, taken = train('after', STEPS, True, *flags)
    assert taken
    check_equal(values, expected)


def test_micro_batches_whose_sizes_a_step_has_to_know_are_read_by_tf_data(train):
    """It reads all of them before it trains the first one."""
    flags = [f'--job={__name__}:job_of_unknown_size', '--accumulate_steps=3']
    expected, _ = train('before', STEPS, False, *flags)
    values, taken = train('after', STEPS, True, *flags)
    assert not taken
    check_equal(values, expected)


def test_images_that_are_moved(train, tmp_path):
    flags = ['--job=mnist', '--param=filters=1', '--param=shift_pixels=3']
    train('before', FIRST, False, *flags)
    shutil.copytree(tmp_path / 'before', tmp_path / 'after')
    expected, _ = train('before', STEPS, False, *flags)
    values, taken = train('after', STEPS, True, *flags)
    assert taken
    check_equal(values, expected)
