"""Upstream's defects are mended. With ESTIMATOR_TRAINER_FIXES=0 in the environment each test fails.

What is mended under MultiWorkerMirroredStrategy's loop is tested in tests/end_to_end.
"""

import gc
import json
import math
import sys
import time
import weakref

import launch
import pytest
import tensorflow as tf

from estimator_trainer.compat.patches import evaluation_mends
from estimator_trainer.supervisor.processes import ports

v1 = tf.compat.v1


def model_fn(features, labels, mode):
    """The loss of an evaluation is the mean of the feature x."""
    del labels
    weight = v1.get_variable('weight', [], initializer=v1.zeros_initializer())
    loss = tf.reduce_mean(features['x']) + 0 * weight
    return tf.estimator.EstimatorSpec(
        mode,
        loss=loss,
        predictions={'y': features['x']},
        train_op=v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step()),
    )


def input_fn(x=1.0, steps=1000):
    return lambda: tf.data.Dataset.from_tensors({'x': [x]}).repeat(steps)


def make_estimator(model_dir, **config):
    return tf.estimator.Estimator(model_fn, str(model_dir), tf.estimator.RunConfig(**config))


def two_replicas():
    # The default, collective operations, hangs with two replicas on the CPU of a machine with two cores.
    return tf.distribute.MirroredStrategy(['/cpu:0', '/cpu:1'], cross_device_ops=tf.distribute.ReductionToOneDevice())


@pytest.mark.parametrize(
    'name, argument',
    [
        ('stop_if_higher_hook', 0.5),
        ('stop_if_lower_hook', 2.0),
        ('stop_if_no_increase_hook', 0),
        ('stop_if_no_decrease_hook', 0),
    ],
)
def test_early_stopping_with_default_arguments_under_a_strategy(tmp_path, name, argument):
    estimator = make_estimator(tmp_path, train_distribute=two_replicas())
    estimator.train(input_fn(), max_steps=2)
    estimator.evaluate(input_fn(1.0, 1))
    hook = getattr(tf.estimator.experimental, name)(estimator, 'loss', argument)
    estimator.train(input_fn(), hooks=[hook], max_steps=100)
    assert estimator.get_variable_value('global_step') < 10


_TWO_WORKERS = """
import json, os, sys
import tensorflow as tf
v1 = tf.compat.v1
task = json.loads(os.environ['TF_CONFIG'])['task']['index']
def model_fn(features, labels, mode):
    loss = tf.reduce_mean(v1.layers.dense(features['x'], 1) ** 2)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=v1.train.GradientDescentOptimizer(
        0.01).minimize(loss, v1.train.get_global_step()))
config = tf.estimator.RunConfig(
    model_dir=sys.argv[1], train_distribute=tf.distribute.MultiWorkerMirroredStrategy())
estimator = tf.estimator.Estimator(model_fn, config=config)
data = lambda: tf.data.Dataset.from_tensors({'x': [[1., 2.]]}).repeat()
calls = []
def stop():  # only worker 1 wants to
    calls.append(1)
    return task == 1
hook = tf.estimator.experimental.make_early_stopping_hook(estimator, stop, **json.loads(sys.argv[2]))
tf.estimator.train_and_evaluate(
    estimator, tf.estimator.TrainSpec(data, max_steps=5000, hooks=[hook]), tf.estimator.EvalSpec(data))
print('CALLS', len(calls), 'STEP', int(estimator.get_variable_value('global_step')))
"""


@pytest.mark.slow
@pytest.mark.parametrize('arguments', [{}, {'run_every_secs': None, 'run_every_steps': 7}])
def test_two_workers_stop_early_at_the_same_step(tmp_path, arguments):
    program = tmp_path / 'program.py'
    program.write_text(_TWO_WORKERS)
    command = [
        sys.executable,
        '-m',
        'estimator_trainer.compat',
        'run',
        program,
        tmp_path / 'model',
        json.dumps(arguments),
    ]

    def task(index):
        return launch.start(
            command,
            TF_CONFIG=json.dumps(
                {
                    'cluster': {'worker': [f'localhost:{port}' for port in claimed.ports]},
                    'task': {'type': 'worker', 'index': index},
                }
            ),
        )

    with ports.claim(2) as claimed, task(0) as one, task(1) as two:
        outputs = [launch.finished(process).output for process in (one, two)]
    assert [one.returncode, two.returncode] == [0, 0], outputs
    assert 'No task of this cluster is an evaluator: nothing is evaluated' in outputs[0], outputs
    step = arguments.get('run_every_steps', 1)
    assert f'CALLS 1 STEP {step}' in outputs[0] and f'CALLS 1 STEP {step}' in outputs[1], outputs


def test_best_exporter_remembers_over_a_restart(tmp_path):
    estimator = make_estimator(tmp_path)

    def serving_input_fn():
        x = v1.placeholder(tf.float32, [None])
        return tf.estimator.export.ServingInputReceiver({'x': x}, {'x': x})

    def evaluate_and_export(exporter, loss):
        estimator.train(input_fn(), steps=1)
        result = estimator.evaluate(input_fn(loss, 1))
        return exporter.export(estimator, str(tmp_path / 'export/best'), estimator.latest_checkpoint(), result, False)

    def restarted():
        return tf.estimator.BestExporter('best', serving_input_fn)

    exporter = restarted()
    assert evaluate_and_export(exporter, 0.5)
    assert not evaluate_and_export(exporter, 0.6)
    assert not evaluate_and_export(restarted(), 0.6)
    time.sleep(1)  # folders of exports are named by the second
    assert evaluate_and_export(restarted(), 0.4)
    assert not evaluate_and_export(restarted(), 0.45)
    assert len(list((tmp_path / 'export/best').iterdir())) == 2


