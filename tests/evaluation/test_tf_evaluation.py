"""evaluation.evaluation: a process that is killed between any two pieces of an evaluation, and the next one."""

import contextlib
import json
import logging
import os
import shutil
import threading
import types
from unittest import mock

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import early_stopping, evaluation, exporters
from estimator_trainer.run_dir import file_names, metrics_log, ownership
from tests.evaluation.killed_evaluations import LOSSES, FakeEvaluator, Killed, Machine, Run


@pytest.fixture
def machine(monkeypatch):
    machine = Machine()
    for where, name in ((os, 'replace'), (metrics_log.MetricsLog, 'write'), (shutil, 'rmtree')):
        monkeypatch.setattr(where, name, machine.around(getattr(where, name)))
    # A killed process removes nothing any more.
    remove, unlink = exporters.remove_unfinished, os.unlink
    monkeypatch.setattr(exporters, 'remove_unfinished', lambda folder: None if machine.dead else remove(folder))
    monkeypatch.setattr(os, 'unlink', lambda *args, **kwargs: None if machine.dead else unlink(*args, **kwargs))
    return machine


# What one process does: steps of checkpoints, and whether each is the final one.
COURSES = [
    [(20, False)],
    [(20, False), (40, True)],
    [(20, False), (40, False), (40, True)],  # evaluated before training was known to have ended
    [(20, False), (40, False), (60, False)],  # not better than the one before: it stops
]


@pytest.mark.parametrize('course', COURSES)
def test_killed_at_any_moment_and_made_up_for(tmp_path, machine, course):
    undisturbed = Run(tmp_path / 'undisturbed', machine)
    undisturbed.folder.mkdir()
    checkpoints = {step: undisturbed.save(step) for step in sorted({step for step, _ in course})}
    machine.moments = 0
    undisturbed.evaluates(*((checkpoints[step], final) for step, final in course))
    moments, expected = machine.moments, undisturbed.left()
    assert moments > 8 and expected['last'][2] and not expected['final others']

    for kill_at in range(moments):
        run = Run(tmp_path / str(kill_at), machine)
        run.folder.mkdir()
        checkpoints = {step: run.save(step) for step in checkpoints}
        machine.moments, machine.kill_at = 0, kill_at
        process, left = run.process(), list(course)
        with pytest.raises(Killed):
            process.make_up()
            while left:
                step, final = left[0]
                process.evaluate_checkpoint(checkpoints[step], final)
                left.pop(0)
        machine.restarted()
        run.evaluates(*((checkpoints[step], final) for step, final in left))
        run.evaluates()  # and once more
        assert run.left() == expected, f'killed at moment {kill_at} of {moments}'


def test_an_evaluation_that_another_process_holds_is_said_and_taken_over(tmp_path, machine, caplog):
    caplog.set_level(logging.INFO, 'estimator_trainer')
    run = Run(tmp_path, machine)
    run.process().evaluate_checkpoint(run.save(20), final=False)
    process = run.process()
    process.make_up = mock.Mock()
    with ownership.lock(str(tmp_path), file_names.EVALUATOR_LOCK) as other, process.held() as is_ours:
        assert other.take()
        assert not is_ours() and not is_ours()
        said = [record.getMessage() for record in caplog.records if 'evaluates this run' in record.getMessage()]
        assert len(said) == 1 and f'process {os.getpid()}' in said[0]
        process.make_up.assert_not_called()
        other.close()
        assert is_ours() and is_ours()
        process.make_up.assert_called_once()


def test_whoever_asks_for_an_instant_who_evaluates_lets_no_evaluation_be_left_out(tmp_path, machine):
    process = Run(tmp_path, machine).process()
    process.make_up = mock.Mock()
    with ownership.lock(str(tmp_path), file_names.EVALUATOR_LOCK) as other, process.held() as is_ours:
        assert other.take()
        threading.Timer(0.1, other.close).start()
        assert is_ours()


def test_a_failed_export_leaves_no_half_and_is_made_up_for(tmp_path, machine):
    run = Run(tmp_path, machine, metric='auc')  # which the evaluation does not give
    checkpoint = run.save(20)
    with pytest.raises(ValueError, match='auc'):
        run.evaluates((checkpoint, True))
    with pytest.raises(ValueError, match='auc'):
        run.evaluates()
    run.metric = 'loss'  # mended
    run.evaluates()
    left = run.left()
    assert left['lines'] == [(20, 0.5)] and left['best'] == left['final'] == ['model.ckpt-20']


@pytest.fixture
def warnings(caplog):
    return lambda: [
        record.getMessage()
        for record in caplog.records
        if record.name == 'estimator_trainer' and record.levelno >= logging.WARNING
    ]


@pytest.mark.parametrize('kill_at, missing', [(2, 'the evaluation and the exports'), (6, 'the exports')])
def test_a_checkpoint_that_is_gone_cannot_be_made_up_for(tmp_path, machine, warnings, kill_at, missing):
    run = Run(tmp_path, machine)
    first, second = run.save(20), run.save(40)
    machine.moments, machine.kill_at = 0, kill_at
    with pytest.raises(Killed):
        run.evaluates((first, False))
    machine.restarted()
    os.unlink(f'{first}.index')
    run.evaluates((second, True))
    (warning,) = warnings()
    assert f'{missing} of model.ckpt-20' in warning and '\n' not in warning
    assert run.left()['final'] == ['model.ckpt-40'] and run.left()['last'] == (40, True, True)


