"""early_stopping: a function of the evaluations, written down once."""

import dataclasses
import json
import os

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import early_stopping
from estimator_trainer.evaluation.early_stopping import EarlyStopping
from tests import fakes


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
    rule = EarlyStopping('loss', mode, patience, min_delta)
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


RULE = EarlyStopping('loss', 'min', 2)
STOP = lines(5, 6, 7)


def test_of_two_evaluations_of_a_step_the_last_one_counts():
    assert RULE.verdict(lines(5, 6) + [{'step': 20, 'loss': 9}]) is None
    assert RULE.verdict(STOP + [{'step': 20, 'loss': 4}]) is None
    assert RULE.verdict(lines(5, 4, 6) + [{'step': 30, 'loss': 3.5}]) is None


def test_evaluations_of_an_earlier_start_may_lack_the_metric():
    rule = EarlyStopping('auc', 'max', 1)
    assert rule.verdict(STOP) is None
    later = [{**line, 'step': 100 + line['step']} for line in lines(0.5, 0.4, metric='auc')]
    assert rule.verdict(STOP + later)['best_step'] == 110


def config(metric, mode=None):
    return fakes.config(stop_metric=metric, stop_mode=mode, stop_patience=2)


@pytest.mark.parametrize(
    'metric, flag, best, mode',
    [
        ('accuracy', None, ('loss', 'min'), 'max'),  # as its name says
        ('loss', None, ('accuracy', 'max'), 'min'),
        ('fairness', None, ('fairness', 'max'), 'max'),  # as the job says
        ('accuracy', None, ('accuracy', 'min'), 'min'),
        ('accuracy', 'min', ('accuracy', 'max'), 'min'),  # as the flag says
        ('fairness', 'min', ('loss', 'min'), 'min'),
    ],
)
def test_whether_lower_or_higher_is_better(metric, flag, best, mode):
    assert early_stopping.rule_of(config(metric, flag), *best) == EarlyStopping(metric, mode, 2)


def test_a_metric_of_which_nobody_says_it():
    with pytest.raises(UsageError, match=r'--stop_metric=fairness: .*--stop_mode=min or --stop_mode=max'):
        early_stopping.rule_of(config('fairness'), 'loss', 'min')
    with pytest.raises(UsageError, match=r'--stop_metric=acuracy \(did you mean accuracy\?\): '):
        early_stopping.rule_of(config('acuracy'), '', None)
    assert early_stopping.rule_of(config(''), 'loss', 'min') is None


def test_a_metric_that_improves_does_not_stop_the_run():
    rule = early_stopping.rule_of(config('accuracy'), 'loss', 'min')
    assert rule.verdict(lines(0.824, 0.910, 0.934, 0.946, metric='accuracy')) is None
    verdict = rule.verdict(lines(0.824, 0.910, 0.9, 0.9, metric='accuracy'))
    assert early_stopping.sentence(verdict) == (
        'accuracy (higher is better) has not improved on 0.91 of step 20 in 2 evaluations in a row'
    )


def test_decided_once_and_kept(tmp_path):
    (tmp_path / 'eval').mkdir()
    model_dir = str(tmp_path)
    assert not early_stopping.decision(RULE, model_dir)
    assert early_stopping.decide(RULE, STOP[:2], model_dir) is None
    assert os.listdir(tmp_path / 'eval') == [] and not early_stopping.decision(RULE, model_dir)
    verdict = early_stopping.decide(RULE, STOP, model_dir)
    assert verdict == RULE.verdict(STOP)
    assert json.loads((tmp_path / 'eval' / 'stop.json').read_text()) == verdict
    assert early_stopping.decision(RULE, model_dir)
    assert os.listdir(tmp_path / 'eval') == ['stop.json']


def test_an_evaluation_whose_loss_is_not_finite_is_never_the_best():
    lines = [{'step': 10, 'auc': 0.9, 'loss': None}, {'step': 20, 'auc': 0.5, 'loss': 1.0}, {'step': 30, 'auc': 0.4}]
    assert EarlyStopping('auc', 'max', 1).verdict(lines[:1])['best'] is None
    assert EarlyStopping('auc', 'max', 2).verdict(lines) is None


@pytest.mark.parametrize('other', [{'metric': 'accuracy'}, {'mode': 'max'}, {'patience': 3}, {'min_delta': 0.1}])
def test_another_rule_has_decided_nothing(tmp_path, other):
    (tmp_path / 'eval').mkdir()
    early_stopping.decide(RULE, STOP, str(tmp_path))
    assert not early_stopping.decision(dataclasses.replace(RULE, **other), str(tmp_path))


def test_what_was_decided_on_other_data_counts_for_these_no_more(tmp_path):
    (tmp_path / 'eval').mkdir()
    early_stopping.decide(RULE, STOP, str(tmp_path), 'a.csv')
    stops = [bool(early_stopping.decision(RULE, str(tmp_path), data)) for data in ('a.csv', 'b.csv', '')]
    assert stops == [True, False, True]
    early_stopping.decide(RULE, STOP, str(tmp_path))  # of an earlier state: it does not say
    assert early_stopping.decision(RULE, str(tmp_path), 'b.csv')


@pytest.mark.parametrize('text', ['', '{"metric": "lo', '[]', '{}', 'null', '\xff'])
def test_a_file_that_is_none_decides_nothing(tmp_path, text):
    (tmp_path / 'eval').mkdir()
    (tmp_path / 'eval' / 'stop.json').write_bytes(text.encode('latin-1'))
    assert not early_stopping.decision(RULE, str(tmp_path))


def test_somebody_outside_ends_the_training(tmp_path):
    rule = early_stopping.EarlyStopping('accuracy', 'max', 3)
    (tmp_path / 'eval').mkdir()
    early_stopping.end_from_outside(rule, tmp_path, 20, 'pruned')
    assert early_stopping.decision(rule, tmp_path)
    assert not early_stopping.decision(early_stopping.EarlyStopping('loss', 'min', 3), tmp_path)


def test_evaluations_of_a_training_that_was_given_up_do_not_count():
    """Somebody has gone back to the checkpoint of step 10, and trains on from there, past where that one ended."""
    again = [*STOP, {'kind': 'eval', 'step': 15, 'loss': 5.5}]
    assert RULE.verdict(again) is None
    assert RULE.verdict([*again, {'step': 40, 'loss': 4.5}]) is None
    assert RULE.verdict([*again, {'step': 40, 'loss': 5.1}])['step'] == 40
