"""The built-in jobs: initial weights, and an evaluation that is exact."""

import dataclasses
import os
import time
from typing import NamedTuple

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer import jobs
from estimator_trainer.config import trainer_config
from estimator_trainer.data import sources
from estimator_trainer.jobs import fashion_mnist, mnist
from estimator_trainer.lifecycle import watchdog as watchdogs
from estimator_trainer.run_dir import checkpoints, metrics_log
from estimator_trainer.training import plan as planning
from estimator_trainer.training import run_task, runtime

v1 = tf.compat.v1
EVAL = tf.estimator.ModeKeys.EVAL


def initial_weights(job, filters, seed, other_ops, graph_seed):
    with tf.Graph().as_default():
        v1.set_random_seed(graph_seed)
        for _ in range(other_ops):
            tf.random.uniform([2])
            tf.keras.layers.Dense(3)(tf.zeros([1, 2]))
        before = len(v1.global_variables())
        job.make_model({**job.params, 'filters': filters, 'seed': seed})({'image': tf.zeros([1, 28, 28, 1], tf.uint8)})
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            return session.run(v1.global_variables()[before:])


@pytest.mark.parametrize(
    'job, filters, weights',
    [
        (mnist.job, mnist.job.params['filters'], 347_146),
        (mnist.job, [32, 64], 121_930),
        (fashion_mnist.job, fashion_mnist.job.params['filters'], 121_930),
    ],
)
def test_initial_weights_depend_on_the_seed_only(job, filters, weights):
    first = initial_weights(job, filters, 7, 0, 1)
    again = initial_weights(job, filters, 7, 3, 2)
    other = initial_weights(job, filters, 8, 0, 1)
    assert sum(weight.size for weight in first) == weights
    for one, two, three in zip(first, again, other, strict=True):
        np.testing.assert_array_equal(one, two)
        assert one.ndim == 1 or not np.array_equal(one, three)  # all but the biases


class Outcome(NamedTuple):
    """`metrics`: the line of the last evaluation."""

    step: int
    metrics: dict


class Run:
    """The mnist job for 5 steps of 64 examples, one process, as `main` would run it."""

    def __init__(self, model_dir, data_dir):
        self.model_dir, self.data_dir = str(model_dir), data_dir
        self.dataset = sources.load('mnist_5k', data_dir)
        self.job = jobs.load('mnist')
        self.eval_log = os.path.join(self.model_dir, 'eval', 'metrics.jsonl')

    def __call__(self, *flags, batch_size=64):
        config = trainer_config.parse(
            [
                'trainer',
                '--job=mnist',
                '--max_steps=5',
                f'--batch_size={batch_size}',
                '--export=none',
                '--param=learning_rate=0.1',
                f'--data_dir={self.data_dir}',
                '--allow_config_change',
                '--progress=off',
                f'--model_dir={self.model_dir}',
                *flags,
            ]
        )
        plan = planning.with_job(planning.make(config, {}))
        self.params = {**plan.job_params, 'batch_size': batch_size, 'seed': config.seed}
        with pytest.MonkeyPatch.context() as patch, watchdogs.Watchdog('trainer', watchdogs.Bounds()) as watchdog:
            patch.setattr(runtime, 'set_devices', lambda plan: None)  # the process of the tests has its devices
            assert run_task.run_task(plan, watchdog, {}) is None
        line = metrics_log.MetricsLog(self.eval_log).read()[-1]
        return Outcome(checkpoints.last_step(self.model_dir), line)

    def evaluate(self, *flags, batch_size):
        """Training is over, and nothing says that the last checkpoint was evaluated."""
        if os.path.exists(self.eval_log):
            os.remove(self.eval_log)
        return self(*flags, batch_size=batch_size)

    def predict(self):
        """(logits, labels) of the test split, in its order."""
        estimator = tf.estimator.Estimator(self.job.model_fn, self.model_dir, params=self.params)
        logits = [
            p['logits']
            for p in estimator.predict(lambda: self.dataset.input_fn(EVAL, dict(self.params, batch_size=500)))
        ]
        labels = [labels for _, labels in self.dataset.input_fn(EVAL, self.params).as_numpy_iterator()]
        return np.array(logits, np.float64), np.concatenate(labels)


