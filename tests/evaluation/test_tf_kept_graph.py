"""estimator_evaluator.KeptGraph: what it finds for several checkpoints, and what Estimator.evaluate finds for each."""

import gc
import glob
import logging
import random

import numpy as np
import pytest
import tensorflow as tf
from tensorflow_estimator.python.estimator import util as estimator_util

from estimator_trainer.evaluation import estimator_evaluator, exact_evaluation

v1 = tf.compat.v1
EXAMPLES = 21


def arrays():
    numbers = np.random.RandomState(0)
    features = numbers.normal(size=[EXAMPLES, 3]).astype(np.float32)
    return features, (features.sum(axis=1) > 0).astype(np.int64)


class Job:
    """Counts the calls of its functions. The params say what is special about it."""

    def __init__(self, evaluation_hooks=lambda spec: []):
        self.model_fns = self.input_fns = 0
        self._evaluation_hooks = evaluation_hooks

    def input_fn(self, params):
        self.input_fns += 1
        batches = tf.data.Dataset.from_tensor_slices(arrays())
        if params.get('shuffled'):
            batches = batches.shuffle(EXAMPLES, reshuffle_each_iteration=True)
        return batches.batch(4)

    def model_fn(self, features, labels, mode, params):
        self.model_fns += 1
        weights = v1.get_variable('weights', [3, 2], initializer=v1.glorot_uniform_initializer(seed=1))
        logits = tf.matmul(features, weights)
        noise = tf.random.uniform([])  # without a seed of its own
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        scaffold = None
        if mode == tf.estimator.ModeKeys.EVAL and params.get('scaffold'):
            scale = v1.get_local_variable('scale', initializer=lambda: tf.constant(1.0))
            loss *= scale
            saver = None
            if not tf.distribute.has_strategy():  # it would restore the first replica only, with upstream as well
                saver = v1.train.Saver({'weights': weights, 'global_step': v1.train.get_global_step()})
            local_init_op = tf.group(scale.initializer, v1.tables_initializer())
            scaffold = v1.train.Scaffold(saver=saver, local_init_op=local_init_op)
        table = tf.lookup.StaticHashTable(
            tf.lookup.KeyValueTensorInitializer([0, 1], [0, 1], tf.int64, tf.int64), default_value=-1
        )
        predicted = tf.argmax(logits, axis=1)
        metrics = {
            'accuracy': v1.metrics.accuracy(table.lookup(labels), predicted),
            'auc': v1.metrics.auc(labels, tf.nn.softmax(logits)[:, 1]),
            'noise': v1.metrics.mean(noise),
        }
        spec = tf.estimator.EstimatorSpec(
            mode,
            loss=loss,
            scaffold=scaffold,
            train_op=v1.train.GradientDescentOptimizer(0.5).minimize(loss, v1.train.get_global_step()),
            eval_metric_ops=metrics,
        )
        return spec._replace(evaluation_hooks=self._evaluation_hooks(spec))

    def estimator(self, model_dir, params=None, strategy=None):
        config = tf.estimator.RunConfig(
            str(model_dir), tf_random_seed=5, eval_distribute=strategy, save_checkpoints_steps=2, keep_checkpoint_max=9
        )
        model_fn = exact_evaluation.with_exact_loss(self.model_fn)
        return tf.estimator.Estimator(model_fn, config=config, params=params or {})


class Canned(Job):
    def estimator(self, model_dir, params=None, strategy=None):
        config = tf.estimator.RunConfig(str(model_dir), tf_random_seed=5, save_checkpoints_steps=2)
        return tf.estimator.DNNClassifier([4], [tf.feature_column.numeric_column('x', [3])], config=config)

    def input_fn(self):
        self.input_fns += 1
        features, labels = arrays()
        return tf.data.Dataset.from_tensor_slices(({'x': features}, labels)).batch(4)


def trained(job, model_dir, steps=4):
    """The checkpoints of steps 0, 2 and 4."""
    estimator = job.estimator(model_dir)
    estimator.train(job.input_fn, steps=steps)
    return tf.train.get_checkpoint_state(str(model_dir)).all_model_checkpoint_paths


def events(model_dir):
    """(step, tag, bytes) of all that was written into eval/."""
    found = []
    for path in sorted(glob.glob(f'{model_dir}/eval/events*')):
        for record in tf.data.TFRecordDataset(path):
            event = v1.Event.FromString(record.numpy())
            found += [(event.step, value.tag, value.SerializeToString()) for value in event.summary.value]
    return found


