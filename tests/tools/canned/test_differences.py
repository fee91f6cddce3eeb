"""How far numbers are apart."""

import math
import types

import numpy as np
import pytest

from estimator_trainer.tools.migrate.canned import canned_migration, conversion
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


@pytest.mark.parametrize(
    'rows, expected', [(None, 2.0), ([True, False], 0.0), ([False, True], 2.0), ([False, False], None)]
)
def test_where_no_example_counts_nothing_is_compared(rows, expected):
    one, other = {'logits': np.array([1.0, 0.5])}, {'logits': np.array([1.0, 2.5])}
    found = differences.by_name(one, other, None if rows is None else np.array(rows))
    assert differences.greatest(found) == expected


def test_an_export_that_was_not_compared_is_told(tmp_path, monkeypatch, capsys):
    report = {
        **dict(variables=[1], kind='DNNRegressor', left_over=[], metrics_left_out=[], step=3, keras='3.13'),
        'differences': {'predictions': 0.0, 'evaluation': 0.0, 'steps': None},
        'reloaded': {'saved_model, on tensors': None},
    }
    monkeypatch.setattr(conversion, 'migrate', lambda *args: report)
    source = types.SimpleNamespace(checkpoint='model.ckpt-3')
    assert canned_migration.migrate(source, str(tmp_path), '', lambda text: text) == 0
    printed = capsys.readouterr().out
    assert "that has Keras 3 alone,: not compared, as every example has a value, '' or -1" in printed
    assert 'steps: not compared, as dropout draws random numbers' in printed
