"""pandas_input_fn takes columns of strings of every version of pandas."""

import numpy as np
import pytest
import tensorflow as tf

pandas = pytest.importorskip('pandas')
v1 = tf.compat.v1
WORDS = ['b', 'a', 'b']


def frame(words):
    return pandas.DataFrame({'age': [1.0, 2.0, 3.0], 'word': words, 'other': [4, 5, 6]})


def batch(x, y=None):
    with tf.Graph().as_default():
        read = v1.estimator.inputs.pandas_input_fn(x, y, batch_size=3, shuffle=False)()
        with v1.train.MonitoredSession() as session:
            return session.run(read)


@pytest.mark.parametrize('dtype', [object, None, 'string'])
def test_strings_of_features_and_labels(dtype):
    x, y = frame(pandas.Series(WORDS, dtype=dtype)), pandas.Series(WORDS, dtype=dtype)
    features, labels = batch(x, y)
    assert list(features) == ['age', 'word', 'other'] and features['other'].dtype == np.int64
    assert features['word'].tolist() == labels.tolist() == [b'b', b'a', b'b'] and features['age'].tolist() == [1, 2, 3]
    features, labels = batch(x, pandas.DataFrame({'word': y}))
    assert labels['word'].tolist() == [b'b', b'a', b'b']
    assert isinstance(x['word'].dtype, pandas.StringDtype) == isinstance(y.dtype, pandas.StringDtype)  # as it was


def test_an_index_of_strings():
    assert batch(frame(WORDS).set_axis(['p', 'q', 'r'], axis=0))['word'].tolist() == [b'b', b'a', b'b']
