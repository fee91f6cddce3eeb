"""The parts of keras_fit and custom_loop, on two replicas of one process."""

import dataclasses
import itertools
import math
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer import jobs
from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import keras_evaluator, serving_inputs
from estimator_trainer.jobs import optimizers, schedules
from estimator_trainer.training import custom_loop, keras_calls, keras_fit, reports, what_failed
from tests import fakes

v1 = tf.compat.v1
XLA_TOLERANCE = 1e-5  # of losses relative, of weights absolute, after two steps
PARAMS = dict(
    jobs.load('mnist').params,
    optimizer='momentum',
    learning_rate=0.05,
    l2=0.001,
    schedule='cosine',
    batch_size=8,
    num_replicas=2,
    initial_replicas=2,
    global_batch_size=16,
    max_steps=10,
    steps_per_epoch=4,
    seed=1,
    start_step=0,
)


def examples(count=21, seed=0):
    random = np.random.RandomState(seed)
    return ({'image': random.randint(0, 255, [count, 28, 28, 1]).astype(np.uint8)}, random.randint(0, 10, [count]))


def finite(count=21):
    """21 examples are 8 + 8 and 5 + 0: a short batch, and a replica without one."""
    return lambda context=None: tf.data.Dataset.from_tensor_slices(examples(count)).batch(8)


def whole(context=None):
    """Endless batches of 8."""
    return tf.data.Dataset.from_tensor_slices(examples(32)).batch(8, drop_remainder=True).repeat()


def refusal(strategy, *given):
    """What a training is refused with."""
    with pytest.raises(Exception) as raised:  # AutoGraph wraps what is raised within a tf.function
        trained(strategy, *given)
    error = raised.value
    return str(error if isinstance(error, UsageError) else what_failed.in_traced_code(error, UsageError))


def trained(strategy, way, xla=False, data=finite(), job=None):
    """(losses, weights) after two steps with the replicas of a strategy; `finite` then ends."""
    job = job or jobs.load('mnist')
    with strategy.scope():
        model = job.make_model(PARAMS)
        optimizer = job.parts.make_optimizer(PARAMS)
    batches = strategy.distribute_datasets_from_function(data)
    if way.startswith('keras_fit'):
        with strategy.scope():
            fitted = keras_fit.GlobalLossModel(model, job.parts, PARAMS, xla)
            fitted.compile(optimizer=optimizer)
        if way.endswith('several'):
            steps = mock.Mock(step=0, next_due=lambda step, alone: 1 if data is whole else 2)  # of two calls
            fitted.take_several(fakes.Setup(loop=steps, waits=reports.Waits()), strategy)
        losses = []
        heard = tf.keras.callbacks.LambdaCallback(
            on_train_batch_end=lambda batch, logs: losses.extend(np.atleast_1d(logs['step_loss']))
        )
        fitted.fit(keras_fit.ResumableDataset(batches), steps_per_epoch=2, verbose=0, callbacks=[heard])
    else:
        steps = custom_loop.ModelSteps(strategy, model, optimizer, job.parts, PARAMS, batches.element_spec, xla)
        if way == 'dataset':
            losses = [steps.one(batch).numpy() for batch in itertools.islice(batches, 2)]
        else:
            take = keras_calls.call_of_steps(strategy, steps.replica_step)
            losses, _, ended = take(iter(batches), tf.constant(2 if data is whole else 5), float('inf'))
            assert ended == (data is not whole)
    return np.array(losses), [weight.numpy() for weight in model.trainable_weights]


@pytest.fixture(scope='module')
def expected():
    """The same steps on batches of 16 and 5, by hand, without a strategy."""
    job = jobs.load('mnist')
    model, optimizer = job.make_model(PARAMS), job.parts.make_optimizer(PARAMS)
    features, labels = examples()
    losses = []
    for some in (slice(0, 16), slice(16, 21)):
        with tf.GradientTape() as tape:
            logits = model({'image': features['image'][some]}, training=True)
            loss = tf.reduce_mean(job.parts.loss(labels[some], logits, PARAMS))
            loss += job.parts.penalty(model, PARAMS)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_weights), model.trainable_weights))
        losses.append(loss.numpy())
    return losses, [weight.numpy() for weight in model.trainable_weights]


