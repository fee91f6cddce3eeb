"""--mixed_precision=float16 in Keras loops: a batch whose gradients overflow is computed again, at half the scale."""

import logging
import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.config import mixed_precision, trainer_config
from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import keras_evaluator
from estimator_trainer.jobs import input_fns
from estimator_trainer.jobs.job import Job, KerasParts
from estimator_trainer.run_dir import checkpoints
from estimator_trainer.tools.inspection import roles, variables
from estimator_trainer.training import loop, plan, reports, trainer
from tests import fakes

LOOPS = ('keras_fit', 'custom_loop')
GLOBAL, STEPS, RATE = 8, 6, 2.0**-9
LARGE = (1, 4)  # the steps, from 0 on, whose labels are so large that scaled gradients overflow
SCALE, FINITE_STEPS = (f'loss_scale/{name}/.ATTRIBUTES/VARIABLE_VALUE' for name in ('current_loss_scale', 'good_steps'))
_legacy = tf.keras.optimizers.legacy


def examples(sizes=LARGE):
    random = np.random.RandomState(3)
    x = random.uniform(-1, 1, [STEPS * GLOBAL, 3]).astype(np.float32)
    labels = random.uniform(-1, 1, [STEPS * GLOBAL]).astype(np.float32)
    for number, step in enumerate(sizes):
        labels[step * GLOBAL : (step + 1) * GLOBAL] += 24.0 * (number + 1)
    return x, labels


def input_fn(params, examples_of_run):
    features, labels = examples_of_run
    rows = tf.data.Dataset.from_tensor_slices(({'x': features}, labels)).skip(params['start_step'] * GLOBAL)
    return rows.repeat().batch(params['batch_size'], drop_remainder=True)


def dense(units, seed):
    return tf.keras.layers.Dense(units, use_bias=False, kernel_initializer=tf.keras.initializers.GlorotUniform(seed))


def make_model(params):
    inputs = tf.keras.Input([3], name='x')
    return tf.keras.Model({'x': inputs}, dense(1, 2)(dense(4, 1)(inputs)))


def make_model_with_averages(params):
    inputs = tf.keras.Input([3], name='x')
    hidden = tf.keras.layers.BatchNormalization()(dense(4, 1)(inputs))
    return tf.keras.Model({'x': inputs}, dense(1, 2)(hidden))


def loss(labels, outputs, params):
    return (outputs[:, 0] - labels) ** 2


def job_of(data, model=make_model, optimizer=lambda params: _legacy.SGD(RATE), loss=loss, metrics=None):
    return Job(
        make_model=model,
        parts=KerasParts(loss=loss, make_optimizer=optimizer, metrics=metrics),
        input_fn=lambda mode, params, input_context=None: input_fn(params, data),
    )


JOB = job_of(examples())
WITH_AVERAGES = job_of(
    examples(),
    make_model_with_averages,
    lambda params: _legacy.Adam(0.01),
    metrics=lambda params: {'mae': tf.keras.metrics.MeanAbsoluteError()},
)


def trained(model_dir, loop_name, *flags, kind='float16', steps=STEPS, strategy=None, job=JOB):
    """{name: value} of the last checkpoint of a run that begins, or goes on, in a model_dir."""
    replicas = strategy.num_replicas_in_sync if strategy else 1
    argv = [f'--loop={loop_name}', f'--model_dir={model_dir}', f'--max_steps={steps}', f'--num_replicas={replicas}']
    config = trainer_config.parse(['trainer', *argv, *([f'--mixed_precision={kind}'] if kind else []), *flags])
    params = fakes.params(
        batch_size=GLOBAL // replicas // config.accumulate_steps,
        num_replicas=replicas,
        global_batch_size=GLOBAL,
        max_steps=steps,
        num_examples=STEPS * GLOBAL,
        start_step=checkpoints.last_step(str(model_dir)),
    )
    task, watchdog = plan.make(config, {}), fakes.Watchdog()
    run_configs = types.SimpleNamespace(own=types.SimpleNamespace(train_distribute=strategy))
    given = loop.Loop(task, params, watchdog, lambda: None)
    input_of_job = input_fns.by_name(job.input_fn)
    setup = trainer.Setup(task, watchdog, job, params, run_configs, input_of_job, given, reports.Waits())
    trainer.make_trainer(setup).train(lambda step: None)
    return saved(model_dir)


def saved(model_dir):
    reader = tf.train.load_checkpoint(str(model_dir))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map() if 'OBJECT' not in name}


def without_scale(values):
    return {name: value for name, value in values.items() if not name.startswith('loss_scale/')}


def assert_same(one, other):
    assert one.keys() == other.keys()
    for name, value in one.items():
        np.testing.assert_array_equal(value, other[name], name)


