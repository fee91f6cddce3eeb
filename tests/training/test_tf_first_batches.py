"""training.first_batches: an input_fn that does not shard is noticed, and its batches stay what they are."""

import logging

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.data import first_batch
from estimator_trainer.jobs import input_fns
from estimator_trainer.training import first_batches
from tests import fakes

TRAIN = tf.estimator.ModeKeys.TRAIN
NUMBERS = np.arange(40)


def unsharded(mode):
    return tf.data.Dataset.from_tensor_slices(({'x': NUMBERS}, NUMBERS)).repeat().batch(4)


def ignoring(mode, params, input_context):
    return unsharded(mode)


def from_python(mode):
    return tf.data.Dataset.from_generator(lambda: iter(NUMBERS), tf.int64, []).batch(4)


def sharded(mode, params, input_context):
    numbers = tf.data.Dataset.from_tensor_slices(NUMBERS)
    return numbers.shard(input_context.num_input_pipelines, input_context.input_pipeline_id).batch(4)


def without_labels(mode):
    return tf.data.Dataset.from_tensor_slices({'x': NUMBERS}).repeat().batch(4).map(lambda x: (x, None))


def of_every_type(mode):
    return unsharded(mode).map(
        lambda x, y: (
            {
                'text': tf.strings.as_string(y),
                'half': tf.cast(y, tf.bfloat16),
                'truth': y > 3,
                'rows': tf.RaggedTensor.from_tensor(y[:, None]),
                'a data set': tf.data.Dataset.from_tensor_slices(y),
                'maybe': tf.experimental.Optional.from_value(y),
                'nothing': None,
            },
            y,
        )
    )


def constant(mode, input_context):
    assert input_context.input_pipeline_id < 2
    return tf.data.Dataset.from_tensors([1.0]).repeat()


class Cluster:
    """Tasks that train in step, as far as their first batches go."""

    def __init__(self, *input_fns_of_tasks):
        self.said, self.asked = {}, []
        self.tasks = [self._task(index, input_fn) for index, input_fn in enumerate(input_fns_of_tasks)]

    def _task(self, index, input_fn):
        count = 2
        plan = fakes.Plan(
            is_chief=index == 0, training_index=index, num_training_tasks=count, config=fakes.config(job='mine:job')
        )
        task = first_batches.FirstBatches(plan, self.said.__setitem__, self._hear)
        batches = task.watched(input_fns.by_name(input_fn))(TRAIN, {}, tf.distribute.InputContext(count, index, count))
        return task, iter(batches)

    def _hear(self, key):
        self.asked.append(key)
        return self.said[key]

    def call(self):
        batches = [next(iterator) for _, iterator in self.tasks]
        for task, _ in reversed(self.tasks):
            task.after_call()
        return batches


@pytest.fixture
def warnings(caplog):
    caplog.set_level(logging.WARNING, 'estimator_trainer')
    # A thread of an earlier test may still warn by other loggers.
    return lambda: [record.getMessage() for record in caplog.records if record.name == 'estimator_trainer']


@pytest.mark.parametrize('input_fn', [unsharded, ignoring, from_python, without_labels, of_every_type])
def test_one_warning_says_how_to_shard(warnings, input_fn):
    cluster = Cluster(input_fn, input_fn)
    cluster.call()
    assert not warnings() and not cluster.asked  # a task that is slower may not have told yet
    for _ in range(3):
        cluster.call()
    (warning,) = warnings()
    assert 'all 2 tasks train on the same examples' in warning and 'job mine:job' in warning
    assert 'dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)' in warning
    assert cluster.asked == ['first_batch/1']


@pytest.mark.parametrize('input_fn, warns', [(unsharded, 1), (sharded, 0)])
@pytest.mark.parametrize('calls', [1, 2])
def test_a_training_of_one_call_is_looked_at_when_all_have_trained(warnings, input_fn, warns, calls):
    cluster = Cluster(input_fn, input_fn)
    for _ in range(calls):
        cluster.call()
    for task, _ in cluster.tasks:
        task.after_training()
    assert len(warnings()) == warns


def of_file(name):
    return lambda mode: tf.data.Dataset.from_tensor_slices([name, 'same']).batch(2).repeat()


@pytest.mark.parametrize('pair', [(sharded, sharded), (of_file('a'), of_file('b')), (constant, constant)])
def test_nothing_is_said_of_tasks_with_data_of_their_own(warnings, pair):
    cluster = Cluster(*pair)
    for _ in range(3):
        cluster.call()
    assert not warnings()


def test_an_input_fn_that_shards_costs_nothing():
    batches = tf.data.Dataset.range(8)

    def input_fn(mode, params, input_context):
        return batches.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)

    context, watched = tf.distribute.InputContext(2, 1, 2), Cluster(sharded, sharded).tasks[0][0].watched
    assert type(watched(input_fns.by_name(input_fn))(TRAIN, {}, context)).__name__.startswith('_Shard')
    assert watched(lambda *given: batches)('eval', {}, context) is batches


def test_a_task_that_is_lost_meanwhile_ends_nothing(warnings):
    cluster = Cluster(unsharded, unsharded)
    cluster.call()

    def away(key):
        raise tf.errors.UnavailableError(None, None, 'gone')

    cluster.tasks[0][0]._hear = away
    cluster.call()
    assert not warnings()


ODD = {
    'sparse, ragged and strings': lambda: tf.data.Dataset.from_tensor_slices(
        ({'sparse': tf.sparse.from_dense([[1, 0], [0, 2]]), 'ragged': tf.ragged.constant([[1], [2, 3]])}, ['a', 'b'])
    ).batch(2),
    'no labels': lambda: tf.data.Dataset.range(6).map(lambda x: {'x': x, 'all': 7}).batch(2).repeat(),
    'nothing': lambda: tf.data.Dataset.range(0),
}


@pytest.mark.parametrize('make', ODD.values(), ids=ODD)
def test_the_data_stay_what_they_are(make):
    told = []
    passed = first_batch.telling(make(), told.append)
    assert passed.element_spec == make().element_spec
    assert passed.cardinality().numpy() == make().cardinality().numpy()
    for ours, theirs in zip(passed.take(5), make().take(5), strict=True):
        tf.nest.map_structure(
            lambda a, b: np.testing.assert_array_equal(a.numpy(), b.numpy()),
            tf.nest.flatten(ours, expand_composites=True),
            tf.nest.flatten(theirs, expand_composites=True),
        )
    assert len(told) == min(1, len(list(make().take(1))))


def test_each_example_is_drawn_once():
    drawn = []

    def draw():
        for number in range(5):
            drawn.append(number)
            yield number

    batches = first_batch.telling(tf.data.Dataset.from_generator(draw, tf.int64, []), lambda found: None)
    assert [batch.numpy() for batch in batches] == drawn == [0, 1, 2, 3, 4]


def test_in_a_graph():
    told = []
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        batches = first_batch.telling(tf.data.Dataset.range(6).batch(2), told.append)
        batch = tf.compat.v1.data.make_initializable_iterator(batches)
        step = batch.get_next()
        session.run(batch.initializer)
        assert [session.run(step).tolist() for _ in range(3)] == [[0, 1], [2, 3], [4, 5]]
    assert len(told) == 1


def test_tensors_are_left_alone():
    tensors = ({'x': tf.constant([1])}, tf.constant([1]))
    assert first_batch.telling(tensors, pytest.fail) is tensors
