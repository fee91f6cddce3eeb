"""data.order and data.pipeline.array_batches: which example stands where."""

import gc
import itertools
import weakref

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.data import array_batches, order, pipeline

v1 = tf.compat.v1
TRAIN, EVAL = tf.estimator.ModeKeys.TRAIN, tf.estimator.ModeKeys.EVAL
N, GLOBAL_BATCH, STEPS = 100, 48, 7  # 336 positions: more than three epochs, none ends with a batch


def batches_of(n=N, batch_size=GLOBAL_BATCH, seed=7, start_step=0, context=None, mode=TRAIN, **params):
    ids = np.arange(n)
    return array_batches(
        {'id': ids}, 2 * ids, mode, dict(batch_size=batch_size, seed=seed, start_step=start_step, **params), context
    )


def ids_of(dataset, count):
    """[[id, ...], ...] of the first batches; their labels are checked on the way."""
    rows = []
    for features, labels in itertools.islice(dataset.as_numpy_iterator(), count):
        np.testing.assert_array_equal(labels, 2 * features['id'])
        rows.append(features['id'].tolist())
    return rows


def global_batches(pipelines, replicas_each, steps=STEPS, **kwargs):
    """The ids of each global batch, by pipeline and replica."""
    replicas = pipelines * replicas_each
    shares = []
    for index in range(pipelines):
        context = tf.distribute.InputContext(pipelines, index, replicas)
        rows = ids_of(batches_of(batch_size=GLOBAL_BATCH // replicas, context=context, **kwargs), steps * replicas_each)
        shares.append([sum(rows[k * replicas_each : (k + 1) * replicas_each], []) for k in range(steps)])
    return [sum(of_step, []) for of_step in zip(*shares)]


@pytest.fixture(scope='module')
def alone():
    return ids_of(batches_of(), STEPS)


def permutation(n, epoch=0, seed=7, stream=0):
    positions = tf.range(epoch * n, (epoch + 1) * n, dtype=tf.int64)
    return order.permuted(positions, n, seed, stream).numpy().tolist()


@pytest.mark.parametrize('pipelines, replicas_each', [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2)])
def test_a_global_batch_is_the_same_for_any_number_of_workers(alone, pipelines, replicas_each):
    assert global_batches(pipelines, replicas_each) == alone


@pytest.mark.parametrize('pipelines, replicas_each', [(2, 1), (1, 2)])
def test_a_resumed_run_goes_on_where_it_was(alone, pipelines, replicas_each):
    assert global_batches(pipelines, replicas_each, steps=STEPS - 3, start_step=3) == alone[3:]


@pytest.mark.parametrize('replicas', [1, 2, 3])
def test_without_a_context_the_replicas_of_a_task_go_on_where_they_were(alone, replicas):
    batches = batches_of(batch_size=GLOBAL_BATCH // replicas, start_step=3, replicas_per_task=replicas)
    rows = ids_of(batches, (STEPS - 3) * replicas)
    assert [sum(rows[k : k + replicas], []) for k in range(0, len(rows), replicas)] == alone[3:]
    assert pipeline.in_memory(batches).replicas == replicas


def test_asynchronous_workers_interleave(alone):
    shares = [
        ids_of(batches_of(batch_size=24, context=tf.distribute.InputContext(2, index, 1)), STEPS) for index in range(2)
    ]
    assert [first + second for first, second in zip(*shares)] == alone


def test_each_example_once_in_each_epoch_in_another_order(alone):
    row = sum(alone, [])
    epochs = [row[start : start + N] for start in range(0, 3 * N, N)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(N))
    assert epochs[0] != epochs[1] != epochs[2] != epochs[0]


def test_a_batch_larger_than_the_data_set_spans_epochs():
    row = sum(ids_of(batches_of(n=5, batch_size=12), 5), [])
    assert [sorted(row[start : start + 5]) for start in range(0, 60, 5)] == [list(range(5))] * 12


def test_the_seed_decides(alone):
    assert ids_of(batches_of(), STEPS) == alone
    other = ids_of(batches_of(seed=8), STEPS)
    assert sum(a == b for a, b in zip(sum(other, []), sum(alone, []))) < 0.1 * GLOBAL_BATCH * STEPS


@pytest.mark.parametrize('n', [1, 2, 3, 7, 1000])
@pytest.mark.parametrize('seed, epoch', [(0, 0), (2**31 - 1, 3), (7, 10**6)])
def test_order_is_a_permutation(n, seed, epoch):
    assert sorted(permutation(n, epoch, seed)) == list(range(n))


def test_every_order_of_three_occurs():
    assert len({tuple(permutation(3, epoch)) for epoch in range(200)}) == 6


def test_streams_are_independent():
    same = np.equal(permutation(1000, stream=0), permutation(1000, stream=1))
    assert same.mean() < 0.02


def test_training_says_that_it_is_infinite():
    dataset = batches_of()
    assert dataset.cardinality() == tf.data.INFINITE_CARDINALITY
    assert dataset.element_spec[0]['id'].shape.as_list() == [GLOBAL_BATCH]


@pytest.mark.parametrize('n', [1, 47, 48, 100])
def test_evaluation_gives_each_example_once_in_order(n):
    context = tf.distribute.InputContext(1, 0, 2)
    rows = ids_of(batches_of(n=n, mode=EVAL, context=context, start_step=5), None)
    assert sum(rows, []) == list(range(n))
    assert [len(row) for row in rows[:-1]] == [GLOBAL_BATCH] * (len(rows) - 1)
    assert len(rows) == -(-n // GLOBAL_BATCH)


@pytest.mark.parametrize('mode', [TRAIN, EVAL])
@pytest.mark.parametrize(
    'features, labels, message',
    [
        ({'x': np.zeros(3)}, np.zeros(4), r'\[3, 4\]'),
        ({'x': np.zeros(3), 'y': np.zeros((2, 3))}, np.zeros(3), r'\[2, 3\]'),
        ({'x': np.zeros((0, 2))}, np.zeros(0), r'\[0\]'),
        ({'x': np.zeros(3)}, {'a': np.zeros(3), 'b': np.zeros(4)}, r'\[3, 4\]'),
        ({'x': np.zeros(3)}, None, 'labels: an array .* is needed; got None'),
        ({'x': 7}, np.zeros(3), 'x: an array .* is needed; got 7'),
    ],
)
def test_arrays_that_are_refused(features, labels, message, mode):
    with pytest.raises(ValueError, match=message):
        array_batches(features, labels, mode, dict(batch_size=1, seed=0, start_step=0))


def in_a_graph(features, labels, mode, most, seed=7):
    """(batches, element_spec, bytes of the graph) as Estimator has them: a data set in a graph."""
    found = []
    with tf.Graph().as_default() as graph, v1.Session() as session:
        dataset = array_batches(features, labels, mode, dict(batch_size=8, seed=seed, start_step=0))
        iterator = v1.data.make_initializable_iterator(dataset)
        batch = iterator.get_next()
        session.run(iterator.initializer)
        try:
            while len(found) < most:
                found.append(session.run(batch))
        except tf.errors.OutOfRangeError:
            pass
        return found, dataset.element_spec, graph.as_graph_def().ByteSize()


TWENTY = {
    'float': np.arange(60, dtype=np.float32).reshape(20, 3),
    'half': np.arange(20).astype(np.float16),
    'bool': np.arange(20) % 2 == 0,
    'complex': np.arange(20).astype(np.complex64),
    'columns first': np.asfortranarray(np.arange(40.0).reshape(20, 2)),
    'of nothing': np.zeros([20, 0]),
    'bytes': np.array([b'', b'a', b'bc\xff', b'd'] * 5),
    'text': np.array(['', 'a', '\u00e4\u00f6', 'd\0e'] * 5),
    'objects': np.array(['', 'a', b'\xff\0', '\u00e4'] * 5, dtype=object),
    'table of text': np.array([['a', 'bcd']] * 20),
}


@pytest.mark.parametrize('labels', [np.arange(20), {'side': np.arange(20), 'name': np.array(list('abcde') * 4)}])
@pytest.mark.parametrize('mode, batches', [(TRAIN, 6), (EVAL, 3)])
def test_a_graph_gets_the_same_batches(mode, batches, labels):
    dataset = array_batches(TWENTY, labels, mode, dict(batch_size=8, seed=7, start_step=0))
    outside = list(dataset.take(6).as_numpy_iterator())
    inside, spec, _ = in_a_graph(TWENTY, labels, mode, most=6)
    assert spec == dataset.element_spec
    assert len(inside) == len(outside) == batches
    if isinstance(labels, dict):
        assert all(batch[1].keys() == labels.keys() for batch in inside)
    for one, other in zip(inside, outside):
        tf.nest.map_structure(np.testing.assert_array_equal, one, other)
        assert [array.dtype for array in tf.nest.flatten(one)] == [array.dtype for array in tf.nest.flatten(other)]


def test_numbers_of_another_byte_order_in_a_graph():
    values = np.arange(20)
    ((features, labels),) = in_a_graph({'x': values.astype('>i4')}, values.astype('>i8'), EVAL, most=1)[0]
    assert features['x'].tolist() == labels.tolist() == list(range(8))


@pytest.mark.parametrize('mode', [TRAIN, EVAL])
def test_arrays_are_no_part_of_the_graph(mode):
    large = {'x': np.ones([1000, 1000], np.float32), 'text': np.array(['a' * 1000] * 1000)}
    _, _, size = in_a_graph(large, np.arange(1000), mode, most=1)
    assert size < 50_000


def test_arrays_are_freed_with_the_graph():
    gone = []

    class Array(np.ndarray):
        """One that can be asked whether it is there."""

    for mode in (TRAIN, EVAL):
        values = np.arange(20.0).view(Array)
        gone.append(weakref.ref(values))
        in_a_graph({'x': values}, values, mode, most=2)
        for _ in array_batches({'x': values}, values, mode, dict(batch_size=8, seed=7, start_step=0)).take(2):
            pass
    del values
    gc.collect()
    assert [ref() for ref in gone] == [None, None]