@pytest.mark.parametrize('way', ['dataset', 'several', 'keras_fit', 'keras_fit several'])
def test_a_short_last_batch_on_two_replicas(way, expected, two):
    losses, weights = trained(two, way)
    assert losses == pytest.approx(expected[0], rel=1e-5)
    for one, two in zip(weights, expected[1], strict=True):
        np.testing.assert_allclose(one, two, atol=1e-6)


@pytest.mark.parametrize('way', ['dataset', 'several', 'keras_fit', 'keras_fit several'])
def test_xla_computes_the_same_up_to_rounding(way, two):
    plain, compiled = (trained(two, way, xla, whole) for xla in (False, True))
    np.testing.assert_allclose(compiled[0], plain[0], rtol=XLA_TOLERANCE)
    for one, other in zip(compiled[1], plain[1], strict=True):
        np.testing.assert_allclose(one, other, atol=XLA_TOLERANCE)


def test_xla_takes_a_short_batch_of_one_replica_and_refuses_it_of_two(two):
    alone = tf.distribute.get_strategy()
    plain, compiled = (trained(alone, 'several', xla) for xla in (False, True))
    np.testing.assert_allclose(compiled[0], plain[0], rtol=XLA_TOLERANCE)
    assert 'drop_remainder=True' in refusal(two, 'several', True)


def test_xla_refuses_a_step_that_draws_from_a_seed():
    def make_model(params):
        return tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dropout(0.5), tf.keras.layers.Dense(10)])

    job = dataclasses.replace(jobs.load('mnist'), make_model=lambda params: built(make_model(params)))
    job, alone = (
        dataclasses.replace(job, parts=dataclasses.replace(job.parts, penalty=None)),
        tf.distribute.get_strategy(),
    )
    assert '--xla: the step draws random numbers (RandomUniform' in refusal(alone, 'dataset', True, whole, job)


def built(model):
    """A model that takes the image of a batch of features."""
    inputs = tf.keras.Input([28, 28, 1], name='image')
    return tf.keras.Model({'image': inputs}, model(tf.cast(inputs, tf.float32)))


def test_xla_says_which_operation_it_cannot_compile():
    @tf.function(jit_compile=True)
    def hashes(texts):
        return tf.strings.to_hash_bucket_fast(texts, 10)

    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        hashes(tf.constant(['a']))
    assert what_failed.not_compiled(what_failed.text_of(raised.value)) == 'a batch with text'


@pytest.mark.parametrize('name', ['sgd', 'momentum', 'adam'])
def test_the_optimizers_are_those_of_v1(name):
    """With a rate that changes in every step."""
    params = dict(PARAMS, optimizer=name)
    gradients = np.random.RandomState(0).normal(size=[10, 5]).astype(np.float32)
    variable, optimizer = tf.Variable(tf.ones([5])), optimizers.make(name, params)
    for gradient in gradients:
        optimizer.apply_gradients([(tf.constant(gradient), variable)])
    assert int(optimizer.iterations) == 10
    ours = variable.numpy()
    with tf.Graph().as_default(), v1.Session() as session:
        step = v1.train.get_or_create_global_step()
        theirs = {
            'sgd': v1.train.GradientDescentOptimizer,
            'adam': v1.train.AdamOptimizer,
            'momentum': lambda rate: v1.train.MomentumOptimizer(rate, 0.9),
        }[name](schedules.learning_rate(params, step))
        other, fed = v1.get_variable('v', initializer=tf.ones([5])), v1.placeholder(tf.float32, [5])
        train = theirs.apply_gradients([(fed, other)], global_step=step)
        session.run(v1.global_variables_initializer())
        for gradient in gradients:
            session.run(train, {fed: gradient})
        np.testing.assert_allclose(ours, session.run(other), rtol=2e-6)


@pytest.mark.parametrize(
    'more',
    [
        {'clipnorm': 1.0},
        {'decay': 0.1},
        {'gradient_transformers': [lambda pairs: pairs]},
        {'gradient_aggregator': lambda pairs: pairs},
    ],
)
def test_an_optimizer_that_v1_has_no_equal_of_is_refused(more):
    optimizers.of_estimator(tf.keras.optimizers.legacy.SGD(0.1), tf.constant(0))
    with pytest.raises(ValueError, match='tf.compat.v1.train has no equal'):
        optimizers.of_estimator(tf.keras.optimizers.legacy.SGD(0.1, **more), tf.constant(0))


