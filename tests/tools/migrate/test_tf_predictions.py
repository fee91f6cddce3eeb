"""How far predictions of two forms of a model are apart."""

import numpy as np
import pytest

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


def test_other_names_are_no_predictions_of_the_same_model():
    assert predictions.largest_difference({'a': np.zeros(1)}, {'b': np.zeros(1)}) == np.inf
