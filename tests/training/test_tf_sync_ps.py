"""--sync_ps: workers in threads, each with a graph of its own, and two parameter servers in this process."""

import threading
import time

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.errors import UsageError
from estimator_trainer.supervisor.processes import ports
from estimator_trainer.training import agreed_start, parameter_server, sync_ps

v1 = tf.compat.v1
TRAIN = tf.estimator.ModeKeys.TRAIN
STEPS, WORKERS, BATCH, ROWS = 12, 3, 4, 7
BOUND_SECS = 120
BUILDS = threading.Lock()  # in a real run no thread beside this one makes optimizers


@pytest.fixture(scope='module')
def servers():
    """The addresses of two parameter servers."""
    with ports.claim(2) as claimed:
        addresses = [f'localhost:{port}' for port in claimed.ports]
        running = [tf.distribute.Server({'ps': addresses}, job_name='ps', task_index=index) for index in (0, 1)]
        yield addresses
    del running


@pytest.fixture
def target(servers):
    """Of sessions. What a test has left on the servers is gone."""
    v1.Session.reset(f'grpc://{servers[0]}')
    v1.Session.reset(f'grpc://{servers[1]}')
    return f'grpc://{servers[0]}'


def in_threads(work, count=WORKERS) -> list:
    """work(number) of each; raises what one of them raises."""
    results, errors = [None] * count, []

    def run(number):
        try:
            results[number] = work(number)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,), daemon=True) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(BOUND_SECS)
    if errors:
        raise errors[0]
    assert not any(thread.is_alive() for thread in threads)
    return results


def session(target):
    return v1.Session(target, config=v1.ConfigProto(operation_timeout_in_ms=BOUND_SECS * 1000))


def test_all_hear_the_same_sums_each_once_a_round(target):
    """The first is slow to say, the last is slow to listen: nobody takes two turns."""

    def work(number):
        with tf.Graph().as_default():
            mine = v1.placeholder(tf.float32, [2])
            total = parameter_server.Meeting('test', number, WORKERS, 2).add_up(mine)
            with session(target) as running:
                heard = []
                for turn in range(STEPS):
                    time.sleep(0.01 * (number == turn % WORKERS))
                    heard.append(running.run(total, {mine: [turn, 10**number]}).tolist())
                return heard

    assert in_threads(work) == [[[WORKERS * turn, 111] for turn in range(STEPS)]] * WORKERS


def test_a_worker_that_ends_alone_is_told_why(servers, target):
    with pytest.raises(RuntimeError, match='repeat for ever'):
        parameter_server.wait_for_all(servers, 1, 2, timeout_secs=1)


def data(step):
    """Global batch: rows of the table, some of them several times, and factors."""
    random = np.random.RandomState(step)
    return random.randint(0, ROWS, WORKERS * BATCH), random.normal(size=WORKERS * BATCH).astype(np.float32)