def test_an_evaluation_without_examples_has_no_metrics(tmp_path, caplog):
    job = jobs.load('mnist')
    evaluator = keras_evaluator.KerasEvaluator(job, PARAMS, str(tmp_path), lambda context=None: finite()().take(0))
    step = tf.Variable(3, dtype=tf.int64)
    tf.train.Checkpoint(model=evaluator.model, global_step=step).save(f'{tmp_path}/model.ckpt')
    metrics = evaluator.evaluate(tf.train.latest_checkpoint(str(tmp_path)))
    assert math.isnan(metrics['loss']) and math.isnan(metrics['accuracy'])
    assert "no batch when mode is 'eval'" in caplog.text


@pytest.mark.parametrize('same_data, sizes', [(False, [1, 2]), (True, [1, 1])])
def test_an_evaluation_calls_the_input_fn_unless_its_data_are_the_same(tmp_path, same_data, sizes):
    job, calls = jobs.load('mnist'), []

    def input_fn(context=None):
        calls.append(context)
        return finite()().take(len(calls))

    evaluator = keras_evaluator.KerasEvaluator(job, PARAMS, str(tmp_path), input_fn, same_data=same_data)
    batches = []
    evaluator._progress.batch = lambda: batches.append(len(calls))
    tf.train.Checkpoint(model=evaluator.model, global_step=tf.Variable(3, dtype=tf.int64)).save(
        f'{tmp_path}/model.ckpt'
    )
    for _ in sizes:
        evaluator.evaluate(tf.train.latest_checkpoint(str(tmp_path)))
    assert len(calls) == sizes[-1] and len(batches) == sum(sizes)


@pytest.mark.parametrize('replicas', [1, 2])
def test_saved_models_and_checkpoints_with_and_without_a_strategy(tmp_path, replicas, two):
    """Made under two replicas; loaded with and without strategy.scope(): equal to the model in memory."""
    job = jobs.load('mnist')
    evaluator = keras_evaluator.KerasEvaluator(job, PARAMS, str(tmp_path), finite(), strategy=two)
    optimizer = job.parts.make_optimizer(PARAMS)
    tf.train.Checkpoint(model=evaluator.model, global_step=optimizer.iterations).save(str(tmp_path / 'model.ckpt'))
    checkpoint = tf.train.latest_checkpoint(str(tmp_path))
    in_memory = evaluator.evaluate(checkpoint)
    features, labels = examples()
    logits = evaluator.model(features).numpy()
    correct = np.mean(logits.argmax(axis=1) == labels)
    assert in_memory['accuracy'] == pytest.approx(correct) and in_memory['global_step'] == 0
    path = evaluator.export_saved_model(str(tmp_path / 'export'), serving_inputs.raw_images((28, 28, 1)), checkpoint)

    strategy = two if replicas == 2 else tf.distribute.get_strategy()
    with strategy.scope():
        loaded = tf.keras.models.load_model(path, compile=False)
        loaded.compile(loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=['accuracy'])
    loss, accuracy = loaded.evaluate(finite()(), verbose=0)
    penalty = float(job.parts.penalty(evaluator.model, PARAMS))
    assert accuracy == pytest.approx(in_memory['accuracy'])
    assert loss + penalty == pytest.approx(in_memory['loss'], rel=1e-5)
    np.testing.assert_allclose(loaded(features), logits, rtol=1e-5, atol=1e-5)
    serve = tf.saved_model.load(path).signatures['serving_default']
    np.testing.assert_allclose(serve(image=tf.constant(features['image']))['logits'], logits, atol=1e-5)

    restored = keras_evaluator.KerasEvaluator(
        job, dict(PARAMS, seed=9), str(tmp_path), finite(), strategy=two if replicas == 2 else None
    ).evaluate(checkpoint)
    assert restored['loss'] == pytest.approx(in_memory['loss'], rel=1e-6)
    assert restored['accuracy'] == in_memory['accuracy']


def test_the_wait_for_each_batch():
    times, told = iter([0.0, 2.0, 5.0, 6.0, 9.0]), []
    assert list(custom_loop.measured(iter('ab'), told.append, lambda: next(times))) == ['a', 'b']
    assert told == [2.0, 1.0]
