"""The text of dataset.py; what it computes is tested with TensorFlow."""

import ast

import pytest

from estimator_trainer.tools.migrate.canned import dataset_file


def feature(dtype, shape=None, default=None):
    """Of `shape` None there may be any number in a tf.Example, as of categories."""
    return {'dtype': dtype, 'parsed': {'dtype': dtype, 'shape': shape, 'default': default}}


FEATURES = {
    'age': feature('float32', []),
    'point': feature('float32', [3], [0.0, 1.5, -1.0]),
    'pair': feature('int64', [2]),
    'rooms': feature('int64', [1], [3]),
    'city': feature('string'),
    'words': feature('string'),
    'zip': feature('int64'),
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


def test_how_each_feature_is_parsed():
    lines = text()
    assert "'age': tf.io.FixedLenFeature([], tf.float32)," in lines
    assert "'point': tf.io.FixedLenFeature([3], tf.float32, [0.0, 1.5, -1.0])," in lines
    assert "'pair': tf.io.FixedLenFeature([2], tf.int64)," in lines
    assert "'rooms': tf.io.FixedLenFeature([1], tf.int64, [3])," in lines
    for name, dtype in (('city', 'string'), ('words', 'string'), ('zip', 'int64')):
        assert f"'{name}': tf.io.VarLenFeature(tf.{dtype})," in lines


def test_weights_and_labels_are_there_where_the_head_has_them():
    assert 'features[WEIGHT]' not in text() and 'features[WEIGHT]' in text(weight='w')
    assert 'tf.equal' not in text() and 'tf.equal' in text(vocabulary=['no', 'yes'])
    assert 'tf.int64)' in text('multi_class', 3) and '[-1, 3]' in text('regression', 3)