def model_fn(features, labels, mode, params, config):
    """A table in two parts and a bias, with an optimizer each; the step is counted as in canned Estimators."""
    table = v1.get_variable(
        'table', [ROWS, 2], initializer=v1.ones_initializer(), partitioner=v1.fixed_size_partitioner(2)
    )
    bias = v1.get_variable('bias', [], initializer=v1.zeros_initializer())
    unused = v1.get_variable('unused', [], initializer=v1.zeros_initializer())
    found = v1.nn.embedding_lookup(table, features['row'], partition_strategy='div')
    loss = tf.reduce_mean((tf.reduce_sum(found, 1) * features['factor'] + bias - 1) ** 2)
    first = v1.train.AdagradOptimizer(0.5).minimize(loss, var_list=[*table, unused])
    if params['keras']:
        optimizer = tf.keras.optimizers.legacy.Ftrl(0.3)
        second = optimizer.get_updates(loss, [bias])[0]
    else:
        second = v1.train.FtrlOptimizer(0.3).minimize(loss, var_list=[bias])
    with tf.control_dependencies([first, second]):
        train_op = v1.assign_add(v1.train.get_global_step(), 1).op
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def trained(target, worker, workers, params, start_step=0, pause=lambda step: 0, late=0, lost=False):
    """Trains STEPS steps, and begins another one alone if it is `lost`. (global step after each, {name: value})."""
    time.sleep(late)  # the variables of an earlier run are ready as well
    placed = v1.train.replica_device_setter(ps_tasks=2, worker_device='/job:ps/task:0') if workers > 1 else None
    with tf.Graph().as_default(), v1.device(placed):
        step = v1.train.get_or_create_global_step()
        share = BATCH * WORKERS // workers
        features = {'row': v1.placeholder(tf.int64, [share]), 'factor': v1.placeholder(tf.float32, [share])}
        fn = sync_ps.with_sync_updates(model_fn, worker, workers, start_step, BOUND_SECS) if workers > 1 else model_fn
        with BUILDS:
            spec = fn(features, None, TRAIN, params, None)
        hooks = spec.training_hooks
        for hook in hooks:
            hook.begin()
        values = {variable.op.name: variable for variable in v1.global_variables()}
        ready, start = v1.report_uninitialized_variables(), v1.global_variables_initializer()
        with session(target) as running:
            if worker == 0:
                running.run(start)
            while running.run(ready).size:
                time.sleep(0.05)
            for hook in hooks:
                hook.after_create_session(running, None)
            steps, options = [], v1.RunOptions()
            for number in range(STEPS + lost):
                if number == STEPS:
                    options.timeout_in_ms = 2000
                time.sleep(pause(number))
                rows, factors = (part[worker * share : (worker + 1) * share] for part in data(number))
                running.run(spec.train_op, {features['row']: rows, features['factor']: factors}, options)
                steps.append(int(running.run(step)))
            return steps, running.run(values)


