"""Keras models unlike those of the built-in jobs: what they draw, mask, keep and add, and what is refused."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import keras_evaluator
from estimator_trainer.jobs import Job, KerasParts, keras_models, losses, optimizers
from estimator_trainer.training import accumulated_batches, layer_precision

layers = tf.keras.layers
PARAMS = {'seed': 3, 'batch_size': 4}


def squares(labels, outputs, params):
    return tf.reduce_sum(tf.square(outputs - labels), -1)


def parts(**changes):
    return KerasParts(**{'loss': squares, 'make_optimizer': lambda params: optimizers.sgd(params)} | changes)


def data(context=None):
    """Batches of 4 and 2 examples."""
    x = np.arange(12, dtype=np.float32).reshape([6, 2])
    return tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(4)


def evaluated(folder, make_model, input_fn=data, **of_parts):
    """-> (the evaluation of a checkpoint, the evaluator)"""
    job = Job(make_model=make_model, parts=parts(**of_parts), input_fn=lambda: None)
    evaluator = keras_evaluator.KerasEvaluator(job, PARAMS, str(folder), input_fn)
    tf.train.Checkpoint(model=evaluator.model, global_step=tf.Variable(5, dtype=tf.int64)).save(f'{folder}/model.ckpt')
    path = f'{folder}/model.ckpt-1'
    return evaluator.evaluate(path), evaluator, path


@pytest.mark.parametrize('count', [2, 4])
def test_micro_batches_have_masks_of_their_own(count):
    tf.keras.utils.set_random_seed(1)
    weights, dropout = tf.Variable(tf.ones([256])), layers.Dropout(0.5)

    def of_batch(features, labels):
        with tf.GradientTape() as tape:
            share = tf.reduce_sum(dropout(features, training=True) * weights)
        return share, tape.gradient(share, [weights])

    @tf.function
    def step():
        return accumulated_batches.added_up(of_batch, [(tf.ones([1, 256]), tf.zeros([1]))] * count)[1][0]

    times = np.stack([step() for _ in range(3)]) / 2  # in how many of the micro-batches each number was kept
    for of_step in times:  # masks that are independent: as often as a binomial distribution has it
        assert np.isin(of_step, range(count + 1)).all()
        assert abs(of_step.var() - count / 4) < count / 8
    assert not (times[0] == times[1]).all()


def test_layers_that_ask_other_replicas_are_refused_with_accumulated_batches(two):
    with two.scope():
        norm = layers.BatchNormalization(synchronized=True)
        norm.build([None, 2])

    def of_batch(features, labels):
        return tf.reduce_sum(norm(features, training=True)), [tf.zeros([2])]

    @tf.function
    def step():
        return two.run(lambda: accumulated_batches.added_up(of_batch, [(tf.ones([3, 2]), tf.zeros([3]))] * 2)[0])

    with pytest.raises(Exception, match='leave synchronized=True of BatchNormalization out, or --accumulate_steps'):
        step()


def tagger():
    return tf.keras.Sequential(
        [
            layers.Embedding(9, 4, mask_zero=True, input_length=None),
            layers.LSTM(5, return_sequences=True),
            layers.Dense(3),
        ]
    )


@pytest.mark.parametrize('size', [None, 2])
def test_the_mask_of_outputs_counts_in_losses_and_metrics(size):
    model, words = tagger(), tf.constant([[1, 2, 0, 0], [3, 0, 0, 0]])
    labels = tf.constant([[0, 1, 2, 2], [1, 2, 2, 2]])
    loss = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction='none')
    expected = loss(labels, model(words)).numpy()

    @tf.function(input_signature=[tf.TensorSpec([size, 4], tf.int32)])
    def computed(words):
        outputs = losses.outputs_of(model, words, training=True)
        narrow = losses.with_mask_of(outputs, tf.cast(outputs, tf.bfloat16))
        of_narrow = layer_precision.loss_in_float32(parts(loss=lambda labels, outputs, params: loss(labels, outputs)))
        return loss(labels, outputs), of_narrow.loss(labels, narrow, {})

    of_outputs, of_narrow = computed(words)
    assert (expected == 0).sum() == 5
    np.testing.assert_array_equal(of_outputs, expected)
    np.testing.assert_allclose(of_narrow, expected, rtol=0.02)


def random_features(params):
    xy, kernel = tf.keras.Input([2]), tf.random.normal([2, 8])
    features = tf.sin(tf.matmul(xy, kernel)) * tf.constant(np.random.permutation(8), tf.float32)
    return tf.keras.Model(xy, layers.Dense(1)(features))


def test_an_evaluation_draws_the_constants_of_the_training(tmp_path):
    _, evaluator, path = evaluated(tmp_path, random_features)
    tf.keras.utils.set_random_seed(PARAMS['seed'])  # as a training begins
    trained = random_features(PARAMS)
    tf.train.Checkpoint(model=trained).restore(path).expect_partial()
    x = tf.constant([[0.3, 0.4]])
    np.testing.assert_array_equal(trained(x), evaluator.model(x))


@pytest.mark.parametrize('regularizer', [{}, {'kernel_regularizer': 'l2'}])
def test_losses_that_layers_add_for_a_batch_are_evaluated(tmp_path, regularizer):
    def make_model(params):
        x = tf.keras.Input([2])
        return tf.keras.Model(x, layers.Dense(1, activity_regularizer=tf.keras.regularizers.L2(0.5), **regularizer)(x))

    plain, evaluator, _ = evaluated(tmp_path / 'plain', make_model)
    found, evaluator, _ = evaluated(tmp_path / 'all', make_model, penalty=lambda model, _: tf.add_n(model.losses))
    (kernel, bias), (x, _) = evaluator.model.get_weights(), next(iter(data().unbatch().batch(6)))
    of_activity = 0.5 * np.sum((x @ kernel + bias) ** 2) / 6
    of_kernel = 0.01 * np.sum(kernel**2) if regularizer else 0
    assert found['loss'] - plain['loss'] == pytest.approx(of_activity + of_kernel, rel=1e-4)


def stateful(params):
    x = tf.keras.Input(batch_shape=[2, 3, 1])
    return tf.keras.Model(x, layers.Dense(1)(layers.LSTM(4, stateful=True)(x)))


def test_each_evaluation_begins_with_the_same_states(tmp_path):
    x = np.ones([6, 3, 1], np.float32)
    batches = lambda context=None: tf.data.Dataset.from_tensor_slices((x, x[:, 0])).batch(2)  # noqa: E731
    first, evaluator, path = evaluated(tmp_path, stateful, batches)
    assert len(keras_models.rnn_states(evaluator.model)) == 2
    assert evaluator.evaluate(path)['loss'] == first['loss']
    assert any(state.numpy().any() for state in keras_models.rnn_states(evaluator.model))
    evaluator.restore(path)  # as an export does, which would hold them
    assert not any(state.numpy().any() for state in keras_models.rnn_states(evaluator.model))


def test_what_another_layer_calls_its_states_is_its_own():
    class Memory(layers.Layer):
        def __init__(self):
            super().__init__()
            self.states = [tf.Variable(tf.ones([3]))]

    model = tf.keras.Sequential([tf.keras.Input([3]), Memory(), layers.Reshape([3, 1]), layers.LSTM(2)])
    assert keras_models.rnn_states(model) == []


@pytest.mark.parametrize('element', [(1.0, 2.0, 3.0), {'x': 1.0}])
def test_evaluation_batches_that_are_no_pairs_are_refused(tmp_path, element):
    with pytest.raises(UsageError, match=r'the evaluation: each batch of the input_fn has .*\(features, labels\)'):
        evaluated(tmp_path, stateful, lambda context=None: tf.data.Dataset.from_tensors(element))


def test_a_replica_without_a_batch_keeps_its_averages(two):
    with two.scope():
        model = tf.keras.Sequential([tf.keras.Input([2]), layers.BatchNormalization(momentum=0.5)])

    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def step(x):
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return losses.outputs_of(model, x[: tf.where(tf.equal(replica, 0), tf.shape(x)[0], 0)], training=True)

    two.run(step, [tf.constant([[4.0, 8.0], [6.0, 8.0]])])
    averages = [
        tf.convert_to_tensor(each).numpy() for each in two.experimental_local_results(model.layers[-1].moving_mean)
    ]
    np.testing.assert_allclose(averages, [[2.5, 4.0], [0.0, 0.0]])


def of_class(name, module='job', **methods):
    return type(name, (tf.keras.Model,), {'__module__': module, **methods})


@pytest.mark.parametrize('model', [None, object()])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(UsageError, match='make_model gives a builtins.*let it return a tf.keras.Model'):
        keras_models.made(lambda params: model, {})


def test_a_model_of_keras_3_is_refused_with_the_cure():
    model = type('Sequential', (), {'__module__': 'keras.src.models.sequential'})()
    with pytest.raises(UsageError, match='write `from tensorflow import keras` in the job'):
        keras_models.made(lambda params: model, {})


def test_a_policy_of_the_job_without_a_loss_scale_is_refused():
    before = tf.keras.mixed_precision.global_policy()
    tf.keras.mixed_precision.set_global_policy('mixed_float16')
    try:
        model = tf.keras.Sequential([tf.keras.Input([2]), layers.Dense(1, name='last', dtype='mixed_float16')])
    finally:
        tf.keras.mixed_precision.set_global_policy(before)
    with pytest.raises(UsageError, match='the layer .* computes in float16.*--mixed_precision=float16'):
        keras_models.check_trained(model)
    keras_models.check_trained(model, is_scaled=True)


def test_an_optimizer_that_scales_the_loss_is_refused():
    scaling = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.legacy.SGD(0.1))
    with pytest.raises(UsageError, match='make_optimizer gives a LossScaleOptimizer'):
        optimizers.of_job(parts(make_optimizer=lambda params: scaling), {})


def test_a_method_that_no_loop_calls_is_named(caplog):
    keras_models.check_trained(tf.keras.Sequential([tf.keras.Input([2]), layers.Dense(1)]))
    assert 'WARNING' not in caplog.text
    keras_models.check_trained(of_class('Diffusion', train_step=lambda self, data: {})())
    assert 'the model Diffusion has a train_step of its own, which is not called' in caplog.text
