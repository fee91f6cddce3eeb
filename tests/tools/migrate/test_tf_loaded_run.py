"""The batch on which `migrate` and `parity` try a model."""

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.errors import UsageError
from estimator_trainer.tools.migrate import loaded_run

DATA = tf.data.Dataset.from_tensor_slices(({'x': np.arange(5, dtype=np.float32)}, np.zeros(5)))


def test_the_features_of_the_first_batch_are_arrays():
    found = loaded_run.first_features(DATA.batch(2), 'runs/two')
    assert found['x'].tolist() == [0.0, 1.0] and isinstance(found['x'], np.ndarray)


@pytest.mark.parametrize(
    'given, says',
    [
        (DATA.batch(64, drop_remainder=True), 'gives no batch for evaluation'),
        (lambda: DATA, 'returns a function for evaluation and no tf.data.Dataset'),
        (None, 'returns nothing for evaluation and no tf.data.Dataset'),
    ],
)
def test_an_input_fn_without_a_batch_is_refused_in_a_sentence(given, says):
    with pytest.raises(UsageError, match=f'^--model_dir=runs/two: the input_fn of its job {says}'):
        loaded_run.first_features(given, 'runs/two')
