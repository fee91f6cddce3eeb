"""early_stopping: a function of the evaluations, written down once."""

import dataclasses
import json
import os

import pytest

from estimator_trainer.evaluation import early_stopping
from estimator_trainer.evaluation.early_stopping import Rule


def lines(*values, metric='loss'):
    """Evaluations at steps 10, 20, ..."""
    return [{'kind': 'eval', 'step': 10 * number, 'time': 1.0, metric: value} for number, value in enumerate(values, 1)]


@pytest.mark.parametrize(
    'mode, patience, min_delta, values, stop',
    [
        ('min', 2, 0, [], None),
        ('min', 2, 0, [5], None),
        ('min', 2, 0, [5, 4, 3, 2], None),
        ('min', 2, 0, [5, 6], None),
        ('min', 2, 0, [5, 6, 7], (30, 5, 10)),
        ('min', 2, 0, [5, 6, 4, 6], None),
        ('min', 2, 0, [5, 6, 4, 6, 5], (50, 4, 30)),
        ('min', 2, 0, [5, 5, 5], (30, 5, 10)),  # equal is no better
        ('min', 1, 0, [5, 4, 5], (30, 4, 20)),
        ('max', 2, 0, [1, 2, 3, 4], None),
        ('max', 2, 0, [4, 3, 3.9], (30, 4, 10)),
        ('max', 2, 0, [-3, -2, -2.5], None),
        ('min', 2, 0.5, [5, 4.6, 4.5], (30, 5, 10)),  # more than min_delta is needed, of the best one
        ('min', 2, 0.5, [5, 4.6, 4.4], None),
        ('max', 2, 0.5, [5, 5.4, 5.5], (30, 5, 10)),
        ('max', 2, 0.5, [5, 5.4, 5.6], None),
        ('min', 2, 0, [None, None], (20, None, None)),
        ('min', 2, 0, [None, 5, None, 4], None),
        ('min', 2, 0, [5, None, None], (30, 5, 10)),
        ('max', 2, 0, [0, None, 0], (30, 0, 10)),
    ],
)
def test_when_to_stop(mode, patience, min_delta, values, stop):
    rule = Rule('loss', mode, patience, min_delta)
    verdict = rule.verdict(lines(*values))
    if stop is None:
        assert verdict is None
    else:
        step, best, best_step = stop
        assert verdict == {
            'metric': 'loss',
            'mode': mode,
            'patience': patience,
            'min_delta': min_delta,
            'step': step,
            'best': best,
            'best_step': best_step,
        }


RULE = Rule('loss', 'min', 2)
STOP = lines(5, 6, 7)


def test_of_two_evaluations_of_a_step_the_last_one_counts():
    assert RULE.verdict(lines(5, 6) + [{'step': 20, 'loss': 9}]) is None
    assert RULE.verdict(STOP + [{'step': 20, 'loss': 4}]) is None
    assert RULE.verdict(lines(5, 4, 6) + [{'step': 20, 'loss': 5.5}])['best_step'] == 10


def test_evaluations_come_in_any_order():
    assert RULE.verdict(STOP[::-1]) == RULE.verdict(STOP)


def test_a_metric_that_the_evaluation_does_not_give():
    with pytest.raises(ValueError, match=r'--stop_metric=auc: .* it has accuracy, loss\.'):
        Rule('auc', 'max', 2).verdict([{**STOP[0], 'accuracy': 1}])


def test_decided_once_and_kept(tmp_path):
    (tmp_path / 'eval').mkdir()
    model_dir = str(tmp_path)
    assert not early_stopping.decided(RULE, model_dir)
    assert early_stopping.decide(RULE, STOP[:2], model_dir) is None
    assert os.listdir(tmp_path / 'eval') == [] and not early_stopping.decided(RULE, model_dir)
    verdict = early_stopping.decide(RULE, STOP, model_dir)
    assert verdict == RULE.verdict(STOP)
    assert json.loads((tmp_path / 'eval' / 'stop.json').read_text()) == verdict
    assert early_stopping.decided(RULE, model_dir)
    assert os.listdir(tmp_path / 'eval') == ['stop.json']


@pytest.mark.parametrize('other', [{'metric': 'accuracy'}, {'mode': 'max'}, {'patience': 3}, {'min_delta': 0.1}])
def test_another_rule_has_decided_nothing(tmp_path, other):
    (tmp_path / 'eval').mkdir()
    early_stopping.decide(RULE, STOP, str(tmp_path))
    assert not early_stopping.decided(dataclasses.replace(RULE, **other), str(tmp_path))


@pytest.mark.parametrize('text', ['', '{"metric": "lo', '[]', '{}', 'null', '\xff'])
def test_a_file_that_is_none_decides_nothing(tmp_path, text):
    (tmp_path / 'eval').mkdir()
    (tmp_path / 'eval' / 'stop.json').write_bytes(text.encode('latin-1'))
    assert not early_stopping.decided(RULE, str(tmp_path))


def test_somebody_outside_ends_the_training(tmp_path):
    rule = early_stopping.Rule('accuracy', 'max', 3)
    (tmp_path / 'eval').mkdir()
    early_stopping.end_from_outside(rule, tmp_path, 20, 'pruned')
    assert early_stopping.decided(rule, tmp_path)
    assert not early_stopping.decided(early_stopping.Rule('loss', 'min', 3), tmp_path)