@pytest.fixture
def said(caplog):
    """What is said of the graph. How far an evaluation is depends on the clock."""
    caplog.set_level(logging.INFO, 'estimator_trainer')
    return lambda: [
        record.getMessage()
        for record in caplog.records
        if record.name == 'estimator_trainer' and record.module == 'estimator_evaluator'
    ]


@pytest.mark.parametrize(
    'job, params, steps, replicas',
    [
        (Job(), {}, None, 1),
        (Job(), {'shuffled': True}, 3, 1),
        (Job(), {'scaffold': True}, None, 1),
        (Canned(), None, None, 1),
        (Job(), {}, None, 2),
        pytest.param(Job(), {'scaffold': True}, 2, 2, marks=pytest.mark.slow),
    ],
    ids=['plain', 'shuffled and cut short', 'scaffold', 'canned', 'mirrored', 'mirrored scaffold'],
)
def test_equal_to_the_last_bit(tmp_path, request, job, params, steps, replicas, said):
    strategy = request.getfixturevalue('two') if replicas == 2 else None
    first, _, third = trained(job, tmp_path / 'trained')
    order = [first, third, first]
    upstream = job.estimator(tmp_path / 'upstream', params, strategy)
    expected = [upstream.evaluate(job.input_fn, steps, checkpoint_path=checkpoint) for checkpoint in order]
    if replicas == 1:
        assert expected[0] == expected[2] and expected[0]['loss'] != expected[1]['loss']

    started = []
    job.model_fns = job.input_fns = 0
    evaluator = estimator_evaluator.EstimatorEvaluator(
        job.estimator(tmp_path / 'kept', params, strategy), job.input_fn, steps, lambda: started.append(1), True
    )
    results, operations = [], set()
    for checkpoint in order:
        results.append(evaluator.evaluate(checkpoint))
        operations.add(len(evaluator._kept._graph.get_operations()))
    assert results == expected and len(operations) == 1
    assert [type(value) for value in results[0].values()] == [type(value) for value in expected[0].values()]
    assert started == [1] * 3 and job.input_fns == 1 and not said()
    assert job.model_fns == (0 if isinstance(job, Canned) else replicas)
    assert events(tmp_path / 'kept') == events(tmp_path / 'upstream') != []


def test_a_session_is_freed_without_the_garbage_collector(tmp_path):
    def sessions():
        return sum(isinstance(thing, v1.Session) for thing in gc.get_objects())

    job = Job()
    checkpoint = trained(job, tmp_path)[-1]
    evaluator = estimator_evaluator.EstimatorEvaluator(job.estimator(tmp_path), job.input_fn, same_data=True)
    gc.collect()
    before = sessions()
    gc.disable()
    try:
        for _ in range(3):
            evaluator.evaluate(checkpoint)
        assert sessions() == before
    finally:
        gc.enable()


def test_a_jobs_own_input_fn_is_called_for_each_checkpoint(tmp_path, said):
    job = Job()
    checkpoints = trained(job, tmp_path)
    job.input_fns = 0
    evaluator = estimator_evaluator.EstimatorEvaluator(job.estimator(tmp_path), job.input_fn)
    for checkpoint in checkpoints:
        evaluator.evaluate(checkpoint)
    assert job.input_fns == 3 and not said()


class Rows(tf.estimator.SessionRunHook):
    """Gathers something in `__init__`'s list, as a job's hook may."""

    def __init__(self, ends):
        self._rows, self._ends = [], ends

    def after_run(self, run_context, run_values):
        self._rows.append(1)

    def end(self, session):
        self._ends.append(len(self._rows))


def test_a_jobs_own_hook_sees_one_evaluation(tmp_path, said):
    ends = []
    job = Job(lambda spec: [Rows(ends)])
    checkpoints = trained(job, tmp_path)
    evaluator = estimator_evaluator.EstimatorEvaluator(job.estimator(tmp_path), job.input_fn, same_data=True)
    for checkpoint in checkpoints:
        evaluator.evaluate(checkpoint)
    assert ends == [6, 6, 6]
    (line,) = said()
    assert 'built anew' in line and 'Rows' in line