class TestModelDirsOfEarlierVersions:
    """They have no eval/last.json."""

    @pytest.fixture
    def run(self, tmp_path, machine):
        run = Run(tmp_path, machine)
        run.checkpoint = run.save(40)
        run.evaluates((run.checkpoint, True))
        os.unlink(tmp_path / 'eval/last.json')
        return run

    def test_a_finished_one_is_finished(self, run):
        before = run.left()
        run.evaluates((run.checkpoint, True))
        assert run.left() == {**before, 'eval': ['last.json', 'metrics.jsonl'], 'last': (40, True, True)}

    def test_a_final_export_that_is_missing_is_made(self, run):
        shutil.rmtree(run.folder / 'export/final')
        run.evaluates((run.checkpoint, True))
        assert run.left()['final'] == ['model.ckpt-40'] and run.left()['lines'] == [(40, 0.4)]

    def test_a_checkpoint_that_was_not_evaluated_is(self, run):
        run.evaluates((run.save(60), True))
        assert run.left()['lines'] == [(40, 0.4), (60, 0.6)]


def test_weights_that_are_trained_again_are_evaluated_again(tmp_path, machine):
    run = Run(tmp_path, machine)
    run.evaluates((run.save(40), True))
    run.evaluates((run.save(40), True))  # others
    left = run.left()
    assert left['lines'] == [(40, 0.4)] * 2 and len(left['final']) == 2


def test_a_removed_line_is_written_again(tmp_path, machine):
    run = Run(tmp_path, machine)
    checkpoint = run.save(40)
    run.evaluates((checkpoint, True))
    (tmp_path / 'eval/metrics.jsonl').write_text('')
    run.evaluates((checkpoint, True))
    left = run.left()
    assert left['lines'] == [(40, 0.4)] and left['final'] == ['model.ckpt-40']
    assert json.loads((tmp_path / 'eval/last.json').read_text())['lines'] == 0


@pytest.mark.parametrize(
    'rule, best, said',
    [
        ('acc', 'loss', r'--stop_metric=acc: .*did you mean accuracy\?.* It has: accuracy, loss\.'),
        (None, 'auc', r"best_metric='auc': .* It has: accuracy, loss\."),
        ('accuracy', 'accuracy', None),
        (None, 'loss', None),
    ],
)
def test_metrics_that_do_not_exist(tmp_path, machine, rule, best, said):
    exports = exporters.Exports(
        str(tmp_path), exporters.make(('best',), types.SimpleNamespace(best_metric=best, best_mode='min'), lambda: None)
    )
    rule = rule and early_stopping.EarlyStopping(rule, 'max', 1)
    found = evaluation.Evaluation(str(tmp_path), lambda: FakeEvaluator(machine), exports, rule)
    with pytest.raises(UsageError, match=said) if said else contextlib.nullcontext():
        found.check_early()


def test_said_once_and_known_again(tmp_path, machine, caplog):
    caplog.set_level(logging.INFO)
    run = Run(tmp_path, machine)
    checkpoints = [run.save(step) for step in (20, 40, 60)]
    run.evaluates(*((checkpoint, False) for checkpoint in checkpoints), (checkpoints[-1], True))
    assert len([record for record in caplog.records if record.getMessage().startswith('early stopping:')]) == 1
    again = run.process()
    again.make_up()
    again.evaluate_checkpoint(checkpoints[-1], True)
    assert again.results == {60: {'loss': LOSSES[60]}}


def test_metrics_that_are_not_finite_have_a_warning(tmp_path, machine, caplog, monkeypatch):
    monkeypatch.setitem(LOSSES, 40, float('nan'))
    run = Run(tmp_path, machine)
    run.evaluates(*((run.save(step), False) for step in (20, 40)))
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(said) == 1 and said[0].startswith('WARNING: evaluation at step 40: loss is not finite. Look at')
    assert said[0].endswith('This checkpoint will not be export/best.')


def test_what_has_learnt_nothing_is_not_the_best(tmp_path, machine, monkeypatch):
    monkeypatch.setitem(LOSSES, 0, 0.1)
    run = Run(tmp_path, machine)
    run.evaluates((run.save(0), False))
    assert run.left()['best'] == []
    run.evaluates((run.save(20), False))
    assert run.left()['best'] == ['model.ckpt-20']


def test_evaluations_on_other_data_are_not_compared(tmp_path, machine, monkeypatch, caplog):
    run = Run(tmp_path, machine)
    checkpoints = {step: run.save(step) for step in (20, 40)}
    monkeypatch.setitem(LOSSES, 20, 0.1)
    run.evaluates((checkpoints[20], False), data='easy')
    monkeypatch.setitem(LOSSES, 20, 0.9)
    monkeypatch.setitem(LOSSES, 40, 0.5)
    run.evaluates((checkpoints[20], False), (checkpoints[40], False), data='hard')
    left = run.left()
    assert left['lines'] == [(20, 0.1), (20, 0.9), (40, 0.5)]  # the finished one was evaluated again
    assert left['best_json'] == (40, 0.5) and left['stop'] == {}
    assert caplog.text.count('the evaluation data or --eval_steps have changed') == 1
    run.evaluates((checkpoints[40], False), data='hard')
    assert len(run.left()['lines']) == 3


def test_what_an_earlier_version_has_evaluated_counts(tmp_path, machine):
    """It did not write on which data."""
    run = Run(tmp_path, machine)
    checkpoint = run.save(20)
    run.evaluates((checkpoint, False))
    path = tmp_path / file_names.LAST_EVALUATION
    entry = json.loads(path.read_text())
    del entry['data'], entry['since']
    path.write_text(json.dumps(entry))
    run.evaluates((checkpoint, False), data='new')
    assert len(run.left()['lines']) == 1
