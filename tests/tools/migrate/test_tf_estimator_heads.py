"""Predictions and losses of the heads of Estimators, and what the modules in `owned` have for them."""

import numpy as np
import pytest
import tensorflow as tf

from tests.tools.migrate.owned_modules import keras

import estimator_heads  # isort: skip

N = 60
R = np.random.default_rng(0)
WEIGHTS = R.uniform(0, 3, N).astype('f4')
WEIGHTS[:7] = 0
PER_NUMBER = R.uniform(0, 3, (N, 3)).astype('f4')
PER_NUMBER[:4, 1] = 0
NAMES = ['low', 'middle', 'high']
LABELS = {
    'binary': R.integers(0, 2, (N, 1)),
    'multi_class': R.integers(0, 3, (N, 1)),
    'multi_label': R.integers(0, 2, (N, 3)),
    'logistic': R.uniform(0, 1, (N, 1)).astype('f4'),
    'regression': R.normal(size=(N, 1)).astype('f4'),
    'regression of three': R.normal(size=(N, 3)).astype('f4'),
    'poisson': R.poisson(3.0, (N, 1)).astype('f4'),
    'poisson of three': R.poisson(3.0, (N, 3)).astype('f4'),
    'poisson_without_full_loss': R.poisson(3.0, (N, 1)).astype('f4'),
}


def v2_head(name, weight, reduction='sum'):
    estimator = tf.estimator
    arguments = dict(weight_column=weight, loss_reduction=reduction)
    return {
        'binary': lambda: estimator.BinaryClassHead(**arguments),
        'multi_class': lambda: estimator.MultiClassHead(3, **arguments),
        'multi_label': lambda: estimator.MultiLabelHead(3, **arguments),
        'logistic': lambda: estimator.LogisticRegressionHead(**arguments),
        'regression': lambda: estimator.RegressionHead(**arguments),
        'regression of three': lambda: estimator.RegressionHead(label_dimension=3, **arguments),
        'poisson': lambda: estimator.PoissonRegressionHead(**arguments),
        'poisson of three': lambda: estimator.PoissonRegressionHead(label_dimension=3, **arguments),
        'poisson_without_full_loss': lambda: estimator.PoissonRegressionHead(compute_full_loss=False, **arguments),
    }[name]()


def v1_head(name, weight, reduction):
    from tensorflow_estimator.python.estimator.canned import head

    make = {
        'binary': lambda how: head._binary_logistic_head_with_sigmoid_cross_entropy_loss(**how),
        'multi_class': lambda how: head._multi_class_head_with_softmax_cross_entropy_loss(3, **how),
        'regression': lambda how: head._regression_head(**how),
        'regression of three': lambda how: head._regression_head(label_dimension=3, **how),
    }[name]
    return make(dict(weight_column=weight, loss_reduction=reduction))


def ours(name, reduction):
    head, _, three = name.partition(' of ')
    return estimator_heads.head_loss(head, reduction, 3 if three else 1)


def check(name, loss, wanted, weights):
    """The loss and its gradient are the head's, after Keras has written the loss down."""
    width = 3 if name == 'multi_class' else LABELS[name].shape[1]
    logits = tf.constant(R.normal(0, 3, (N, width)), tf.float32)
    loss = keras.losses.deserialize(keras.losses.serialize(loss))
    values, gradients = [], []
    for function in (wanted, lambda logits: loss(tf.constant(LABELS[name]), logits, sample_weight=weights)):
        with tf.GradientTape() as tape:
            tape.watch(logits)
            value = function(logits)
        values.append(value.numpy())
        gradients.append(tape.gradient(value, logits).numpy())
    assert np.isfinite(values[0]) and np.any(gradients[0])
    assert values[1] == pytest.approx(values[0], rel=2e-7)  # two roundings of float32
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=2e-7, atol=1e-7 * np.max(np.abs(gradients[0])))


@pytest.mark.parametrize('weights', [None, WEIGHTS, WEIGHTS[:, None]], ids=['none', '[batch]', '[batch, 1]'])
@pytest.mark.parametrize('reduction', ['sum', 'sum_over_batch_size'])
@pytest.mark.parametrize('name', LABELS)
def test_loss_of_tf_estimator(name, reduction, weights):
    head = v2_head(name, None if weights is None else 'w', reduction)
    features = {} if weights is None else {'w': tf.constant(weights)}
    check(name, ours(name, reduction), lambda logits: head.loss(LABELS[name], logits, features=features), weights)


V1 = {
    'sum': 'weighted_sum',
    'mean': 'weighted_mean',
    'sum_over_batch_size': 'weighted_sum_over_batch_size',
    'sum_over_nonzero_weights': 'weighted_sum_by_nonzero_weights',
}