@pytest.mark.parametrize('keras', [False, True])
def test_the_same_weights_as_one_process_and_every_worker_once_a_step(target, keras):
    """Sparse gradients of parts, rows that several workers meet or none, two optimizers, and one step at a time."""
    expected_steps, expected = trained('', 0, 1, {'keras': keras})
    together = in_threads(
        lambda number: trained(
            target, number, WORKERS, {'keras': keras}, pause=lambda step: 0.02 * (number == step % WORKERS)
        )
    )
    assert [steps for steps, _ in together] == [expected_steps] * WORKERS == [list(range(1, STEPS + 1))] * WORKERS
    _, values = together[0]
    assert values.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(values[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


def test_what_lost_workers_have_left_is_not_counted(target):
    """One has pushed the gradients of a step, and said so, and nobody came."""
    params = {'keras': False}
    _, expected = trained('', 0, 1, params)
    with pytest.raises(tf.errors.DeadlineExceededError):
        in_threads(lambda number: trained(target, number, WORKERS, params, lost=number == 1))
    together = in_threads(lambda number: trained(target, number, WORKERS, params, late=0.5 * (number == 0)))
    for name in expected:
        np.testing.assert_allclose(together[0][1][name], expected[name], rtol=1e-5, atol=1e-6)


def test_a_worker_that_has_found_another_checkpoint_ends(target):
    with pytest.raises(OSError, match='checkpoint 3'):
        in_threads(lambda number: trained(target, number, WORKERS, {'keras': False}, start_step=3))


@pytest.mark.parametrize('comes, missing', [(0, 'worker 1, worker 2'), (2, 'the chief')])
def test_one_that_waits_for_others_in_vain_names_them(target, comes, missing):
    """Others have met there before."""

    def meet(number, secs=BOUND_SECS):
        with tf.Graph().as_default():
            start = parameter_server.Start(number, WORKERS, secs)
            with session(target) as running:
                start.meet(running, lambda: None)

    in_threads(meet)
    with pytest.raises(agreed_start.StartRefused, match=f'{missing} has not come within 1 s'):
        meet(comes, secs=1)


def refused(fn):
    with tf.Graph().as_default():
        v1.train.get_or_create_global_step()
        sync_ps.with_sync_updates(fn, 0, 2, 0, 1)({}, None, TRAIN, {}, None)


def test_refuses_what_cannot_be_in_step():
    def own(features, labels, mode, params, config):
        loss = v1.get_variable('weight', []) ** 2
        optimizer = v1.train.SyncReplicasOptimizer(v1.train.GradientDescentOptimizer(0.1), 2)
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    def without(features, labels, mode, params, config):
        step = v1.train.get_global_step()
        return tf.estimator.EstimatorSpec(mode, loss=tf.constant(0.0), train_op=v1.assign_add(step, 1).op)

    def under_a_condition(features, labels, mode, params, config):
        weight, step = v1.get_variable('weight', [], use_resource=True), v1.train.get_global_step()
        loss = weight**2
        pairs = [(tf.gradients(loss, weight)[0], weight)]

        def apply():
            with tf.control_dependencies([v1.train.GradientDescentOptimizer(0.1).apply_gradients(pairs, step)]):
                return tf.constant(0)

        train_op = tf.cond(tf.math.is_finite(loss), apply, lambda: tf.constant(0)).op
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    originals = [kind.apply_gradients for kind in (v1.train.Optimizer, v1.train.SyncReplicasOptimizer)]
    with pytest.raises(UsageError, match='SyncReplicasOptimizer'):
        refused(own)
    with pytest.raises(UsageError, match='applies its gradients under a condition'):
        refused(under_a_condition)
    with pytest.raises(UsageError, match='applies no gradients'):
        refused(without)
    assert [kind.apply_gradients for kind in (v1.train.Optimizer, v1.train.SyncReplicasOptimizer)] == originals


def model_of(dtype, rows):
    def model_fn(features, labels, mode, params, config):
        table = v1.get_variable('table', [4, 2], dtype, v1.zeros_initializer())
        loss = tf.reduce_sum(tf.cast(tf.nn.embedding_lookup(table, [1, 3]) if rows else table, tf.float32))
        optimizer = v1.train.GradientDescentOptimizer(0.1)
        train_op = optimizer.minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def test_a_train_op_may_be_a_tensor():
    def model_fn(features, labels, mode, params, config):
        loss = v1.get_variable('weight', []) ** 2
        with tf.control_dependencies([v1.train.GradientDescentOptimizer(0.1).minimize(loss)]):
            return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=tf.identity(loss))

    refused(model_fn)  # it is not


@pytest.mark.parametrize('rows', [True, False])
def test_refuses_gradients_that_parameter_servers_cannot_add_up(rows):
    with pytest.raises(UsageError, match='gradient of table has the type bfloat16.*Let the variable be float32'):
        refused(model_of(tf.bfloat16, rows))
    for dtype in (tf.float16, tf.float32, tf.float64):
        refused(model_of(dtype, rows))


def test_other_modes_are_left_alone():
    calls = []
    fn = sync_ps.with_sync_updates(lambda *args: calls.append(args), 0, 2, 0, 1)
    fn({}, None, tf.estimator.ModeKeys.EVAL, {}, None)
    assert len(calls) == 1


class SessionThatClosesSlowly(v1.Session):
    """As that of a parameter server which has ended: TensorFlow asks again for as long as a call may take."""

    may_close = threading.Event()
    closed = threading.Event()

    def close(self):
        self.may_close.wait(BOUND_SECS)
        super().close()
        self.closed.set()


def test_who_leaves_does_not_wait_for_a_parameter_server_that_has_ended(target, servers, monkeypatch):
    monkeypatch.setattr(v1, 'Session', SessionThatClosesSlowly)
    for_all = threading.Thread(target=parameter_server.tell_left, args=(servers, 1, True), daemon=True)
    for_all.start()
    for_all.join(20)
    has_left = not for_all.is_alive()
    SessionThatClosesSlowly.may_close.set()
    assert SessionThatClosesSlowly.closed.wait(BOUND_SECS)
    assert has_left
