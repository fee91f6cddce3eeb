"""The text of dataset.py; what it computes is tested with TensorFlow."""

import ast

import pytest

from estimator_trainer.tools.migrate.canned import dataset_file

FEATURES = {
    'age': {'dtype': 'float32', 'shape': [], 'sparse': False, 'may_be_missing': False},
    'point': {'dtype': 'float64', 'shape': [3], 'sparse': False, 'may_be_missing': False},
    'city': {'dtype': 'string', 'shape': [], 'sparse': False, 'may_be_missing': True},
    'pair': {'dtype': 'int32', 'shape': [2], 'sparse': False, 'may_be_missing': True},
    'words': {'dtype': 'string', 'shape': [None], 'sparse': True, 'may_be_missing': True},
    'padded': {'dtype': 'string', 'shape': [None], 'sparse': False, 'may_be_missing': True},
}


def text(kind='binary', units=1, vocabulary=None, weight=None, features=FEATURES, sparse=False):
    head = {'kind': kind, 'label_vocabulary': vocabulary, 'weight_column': weight}
    return dataset_file.text({'features': features, 'head': head, 'units': units, 'labels_are_sparse': sparse})


@pytest.mark.parametrize('kind', ['binary', 'multi_class', 'multi_label', 'regression', 'poisson'])
@pytest.mark.parametrize('vocabulary', [None, ['a', 'b"', "c'"]])
@pytest.mark.parametrize('weight', [None, "w'"])
@pytest.mark.parametrize('sparse', [False, True])
def test_it_is_python(kind, vocabulary, weight, sparse):
    assert ast.parse(text(kind, 3, vocabulary, weight, sparse=sparse)).body


@pytest.mark.parametrize(
    'dtype, parsed',
    [('bool', 'int64'), ('int16', 'int64'), ('uint32', 'int64'), ('float16', 'float32'), ('bfloat16', 'float32')],
)
def test_tf_example_has_three_dtypes(dtype, parsed):
    one = {'dtype': dtype, 'shape': [], 'sparse': False, 'may_be_missing': False}
    assert f'FixedLenFeature([], tf.{parsed})' in text(features={'x': one})


def test_how_each_feature_is_parsed():
    found = text()
    assert "'age': tf.io.FixedLenFeature([], tf.float32)," in found
    assert "'point': tf.io.FixedLenFeature([3], tf.float32)," in found  # tf.Example has no other
    assert "'city': tf.io.FixedLenFeature([], tf.string, '')," in found
    assert "'pair': tf.io.FixedLenFeature([2], tf.int64, [-1, -1])," in found
    assert "'words': tf.io.VarLenFeature(tf.string)," in found
    assert "'padded': tf.io.VarLenFeature(tf.string)," in found
    assert "PADDED = {'padded': ''}" in found


def test_weights_and_labels_are_there_where_the_head_has_them():
    assert 'features[WEIGHT]' not in text() and 'features[WEIGHT]' in text(weight='w')
    assert 'tf.equal' not in text() and 'tf.equal' in text(vocabulary=['no', 'yes'])
    assert 'tf.int64)' in text('multi_class', 3) and '[-1, 3]' in text('regression', 3)