def by_hand(replicas):
    """(kernels, scale, finite steps in a row, repeated attempts), without a policy of Keras and a strategy."""
    kernels = [weight.numpy() for weight in make_model({}).weights]
    scale, finite_steps, repeated = np.float32(2**15), 0, 0
    x, labels = examples()
    for step in range(STEPS):
        while True:
            sums = [0, 0]
            for rows in np.split(np.arange(step * GLOBAL, (step + 1) * GLOBAL), replicas):
                of_replica = [tf.constant(kernel) for kernel in kernels]
                with tf.GradientTape() as tape:
                    tape.watch(of_replica)
                    hidden = tf.cast(x[rows], tf.float16) @ tf.cast(of_replica[0], tf.float16)
                    outputs = tf.cast(hidden @ tf.cast(of_replica[1], tf.float16), tf.float32)
                    share = tf.reduce_sum((outputs[:, 0] - labels[rows]) ** 2) / GLOBAL * scale
                gradients = tape.gradient(share, of_replica)
                with np.errstate(invalid='ignore'):
                    sums = [total + gradient.numpy() / scale for total, gradient in zip(sums, gradients)]
            if all(np.isfinite(total).all() for total in sums):
                break
            scale, finite_steps, repeated = scale / 2, 0, repeated + 1
        finite_steps += 1
        kernels = [kernel - np.float32(RATE) * total for kernel, total in zip(kernels, sums)]
    return kernels, scale, finite_steps, repeated


@pytest.mark.parametrize('replicas', [1, 2])
@pytest.mark.parametrize('loop_name, call', [('keras_fit', '1'), ('custom_loop', 'auto')])
def test_the_weights_are_those_of_a_computation_by_hand(tmp_path, caplog, two, loop_name, call, replicas):
    caplog.set_level(logging.INFO, 'estimator_trainer')
    strategy = two if replicas == 2 else None
    values = trained(tmp_path, loop_name, f'--steps_per_call={call}', strategy=strategy)
    kernels, scale, finite_steps, repeated = by_hand(replicas)
    assert repeated > 2 and finite_steps == STEPS - LARGE[-1]
    names = [f'model/layer_with_weights-{number}/kernel/.ATTRIBUTES/VARIABLE_VALUE' for number in (0, 1)]
    for name, kernel in zip(names, kernels):
        np.testing.assert_array_equal(values[name], kernel)
    assert (values[SCALE], values[FINITE_STEPS]) == (scale, finite_steps)
    said = [record.message for record in caplog.records if 'overflowed' in record.message]
    assert len(said) == (1 if call == 'auto' else 2) and f'which is {scale:,.0f} now' in said[-1]


