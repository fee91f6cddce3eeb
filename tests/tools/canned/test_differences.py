"""How far numbers are apart."""

import math

import numpy as np

from estimator_trainer.tools.migrate.canned.in_keras_3 import differences


def test_no_number_is_never_taken_for_a_small_difference():
    assert math.isnan(differences.greatest({'classes': 0.0, 'logits': math.nan, 'probabilities': 1.0}))
    assert math.isnan(differences.relative(np.array([1.0, 2.0]), np.array([math.nan, 2.0])))
    assert differences.greatest({'classes': 0.0, 'logits': 2.0}) == 2.0
    assert differences.greatest({}) is None


def test_large_numbers_are_compared_by_their_size():
    prices = np.array([200_000.0, 350_000.0], np.float32)
    assert differences.relative(prices, prices + np.float32(0.03125)) < 1e-6
    assert differences.relative(prices, prices + 35) > 9e-5
    assert differences.relative(np.array([0.5]), np.array([0.25])) == 0.25


def test_texts_are_counted():
    assert differences.relative(np.array([b'a', b'b'], object), np.array([b'a', b'c'], object)) == 1
    assert differences.relative(np.zeros([2]), np.zeros([2, 1])) == math.inf