class Adds:
    def initialize(self):
        return tf.no_op()


def test_a_hook_that_adds_operations_each_time(tmp_path, said):
    job = Job(lambda spec: [estimator_util.DistributedIteratorInitializerHook(Adds())])
    first, _, third = trained(job, tmp_path)
    evaluator = estimator_evaluator.EstimatorEvaluator(job.estimator(tmp_path), job.input_fn, same_data=True)
    assert evaluator.evaluate(first)['loss'] > evaluator.evaluate(third)['loss']
    (line,) = said()
    assert 'built anew' in line and 'DistributedIteratorInitializerHook' in line and 'finalized' in line


def test_tensorflows_hooks_are_kept(tmp_path, said):
    """SummarySaverHook writes the first of six batches of each checkpoint."""

    def hooks(spec):
        summary = v1.summary.scalar('of_first_batch', spec.loss)
        return [v1.train.SummarySaverHook(9, output_dir=str(tmp_path / 'images'), summary_op=summary)]

    job = Job(hooks)
    checkpoints = trained(job, tmp_path)
    job.model_fns = 0
    evaluator = estimator_evaluator.EstimatorEvaluator(job.estimator(tmp_path), job.input_fn, same_data=True)
    for checkpoint in checkpoints:
        evaluator.evaluate(checkpoint)
    (path,) = glob.glob(str(tmp_path / 'images/events*'))
    written = [v1.Event.FromString(record.numpy()) for record in tf.data.TFRecordDataset(path)]
    assert [event.step for event in written if event.summary.value] == [0, 2, 4]
    assert job.model_fns == 1 and not said()


def test_training_goes_on_in_between(tmp_path):
    job, other = Job(), Job()
    evaluator = estimator_evaluator.EstimatorEvaluator(other.estimator(tmp_path), other.input_fn, same_data=True)
    results = []

    class Saved(tf.estimator.CheckpointSaverListener):
        def after_save(self, session, global_step_value):
            results.append(evaluator.evaluate(tf.train.latest_checkpoint(str(tmp_path))))

    job.estimator(tmp_path).train(job.input_fn, steps=4, saving_listeners=[Saved()])
    checkpoints = tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths
    upstream = job.estimator(tmp_path / 'upstream')
    assert results == [upstream.evaluate(job.input_fn, checkpoint_path=path) for path in checkpoints]
    assert len(results) == 3 and other.model_fns == 1


def test_after_an_evaluation_that_failed(tmp_path):
    job = Job()
    first, _, third = trained(job, tmp_path)
    evaluator = estimator_evaluator.EstimatorEvaluator(job.estimator(tmp_path), job.input_fn, same_data=True)
    good = evaluator.evaluate(third)
    with open(f'{first}.data-00000-of-00001', 'r+b') as file:
        file.truncate(4)
    with pytest.raises(tf.errors.OpError):
        evaluator.evaluate(first)
    with pytest.raises(ValueError):
        evaluator.evaluate(f'{first}0')
    assert evaluator.evaluate(third) == good


@pytest.mark.parametrize('same_data', [True, False])
def test_the_names_of_the_metrics_are_known_before_there_is_a_checkpoint(tmp_path, same_data):
    job = Job()
    evaluator = estimator_evaluator.EstimatorEvaluator(job.estimator(tmp_path), job.input_fn, same_data=same_data)
    random.seed(3)
    expected = random.Random(3).random()
    assert evaluator.metric_names() == {'accuracy', 'auc', 'noise', 'loss'}
    assert random.random() == expected
    assert job.model_fns == 1


@pytest.mark.parametrize('same_data', [True, False])
def test_an_evaluation_without_examples_has_no_metrics(tmp_path, caplog, same_data):
    """The zeros of TensorFlow's metrics would be the best loss."""
    job = Job()
    checkpoint = trained(job, tmp_path, steps=1)[-1]
    empty = lambda context=None: job.input_fn({}).take(0)  # noqa: E731
    evaluator = estimator_evaluator.EstimatorEvaluator(job.estimator(tmp_path), empty, same_data=same_data)
    metrics = evaluator.evaluate(checkpoint)
    assert metrics.pop('global_step') == 1
    assert {'accuracy', 'loss'} <= set(metrics) and all(map(np.isnan, metrics.values()))
    assert "no batch when mode is 'eval'" in caplog.text