@pytest.mark.parametrize('result', [None, {}, {'loss': 0.5}])
def test_best_exporter_takes_results_without_a_step(tmp_path, result):
    estimator = make_estimator(tmp_path)
    estimator.train(input_fn(), steps=1)
    serving_input_fn = tf.estimator.export.build_raw_serving_input_receiver_fn({'x': tf.constant([1.0])})
    exporter = tf.estimator.BestExporter('best', serving_input_fn)
    assert exporter.export(estimator, str(tmp_path / 'best'), estimator.latest_checkpoint(), result, False)


_EVALUATOR = """
import sys
import tensorflow as tf
def model_fn(features, labels, mode):
    return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_mean(features['x']) + 0 * tf.cast(
        tf.compat.v1.train.get_global_step(), tf.float32))
data = lambda: tf.data.Dataset.from_tensors({'x': [3.]})
config = tf.estimator.RunConfig(model_dir=sys.argv[1],
                                train_distribute=tf.distribute.MultiWorkerMirroredStrategy())
tf.estimator.train_and_evaluate(
    tf.estimator.Estimator(model_fn, config=config), tf.estimator.TrainSpec(data, max_steps=2),
    tf.estimator.EvalSpec(data, start_delay_secs=0, throttle_secs=0))
print('EVALUATED')
"""


@pytest.mark.slow
def test_an_evaluator_that_the_cluster_does_not_list(tmp_path):
    make_estimator(tmp_path / 'model').train(input_fn(), max_steps=2)
    program = tmp_path / 'program.py'
    program.write_text(_EVALUATOR)
    finished = launch.run(
        [sys.executable, '-m', 'estimator_trainer.compat', 'run', program, tmp_path / 'model'],
        timeout=300,
        TF_CONFIG=json.dumps(
            {
                'cluster': {'worker': ['localhost:1', 'localhost:2']},  # it talks to nobody
                'task': {'type': 'evaluator', 'index': 0},
            }
        ),
    )
    assert finished.code == 0 and 'EVALUATED' in finished.output, finished.output


def test_a_copy_of_a_run_config_has_the_strategies_of_the_first(tmp_path):
    strategy = two_replicas()
    config = tf.estimator.RunConfig(train_distribute=strategy, eval_distribute=strategy)
    copied = config.replace(model_dir=str(tmp_path), keep_checkpoint_max=7)
    assert (copied.model_dir, copied.keep_checkpoint_max, config.keep_checkpoint_max) == (str(tmp_path), 7, 5)
    assert copied.train_distribute is copied.eval_distribute is strategy


class TestMemory:
    @pytest.mark.slow
    def test_graphs_of_evaluations_are_freed(self, tmp_path):
        graphs = []

        def remembering_model_fn(features, labels, mode):
            graphs.append(weakref.ref(v1.get_default_graph()))
            return model_fn(features, labels, mode)

        estimator = tf.estimator.Estimator(remembering_model_fn, str(tmp_path))
        estimator.train(input_fn(), steps=1)
        del graphs[:]
        gc.disable()  # as good as in a process with many old objects
        try:
            deadline = time.monotonic() + 60
            while all(graph() for graph in graphs) and time.monotonic() < deadline:
                estimator.evaluate(input_fn(1.0, 1))
                list(estimator.predict(input_fn(1.0, 1)))
        finally:
            gc.enable()
        assert not graphs[0]()

    def test_collects_for_a_twentieth_of_the_time(self):
        now = [0.0]
        ran = []

        def collect():
            ran.append(now[0])
            now[0] += 1

        collector = evaluation_mends._Collector(clock=lambda: now[0], collect=collect)
        for _ in range(100):
            collector()
            now[0] += 1
        assert ran[:3] == [0.0, 21.0, 42.0] and len(ran) == 5


@pytest.mark.parametrize(
    'canned',
    [
        lambda columns, **config: tf.estimator.LinearClassifier(columns, **config),
        lambda columns, **config: tf.estimator.DNNLinearCombinedClassifier(linear_feature_columns=columns, **config),
        lambda columns, **config: tf.estimator.BaselineClassifier(**config),
    ],
)
def test_canned_estimators_report_the_mean_loss_under_a_strategy(tmp_path, canned):
    losses = []

    class Watch(v1.train.SessionRunHook):
        def before_run(self, context):
            graph = context.session.graph
            return v1.train.SessionRunArgs(graph.get_collection(v1.GraphKeys.LOSSES)[-1])

        def after_run(self, context, values):
            losses.append(float(values.results))

    def data():
        return tf.data.Dataset.from_tensors(({'x': [1.0]}, [1])).repeat().batch(4)

    estimator = canned(
        [tf.feature_column.numeric_column('x')],
        model_dir=str(tmp_path),
        config=tf.estimator.RunConfig(train_distribute=two_replicas()),
    )
    estimator.train(data, hooks=[Watch()], max_steps=1)
    assert losses == [pytest.approx(math.log(2), rel=1e-5)]  # the weights begin at 0
