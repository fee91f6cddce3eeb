"""tf.contrib.estimator.forward_features: features among the predictions and in the exports."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat.tf1_names import contrib

v1 = tf.compat.v1
FEATURES = {'x': [[1.0], [2.0]], 'key': ['first', 'second'], 'number': [7, 8]}


def input_fn():
    words = tf.SparseTensor([[0, 0], [1, 1]], ['a', 'b'], [2, 2])
    return tf.data.Dataset.from_tensors(({**FEATURES, 'words': words}, [[0], [1]]))


@pytest.fixture(scope='module')
def classifier(tmp_path_factory):
    column = tf.feature_column.numeric_column('x')
    estimator = v1.estimator.LinearClassifier([column], str(tmp_path_factory.mktemp('classifier')))
    estimator.train(input_fn, steps=1)
    return estimator


def predicted(estimator, keys, **more):
    forwarding = contrib.find('estimator.forward_features')(estimator, keys, **more)
    return next(forwarding.predict(input_fn, yield_single_examples=False))


def test_predictions_have_the_features(classifier):
    plain = next(classifier.predict(input_fn, yield_single_examples=False))
    one = predicted(classifier, 'key')
    assert one.keys() == {*plain, 'key'} and one['key'].tolist() == [b'first', b'second']
    np.testing.assert_array_equal(one['logits'], plain['logits'])
    assert predicted(classifier, ['key', 'number'])['number'].tolist() == [7, 8]
    everything = predicted(classifier, None, sparse_default_values={'words': '-'})
    assert everything.keys() == {*plain, *FEATURES, 'words'}
    assert everything['words'].tolist() == [[b'a', b'-'], [b'-', b'b']]


def test_training_and_metrics_go_on(classifier):
    forwarding = contrib.find('estimator.forward_features')(classifier, 'key')
    forwarding = contrib.find('estimator.add_metrics')(
        forwarding, lambda predictions, labels: {'mean': v1.metrics.mean(predictions['logistic'])}
    )
    before = classifier.evaluate(input_fn)
    assert forwarding.evaluate(input_fn).keys() == {*before, 'mean'}
    forwarding.train(input_fn)
    assert classifier.get_variable_value('global_step') == before['global_step'] + 1


def test_exports_have_the_features(classifier, tmp_path):
    def receiver():
        given = {'x': v1.placeholder(tf.float32, [None, 1]), 'key': v1.placeholder(tf.string, [None])}
        return tf.estimator.export.ServingInputReceiver(given, given)

    forwarding = contrib.find('estimator.forward_features')(classifier, 'key')
    served = contrib.find('predictor.from_saved_model')
    folder = forwarding.export_saved_model(str(tmp_path), receiver).decode()
    given = {'x': [[1.0]], 'key': ['it']}
    assert served(folder, signature_def_key='predict')(given)['key'].tolist() == ['it']


@pytest.mark.parametrize(
    'keys, defaults, says',
    [
        ('missing', None, "no feature 'missing'; there are key, number, words, x"),
        ('words', None, "'words' is a SparseTensor"),
        ('key', {'key': ''}, 'for no other'),
    ],
)
def test_what_cannot_be_forwarded(classifier, keys, defaults, says):
    with pytest.raises(ValueError, match=says):
        predicted(classifier, keys, sparse_default_values=defaults)


def test_keys_are_names_and_no_predictions(classifier):
    twice = contrib.find('estimator.forward_features')(classifier, 'key')
    with pytest.raises(ValueError, match="already have 'key'"):
        predicted(twice, 'key')
    with pytest.raises(TypeError, match='a list of names'):
        predicted(classifier, 3)