@pytest.fixture(scope='module')
def trained(tmp_path_factory, data_dir):
    """(run, outcome, the loss of each test example, the accuracy over them all)"""
    run = Run(tmp_path_factory.mktemp('model'), data_dir)
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv('TF_CONFIG', raising=False)
        outcome = run()
    logits, labels = run.predict()
    top = logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(logits - top).sum(axis=1)) + top[:, 0]
    losses = log_sum - logits[np.arange(len(labels)), labels]
    return run, outcome, losses, np.mean(logits.argmax(axis=1) == labels)


def naive(losses, batch_size):
    """What Estimator's own metric says: the mean over batches."""
    return np.mean([losses[k : k + batch_size].mean() for k in range(0, len(losses), batch_size)])


def test_evaluation_after_training_is_exact(trained):
    run, outcome, losses, accuracy = trained
    assert outcome.step == 5 == checkpoints.last_step(run.model_dir)
    assert len(losses) == 1000 and abs(naive(losses, 64) - losses.mean()) > 1e-4
    assert outcome.metrics['loss'] == pytest.approx(losses.mean(), rel=1e-6)
    assert outcome.metrics['accuracy'] == pytest.approx(accuracy, rel=1e-6)
    assert 0.1 < accuracy < 1
    written = metrics_log.MetricsLog(run.eval_log).read()[0]
    assert (written['kind'], written['step']) == ('eval', 5)
    assert written['loss'] == pytest.approx(losses.mean(), rel=1e-6)


@pytest.mark.parametrize(
    'batch_size, flags',
    [
        (64, ('--num_replicas=2', '--eval_strategy=mirrored')),  # 16 batches, the last of 40
        (999, ()),
    ],
)
def test_an_evaluation_of_its_own_is_exact(trained, batch_size, flags, monkeypatch):
    run, _, losses, accuracy = trained
    monkeypatch.delenv('TF_CONFIG', raising=False)
    outcome = run.evaluate(*flags, batch_size=batch_size)
    assert abs(naive(losses, batch_size) - losses.mean()) > 1e-4
    assert outcome.step == 5
    assert outcome.metrics['loss'] == pytest.approx(losses.mean(), rel=1e-6)
    assert outcome.metrics['accuracy'] == pytest.approx(accuracy, rel=1e-6)


def slow_with_short_batches(model_fn, full):
    """The same model_fn, which takes its time over a batch that is not full."""

    def wait(labels):
        time.sleep(0.0 if len(labels) == full else 0.5)
        return labels

    def wrapped(features, labels, mode, params):
        shape = labels.shape
        labels = v1.py_func(wait, [labels], tf.int64)
        labels.set_shape(shape)
        return model_fn(features, labels, mode, params)

    return wrapped


def test_the_last_batch_counts_where_the_other_replica_has_none(trained, monkeypatch):
    """1,000 examples are 11 batches of 96 for 2 replicas: that the second one has come to the end of
    the data must not cut short the first one's work on the last batch."""
    run, _, losses, accuracy = trained
    monkeypatch.delenv('TF_CONFIG', raising=False)
    monkeypatch.setattr(
        run, 'job', dataclasses.replace(run.job, model_fn=slow_with_short_batches(run.job.model_fn, 96))
    )
    outcome = run.evaluate('--num_replicas=2', '--eval_strategy=mirrored', batch_size=96)
    assert outcome.metrics['loss'] == pytest.approx(losses.mean(), rel=1e-6)
    assert outcome.metrics['accuracy'] == pytest.approx(accuracy, rel=1e-6)
