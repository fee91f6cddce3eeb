"""evaluation.estimator_evaluator: every export has serving_default, and nothing else changes."""

import logging

import pytest
import tensorflow as tf

from estimator_trainer.evaluation import estimator_evaluator

export = tf.estimator.export
DEFAULT = estimator_evaluator.DEFAULT
COLUMN = tf.feature_column.numeric_column('x', shape=(2,))


def raw():
    x = tf.compat.v1.placeholder(tf.float32, [None, 2], name='x')
    return export.ServingInputReceiver({'x': x}, {'x': x})


parsed = export.build_parsing_serving_input_receiver_fn(tf.feature_column.make_parse_example_spec([COLUMN]))


@pytest.fixture(scope='module')
def canned(tmp_path_factory):
    """A trained DNNClassifier."""
    folder = str(tmp_path_factory.mktemp('canned'))
    estimator = tf.estimator.DNNClassifier([2], [COLUMN], model_dir=folder)
    data = lambda: tf.data.Dataset.from_tensors(({'x': [[1.0, 2.0]]}, [1]))  # noqa: E731
    return estimator.train(data, steps=1)


@pytest.mark.parametrize(
    'receiver, method, others',
    [(raw, 'predict', {'predict'}), (parsed, 'classify', {'predict', 'classification', 'regression'})],
)
def test_the_signatures_of_a_canned_estimator(canned, tmp_path, caplog, receiver, method, others):
    with caplog.at_level(logging.WARNING):
        path = estimator_evaluator.EstimatorEvaluator(canned, None).export_saved_model(str(tmp_path), receiver)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        signatures = tf.compat.v1.saved_model.load(session, ['serve'], path.decode()).signature_def
    assert set(signatures) == {DEFAULT, *others}
    assert signatures[DEFAULT].method_name == f'tensorflow/serving/{method}'
    assert 'no default signature' not in caplog.text
    if receiver is raw:
        assert signatures[DEFAULT] == signatures['predict']


def outputs(**more):
    tensor = tf.constant([[1.0]])
    made = {
        'predict': export.PredictOutput({'p': tensor}),
        'classify': export.ClassificationOutput(scores=tensor),
        'regress': export.RegressionOutput(value=tensor),
    }
    return {name: made[kind] for name, kind in more.items()}


@pytest.mark.parametrize(
    'given, tensors',
    [
        ({DEFAULT: 'classify', 'predict': 'predict'}, {'p'}),
        ({DEFAULT: 'regress', 'other': 'predict'}, {'p'}),
        ({DEFAULT: 'classify'}, {'scores'}),
        ({DEFAULT: 'regress'}, {'outputs'}),
        ({'a': 'regress', 'b': 'classify'}, None),
    ],
)
def test_what_becomes_the_default_of_raw_receivers(caplog, given, tensors):
    with tf.Graph().as_default(), caplog.at_level(logging.WARNING, 'estimator_trainer'):
        before = outputs(**given)
        after = estimator_evaluator.with_default_signature({'x': tf.constant([1.0])}, before)
        assert {name: after[name] for name in before if name != DEFAULT} == {
            name: before[name] for name in before if name != DEFAULT
        }
        if tensors is None:
            assert DEFAULT not in after and caplog.text.count('the export has no signature serving_default') == 1
        else:
            assert set(after[DEFAULT].outputs) == tensors and not caplog.text


def test_a_default_that_the_receivers_can_have_stays():
    with tf.Graph().as_default():
        given = outputs(**{DEFAULT: 'classify', 'predict': 'predict'})
        assert estimator_evaluator.with_default_signature(tf.constant(['a']), given) is given