@pytest.mark.parametrize('weighted', [False, True])
@pytest.mark.parametrize('reduction', V1)
@pytest.mark.parametrize('name', ['binary', 'multi_class', 'regression', 'regression of three'])
def test_loss_of_tf_compat_v1_estimator(name, reduction, weighted):
    head = v1_head(name, 'w' if weighted else None, V1[reduction])
    weights = PER_NUMBER if weighted and 'three' in name else WEIGHTS[:, None] if weighted else None

    def wanted(logits):
        features = {'w': tf.constant(weights)} if weighted else {}
        return head.create_loss(features, 'train', logits, tf.constant(LABELS[name])).training_loss

    check(name, ours(name, reduction), wanted, weights)


def test_weights_of_each_number():
    head = v2_head('regression of three', 'w')
    features = {'w': tf.constant(PER_NUMBER)}
    name = 'regression of three'
    check(name, ours(name, 'sum'), lambda logits: head.loss(LABELS[name], logits, features=features), PER_NUMBER)


def test_losses_of_keras_are_preferred():
    assert type(estimator_heads.head_loss('binary', 'sum')) is keras.losses.BinaryCrossentropy
    assert type(estimator_heads.head_loss('regression', 'sum_over_batch_size')) is keras.losses.MeanSquaredError
    assert type(estimator_heads.head_loss('regression', 'sum', 2)) is estimator_heads.HeadLoss
    assert type(estimator_heads.head_loss('binary', 'mean')) is estimator_heads.HeadLoss


def test_in_fit():
    """Labels and weights of [batch], as data sets often have them."""
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, kernel_initializer='ones')])
    model.compile('sgd', estimator_heads.HeadLoss('regression', 'mean'), jit_compile=False)
    x, y, w = np.float32([[1], [2]]), np.float32([0, 0]), np.float32([1, 3])
    assert model.evaluate(x, y, sample_weight=w, verbose=0) == pytest.approx((1 + 3 * 4) / 4)


PREDICTIONS = {
    'binary': (lambda: tf.estimator.BinaryClassHead(), lambda: estimator_heads.ClassPredictions(2)),
    'binary with names': (
        lambda: tf.estimator.BinaryClassHead(label_vocabulary=NAMES[:2]),
        lambda: estimator_heads.ClassPredictions(2, NAMES[:2]),
    ),
    'multi_class': (lambda: tf.estimator.MultiClassHead(3), lambda: estimator_heads.ClassPredictions(3)),
    'multi_class with names': (
        lambda: tf.estimator.MultiClassHead(3, label_vocabulary=NAMES),
        lambda: estimator_heads.ClassPredictions(3, NAMES),
    ),
    'multi_label': (lambda: tf.estimator.MultiLabelHead(3), lambda: estimator_heads.MultiLabelPredictions(3)),
    'multi_label with names': (
        lambda: tf.estimator.MultiLabelHead(3, label_vocabulary=NAMES),
        lambda: estimator_heads.MultiLabelPredictions(3, NAMES),
    ),
    'regression': (lambda: tf.estimator.RegressionHead(2), lambda: estimator_heads.RegressionPredictions()),
    'poisson': (lambda: tf.estimator.PoissonRegressionHead(), lambda: estimator_heads.RegressionPredictions('exp')),
    'logistic': (
        lambda: tf.estimator.LogisticRegressionHead(),
        lambda: estimator_heads.RegressionPredictions('sigmoid'),
    ),
}


@pytest.mark.parametrize('head, layer', PREDICTIONS.values(), ids=PREDICTIONS)
def test_predictions(head, layer):
    head, layer = head(), layer()
    logits = R.normal(0, 3, (N, head.logits_dimension)).astype('f4')
    logits[0] = 0  # as probable as each other
    wanted = head.predictions(tf.constant(logits))
    inputs = keras.Input((head.logits_dimension,))
    model = keras.Model(inputs, type(layer).from_config(layer.get_config())(inputs))
    found = model.predict(logits, verbose=0)
    assert found.keys() == wanted.keys()
    for key, value in wanted.items():
        assert model.output[key].shape == (None, *value.shape[1:]), key
        assert keras.backend.standardize_dtype(model.output[key].dtype) == value.dtype.name, key
        assert np.array_equal(np.asarray(found[key]), value.numpy()), key


@pytest.mark.parametrize(
    'make, text',
    [
        (lambda: estimator_heads.HeadLoss('hinge'), "no head 'hinge'"),
        (lambda: estimator_heads.HeadLoss('binary', 'none'), "no reduction 'none'"),
        (lambda: estimator_heads.RegressionPredictions('log'), "inverse_link is 'log'"),
    ],
)
def test_unknown_names_are_refused(make, text):
    with pytest.raises(ValueError, match=text):
        make()
