"""training.early_stop_messages: what a run says at its start and end of the rule by which it stops early."""

import json

import pytest

from estimator_trainer.config.trainer_config import parse
from estimator_trainer.jobs import Job
from estimator_trainer.training import early_stop_messages, messages
from estimator_trainer.training import plan as planning

JOB = Job(model_fn=lambda features: None, input_fn=lambda: None, best_metric='accuracy')
WITH_EVALUATOR = {'worker': ['a:1'], 'evaluator': ['b:1']}


def planned(tmp_path, *flags, cluster=None, role='worker'):
    config = parse(['trainer', f'--model_dir={tmp_path}', '--max_steps=1000', '--stop_metric=accuracy', *flags])
    task = {'cluster': cluster, 'task': {'type': role, 'index': 0}}
    plan = planning.make(config, {'TF_CONFIG': json.dumps(task)} if cluster else {})
    return planning.dataclasses.replace(plan, job=JOB)


@pytest.mark.parametrize(
    'flags, cluster, said',
    [
        ([], None, 'each checkpoint is evaluated (every 600 s)'),
        (['--save_checkpoints_steps=50'], None, 'each checkpoint is evaluated (every 50 steps)'),
        (['--eval_throttle_secs=60'], None, 'a checkpoint (every 600 s) is evaluated at most every 60 s'),
        ([], WITH_EVALUATOR, 'the evaluator evaluates each checkpoint that it can (every 600 s)'),
    ],
)
def test_how_often_the_rule_is_looked_at(flags, cluster, said, tmp_path):
    plan = planned(tmp_path, *flags, cluster=cluster)
    rule = 'when accuracy (higher is better) has not improved for 3 evaluations in a row; '
    assert early_stop_messages.stop_rule(plan) == rule + said


def test_flags_of_a_rule_that_is_not_there_are_named(tmp_path):
    plan = planned(tmp_path, '--stop_metric=', '--stop_patience=5', '--stop_mode=min')
    assert early_stop_messages.unused_flags(plan.config) == ['--stop_mode=min', '--stop_patience=5']
    assert any('--stop_patience=5 does nothing without --stop_metric' in line for line in messages.plan_lines(plan, ''))
    assert early_stop_messages.unused_flags(planned(tmp_path, '--stop_patience=5').config) == []


@pytest.mark.parametrize(
    'changes, flags, words',
    [
        ({}, [], "; export/best goes by another metric, the job's best_metric loss"),
        ({'best_metric': 'accuracy'}, [], ''),
        ({}, ['--export=final'], ''),
        ({'serving_input_fn': None}, [], ''),  # nothing is exported
    ],
)
def test_another_metric_than_that_of_the_best_export_is_named(changes, flags, words, tmp_path):
    job = planning.dataclasses.replace(JOB, **{'best_metric': 'loss', 'serving_input_fn': lambda: None} | changes)
    plan = planning.dataclasses.replace(planned(tmp_path, *flags), job=job)
    assert early_stop_messages.stop_rule(plan).endswith('each checkpoint is evaluated (every 600 s)' + words)


def test_the_throttle_is_off_with_a_rule_and_only_then(tmp_path):
    assert planned(tmp_path).config.throttle_secs == 0
    assert planned(tmp_path, '--stop_metric=').config.throttle_secs == 600
    assert planned(tmp_path, '--eval_throttle_secs=600').config.throttle_secs == 600
    assert 'evaluation: by this process, of each checkpoint, and at the end' in messages.describe(planned(tmp_path))


@pytest.mark.parametrize(
    'flags, words',
    [
        ([], None),  # nobody knows how long it takes
        (['--save_checkpoints_steps=200'], None),  # 200, 400, 600, 800
        (['--save_checkpoints_steps=250'], '--save_checkpoints_steps=250 gives 3 in 1,000 steps'),
        (['--save_checkpoints_steps=250', '--stop_patience=2'], None),
        (['--max_secs=300'], '--save_checkpoints_secs=600 gives 0 in --max_secs=300'),
        (['--max_secs=3000'], None),
        (
            ['--save_checkpoints_steps=10', '--eval_throttle_secs=120', '--max_secs=300'],
            '--eval_throttle_secs=120 gives 2 in --max_secs=300',
        ),
        (['--save_checkpoints_steps=10', '--max_secs=300'], None),
        (['--save_checkpoints_steps=250', '--stop_metric='], None),
    ],
)
def test_a_rule_that_cannot_end_the_run(flags, words, tmp_path):
    found = early_stop_messages.stop_warning(planned(tmp_path, *flags), 1000)
    assert (found is None) == (words is None)
    if words:
        assert words in found
        assert found.startswith('--stop_metric=accuracy cannot end this run early: --stop_patience=3 needs 4 evaluat')


def test_steps_that_are_not_known(tmp_path):
    assert early_stop_messages.stop_warning(planned(tmp_path, '--save_checkpoints_steps=250'), None) is None


@pytest.mark.parametrize(
    'flags, cluster, evaluated, words',
    [
        ([], None, [1000], 'needs 4 evaluations, and there were 1; save more often than every 600 s'),
        ([], None, [300, 600, 600, 1000], 'there were 3'),
        ([], None, [300, 600, 900, 1000], None),
        (['--stop_patience=1'], None, [300, 1000], None),
        (['--save_checkpoints_steps=250'], None, [1000], None),  # it was said at the start
        ([], WITH_EVALUATOR, [1000], None),  # which may be behind
        (['--stop_metric='], None, [1000], None),
    ],
)
def test_a_rule_that_hadtoo_few_evaluations_is_told_at_the_end(flags, cluster, evaluated, words, tmp_path):
    lines = [{'step': step, 'accuracy': 0.5} for step in evaluated] + [{'step': 7, 'loss': 1.0}]  # of another job
    said = early_stop_messages.too_few_evaluations(planned(tmp_path, *flags, cluster=cluster), lines, 1000)
    assert said is None if words is None else words in said
