"""How far predictions of two forms of a model are apart."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.jobs import Job
from estimator_trainer.tools.migrate import predictions


@pytest.mark.parametrize(
    'one, other, difference',
    [
        ([0.5, 0.25], [0.5, 0.125], 0.125),
        ([8.0, 0.25], [8.0, 0.125], 0.125 / 8),
        ([-8.0, 0.25], [-8.5, 0.25], 0.5 / 8),
        ([], [], 0.0),
        ([1.0], [1.0, 2.0], np.inf),
        ([np.nan], [0.0], np.nan),
    ],
)
def test_the_largest_difference_is_relative_to_numbers_above_1(one, other, difference):
    found = predictions.largest_difference({'logits': np.float32(one)}, {'logits': np.float32(other)})
    assert np.array_equal(found, difference, equal_nan=True)


def test_the_largest_difference_of_strings_and_of_what_is_no_number():
    names = [{'class': np.array(each, object), 'logits': np.zeros(2)} for each in ([b'a', b'b'], [b'a', b'c'])]
    assert predictions.largest_difference(names[0], names[0]) == 0.0
    assert predictions.largest_difference(*names) == np.inf
    ones = {'classes': np.zeros(2, np.int64), 'logits': np.zeros(2)}
    assert np.isnan(predictions.largest_difference(ones, {**ones, 'logits': np.full(2, np.nan)}))


def test_other_names_are_no_predictions_of_the_same_model():
    assert predictions.largest_difference({'a': np.zeros(1)}, {'b': np.zeros(1)}) == np.inf


def model_fn(features, mode, config, labels=None):
    assert mode == tf.estimator.ModeKeys.PREDICT and labels is None and isinstance(config, tf.estimator.RunConfig)
    weight = tf.compat.v1.get_variable('weight', initializer=2.0)
    return tf.estimator.EstimatorSpec(mode, predictions={'twice': features * weight})


def test_a_model_fn_gets_what_it_takes_by_name(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        weight = tf.compat.v1.get_variable('weight', initializer=3.0)
        session.run([weight.initializer, tf.compat.v1.train.create_global_step().initializer])
        checkpoint = tf.compat.v1.train.Saver().save(session, str(tmp_path / 'model.ckpt'))
    found = predictions.of_estimator(Job(model_fn=model_fn), {}, checkpoint, np.float32([1, 2]))
    assert found['twice'].tolist() == [3, 6]
