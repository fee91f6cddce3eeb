"""What the trainer asks of any model_fn."""

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