@pytest.fixture(scope='module')
def undisturbed(tmp_path_factory, two):
    """Runs with batch normalization, Adam and metrics, in which nothing overflows, and the results of their epoch."""

    def run(loop_name, *flags, strategy=None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(mixed_precision, 'FIRST_SCALE', 2.0**8)
            folder = tmp_path_factory.mktemp('undisturbed')
            return trained(folder, loop_name, *flags, strategy=strategy, job=WITH_AVERAGES)

    return run


@pytest.mark.parametrize(
    'loop_name, flags, replicas',
    [('keras_fit', (), 2), ('keras_fit', ('--accumulate_steps=2',), 1), ('custom_loop', ('--accumulate_steps=2',), 2)],
)
def test_a_repeated_attempt_leaves_no_trace(tmp_path, caplog, two, undisturbed, loop_name, flags, replicas):
    caplog.set_level(logging.INFO, 'estimator_trainer')
    strategy = two if replicas == 2 else None
    expected = undisturbed(loop_name, *flags, strategy=strategy)
    values = trained(tmp_path, loop_name, *flags, strategy=strategy, job=WITH_AVERAGES)
    assert_same(without_scale(values), without_scale(expected))
    assert values[SCALE] < 2**15 and expected[SCALE] == 2**8 and expected[FINITE_STEPS] == STEPS
    epochs = [record.message for record in caplog.records if 'mae' in record.message]
    assert len(epochs) == 2 and epochs[0] == epochs[1]


@pytest.mark.parametrize('loop_name', LOOPS)
def test_a_resumed_run_has_the_same_scale_and_weights(tmp_path, monkeypatch, loop_name):
    monkeypatch.setattr(mixed_precision, 'GROWTH_STEPS', 2)
    whole = trained(tmp_path / 'whole', loop_name)
    for steps in (2, 3, STEPS):
        parts = trained(tmp_path / 'parts', loop_name, steps=steps)
    del whole['save_counter/.ATTRIBUTES/VARIABLE_VALUE'], parts['save_counter/.ATTRIBUTES/VARIABLE_VALUE']
    assert_same(parts, whole)
    # Step 0 is finite; step 1 needs 2**14 or less; the steps 2 and 3, 4 and 5 are finite.
    assert whole[FINITE_STEPS] in (0, 1) and whole[SCALE] < 2**16


def test_the_scale_doubles(tmp_path, monkeypatch):
    monkeypatch.setattr(mixed_precision, 'GROWTH_STEPS', 4)
    monkeypatch.setattr(mixed_precision, 'FIRST_SCALE', 2.0**10)
    values = trained(tmp_path, 'custom_loop', job=job_of(examples(())))
    assert (values[SCALE], values[FINITE_STEPS]) == (2**11, 2)


def test_without_overflows_it_is_a_loss_scale_optimizer_of_keras(tmp_path):
    x, labels = examples(())
    values = trained(tmp_path, 'custom_loop', job=job_of((x, labels)))
    tf.keras.mixed_precision.set_global_policy('mixed_float16')
    try:
        model = make_model({})
    finally:
        tf.keras.mixed_precision.set_global_policy('float32')
    optimizer = tf.keras.mixed_precision.LossScaleOptimizer(_legacy.SGD(RATE))
    for step in range(STEPS):
        rows = slice(step * GLOBAL, (step + 1) * GLOBAL)
        with tf.GradientTape() as tape:
            outputs = tf.cast(model({'x': x[rows]}), tf.float32)
            scaled = optimizer.get_scaled_loss(tf.reduce_mean(loss(labels[rows], outputs, {})))
        gradients = optimizer.get_unscaled_gradients(tape.gradient(scaled, model.trainable_weights))
        optimizer.apply_gradients(zip(gradients, model.trainable_weights))
    for number, weight in enumerate(model.weights):
        name = f'model/layer_with_weights-{number}/kernel/.ATTRIBUTES/VARIABLE_VALUE'
        np.testing.assert_array_equal(values[name], weight.numpy())
    assert values[SCALE] == optimizer.loss_scale.numpy() and values[FINITE_STEPS] == STEPS


@tf.custom_gradient
def without_gradient(tensor):
    return tf.identity(tensor), lambda upstream: tf.where(tensor > 100, float('nan'), upstream)


@pytest.mark.parametrize('loop_name', LOOPS)
def test_what_is_not_finite_ends_the_run_as_in_float32(tmp_path, loop_name):
    def end(kind, job):
        with pytest.raises(loop.NotFiniteError) as raised:
            trained(tmp_path / f'{kind}_{id(job)}', loop_name, kind=kind, job=job)
        return str(raised.value)

    x, labels = examples(())
    labels[2 * GLOBAL] = np.inf
    of_loss = job_of((x, labels))
    assert end('float16', of_loss) == end(None, of_loss) == 'the loss is inf at step 3'
    of_gradient = job_of(examples((2,)), loss=lambda labels, outputs, _: without_gradient(loss(labels, outputs, {})))
    assert end('float16', of_gradient) == end(None, of_gradient) == 'the loss is nan at step 4'


def test_another_precision_goes_on_with_the_run_and_back(tmp_path):
    trained(tmp_path, 'custom_loop', kind='bfloat16', steps=2)
    assert SCALE not in saved(tmp_path)
    values = trained(tmp_path, 'keras_fit', steps=3)
    assert (values[SCALE], values[FINITE_STEPS]) == (2**15, 1)
    evaluator = keras_evaluator.KerasEvaluator(JOB, {}, str(tmp_path), lambda: None)
    evaluator.restore(checkpoints.latest(str(tmp_path)))
    assert {layer.compute_dtype for layer in evaluator.model.layers} == {'float32'}
    of_checkpoint = roles.roles(variables.read(checkpoints.latest(str(tmp_path))))
    assert [role.role for role in of_checkpoint].count(roles.SCALE) == 2
    assert SCALE not in trained(tmp_path, 'custom_loop', kind=None, steps=4)
    assert trained(tmp_path, 'custom_loop', steps=5)[FINITE_STEPS] == 1


def test_xla_compiles_it_up_to_rounding(tmp_path):
    plain = trained(tmp_path / 'plain', 'custom_loop', steps=3)
    compiled = trained(tmp_path / 'compiled', 'custom_loop', '--xla', steps=3)
    assert compiled[SCALE] == plain[SCALE] < 2**15
    for name, value in without_scale(plain).items():
        np.testing.assert_allclose(compiled[name], value, atol=1e-3)


@pytest.mark.parametrize('loop_name', LOOPS)
def test_a_model_without_weights_is_refused(tmp_path, loop_name):
    class Subclassed(tf.keras.Model):
        def __init__(self):
            super().__init__()
            self.dense = dense(1, 1)

        def call(self, features):
            return self.dense(features['x'])

    job = job_of(examples(), model=lambda params: Subclassed())
    with pytest.raises(UsageError, match='a model that has no weights yet; let make_model call it once'):
        trained(tmp_path, loop_name, job=job)


def test_an_optimizer_that_scales_the_loss_is_refused(tmp_path):
    of_keras = tf.keras.mixed_precision.LossScaleOptimizer
    job = job_of(examples(), optimizer=lambda params: of_keras(_legacy.SGD(RATE)))
    with pytest.raises(UsageError, match='gives a LossScaleOptimizer; let it give the optimizer inside'):
        trained(tmp_path, 'custom_loop', job=job)
