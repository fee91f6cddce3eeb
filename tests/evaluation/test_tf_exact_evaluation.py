"""What the trainer asks of any model_fn."""

import functools

import pytest
import tensorflow as tf

from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import exact_evaluation

v1 = tf.compat.v1
TRAIN = tf.estimator.ModeKeys.TRAIN


def spec_with(saver, tmp_path):
    """The spec that a model_fn with this Saver gives, in a training."""

    def model_fn(features, labels, mode):
        weight = v1.get_variable('weight', [], initializer=v1.zeros_initializer())
        loss = weight**2 + 0.0 * features
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op, scaffold=v1.train.Scaffold(saver=saver()))

    config = tf.estimator.RunConfig(str(tmp_path))
    with tf.Graph().as_default():
        v1.train.get_or_create_global_step()
        return exact_evaluation.with_exact_loss(model_fn)(tf.constant(1.0), None, TRAIN, {}, config)


def test_a_saver_that_writes_the_old_format_is_refused(tmp_path):
    with pytest.raises(UsageError, match='old format V1; give it no write_version'):
        spec_with(lambda: v1.train.Saver(write_version=v1.train.SaverDef.V1), tmp_path)


@pytest.mark.parametrize('saver', [lambda: None, lambda: v1.train.Saver(), lambda: v1.train.Saver(defer_build=True)])
def test_other_savers_are_not(tmp_path, saver):
    assert spec_with(saver, tmp_path).loss is not None


@pytest.mark.parametrize('returns, called', [(None, 'nothing'), ({'loss': 1.0}, 'a dict')])
def test_a_model_fn_that_returns_no_spec_is_refused(tmp_path, returns, called):
    model_fn = exact_evaluation.with_exact_loss(lambda features, labels, mode: returns)
    with pytest.raises(UsageError, match=f"the model_fn returns {called} when mode is 'train'"):
        model_fn(tf.constant(1.0), None, TRAIN, {}, tf.estimator.RunConfig(str(tmp_path)))


@pytest.mark.parametrize(
    'features, said', [(None, 'nothing'), ({'x': [1.0]}, 'a dict'), ({'x': tf.constant([1.0])}, '')]
)
def test_a_model_fn_that_fails_without_a_tensor(tmp_path, caplog, features, said):
    model_fn = exact_evaluation.with_exact_loss(lambda features, labels, mode: features['y'])
    with pytest.raises((TypeError, KeyError)):
        model_fn(features, None, TRAIN, {}, tf.estimator.RunConfig(str(tmp_path)))
    assert (f'features without a tensor ({said})' in caplog.text) == bool(said)


def of_names(features, labels, mode, params, config):
    return labels, mode, params, config


def of_any(features, **given):
    return tuple(given[name] for name in ('labels', 'mode', 'params', 'config'))


def wrapped(function):
    return functools.wraps(function)(lambda *args, **given: function(*args, **given))


@pytest.mark.parametrize('of', [of_names, of_any])
@pytest.mark.parametrize('place, name', list(enumerate(('labels', 'mode', 'params', 'config'))))
@pytest.mark.parametrize('wrap', [lambda function: function, wrapped, functools.partial])
def test_what_a_partial_has_bound_stays(tmp_path, of, place, name, wrap):
    seen = []

    def spec(*args, **given):
        seen.append(of(*args, **given))
        return tf.estimator.EstimatorSpec(TRAIN, loss=tf.constant(1.0), train_op=tf.no_op())

    model_fn = wrap(functools.partial(functools.wraps(of)(spec), **{name: 'bound'}))
    given = [tf.constant([2.0]), TRAIN, {'of': 'job'}, tf.estimator.RunConfig(str(tmp_path))]
    with tf.Graph().as_default():
        v1.train.get_or_create_global_step()
        exact_evaluation.with_exact_loss(model_fn)(tf.constant(1.0), *given)
    given[place] = 'bound'
    assert all(found is wanted for found, wanted in zip(seen[0], given, strict=True))


def trained(width, model_dir):
    """Trains a model of this width for a step."""

    def model_fn(features, labels, mode):
        weight = v1.get_variable('weight', [1, width])
        loss = tf.reduce_sum(tf.matmul(features, weight))
        train_op = v1.train.GradientDescentOptimizer(0.1).minimize(loss, v1.train.get_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    estimator = tf.estimator.Estimator(exact_evaluation.with_exact_loss(model_fn), str(model_dir))
    estimator.train(lambda: tf.data.Dataset.from_tensors([[1.0]]).repeat(), steps=1)
    return estimator


def test_a_variable_of_another_shape_in_the_checkpoint_is_refused(tmp_path):
    trained(3, tmp_path)
    trained(3, tmp_path)
    with pytest.raises(UsageError, match=r'variable weight has the shape \[1, 4\] .* \[1, 3\] in model.ckpt-2'):
        trained(4, tmp_path)
    with tf.Graph().as_default():
        v1.get_variable('weight', [1, 4])
        step = v1.train.get_or_create_global_step()
        scaffold = v1.train.Scaffold(saver=v1.train.Saver([step]))  # it restores other variables only
        exact_evaluation.refuse_other_shapes(tf.train.latest_checkpoint(str(tmp_path)), scaffold)


def test_the_checkpoint_that_is_restored_may_be_in_another_folder(tmp_path):
    trained(3, tmp_path / 'run')

    def model_fn(features, labels, mode):
        weight = v1.get_variable('weight', [1, 4])
        return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_sum(tf.matmul(features, weight)))

    prefix = tf.train.latest_checkpoint(str(tmp_path / 'run'))
    wrapped = exact_evaluation.with_exact_loss(model_fn, prefix)
    estimator = tf.estimator.Estimator(wrapped, str(tmp_path / 'other'))
    with pytest.raises(UsageError, match='weight'):
        estimator.evaluate(lambda: tf.data.Dataset.from_tensors([[1.0]]), checkpoint_path=prefix)
