"""One trial of a sweep: its command, what is reported of it to Optuna, and how it ended."""

import os
from multiprocessing import connection

import pytest

from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.this_process.child_process import PIPE, Child
from estimator_trainer.tools.sweep import targets
from estimator_trainer.tools.sweep import trial_runner as runs
from estimator_trainer.tools.sweep.sweep_command import SweepFlags
from estimator_trainer.tools.sweep.sweep_report import Trial
from estimator_trainer.tools.sweep.trial_runner import Evaluation, RunningTrial
from tests.processes import gone, until

studies = pytest.importorskip('estimator_trainer.tools.sweep.study', reason='needs Optuna', exc_type=ImportError)
from tests.tools.sweep.test_trial_runner import PARAMETERS, PLAN, line  # noqa: E402


def under_way(child=None, model_dir=''):
    return RunningTrial(Trial(1, 'running', str(model_dir), {}), child)


def never(at, value):
    return False


def test_of_several_lines_of_a_step_the_last_one_counts():
    lines = [line(20, 0.5), line(10, 0.25), line(20, 0.75), line(30, None), line(40, float('inf'))]
    assert under_way().judge(lines, 'accuracy', 40, never) == [(10, 0.25), (20, 0.75), (30, None), (40, None)]


@pytest.mark.parametrize(
    'metric, said', [('auc', '--metric=auc: .* it has accuracy, loss'), ('loss', 'no single number')]
)
def test_a_metric_that_cannot_be(metric, said):
    with pytest.raises(UsageError, match=said):
        under_way().judge([line(1, 0.5, loss=[0.5, 0.25])], metric, 40, never)


@pytest.mark.parametrize('step, max_steps, at', [(50, 100, 500), (100, 200, 500), (0, 100, 0), (101, 100, 1000)])
def test_trials_with_other_batches_are_compared_at_the_same_part_of_their_training(step, max_steps, at):
    reported = []
    under_way().judge([line(step, 0.5)], 'accuracy', max_steps, lambda *said: reported.append(said))
    assert reported == [(at, 0.5)]


@pytest.mark.parametrize('at_once', [True, False])
def test_the_decision_does_not_depend_on_when_one_looks(at_once):
    reported = []

    def report(at, value):
        reported.append((at, value))
        return value < 0.3

    running, lines = under_way(), [line(10, 0.5), line(20, 0.25), line(30, 0.9), line(40, 0.1)]
    for seen in [4] if at_once else [1, 1, 2, 3, 4]:
        running.judge(lines[:seen], 'accuracy', 40, report)
    assert running.is_pruned and running.last == (20, 0.25)
    assert reported == [(250, 0.5), (500, 0.25)]


def test_the_last_evaluation_prunes_nothing():
    running = under_way()
    assert running.judge([line(40, 0.1)], 'accuracy', 40, lambda at, value: True) == [(40, 0.1)]
    assert not running.is_pruned and running.last == (40, 0.1)


def test_what_is_not_finite_is_not_reported():
    running = under_way()
    running.judge([line(10, None)], 'accuracy', 40, lambda at, value: pytest.fail('reported'))
    assert running.last == (10, None) and not running.is_pruned


def shell(script):
    return Child(['sh', '-c', script], stdout=PIPE, stderr=PIPE)


def end_of(running):
    """Its exit code, once it has ended."""
    while (code := running.exit_code()) is None:
        connection.wait(running.child.open_pipes, 0.05)  # they may be at their end before the process is
    running.child.close()
    return code


def test_it_says_why_it_failed(tmp_path):
    running = under_way(shell('echo "error: so it was" >&2; exit 64'), tmp_path)
    assert end_of(running) == 64
    assert running.failure(64, 'loss') == (64, 'so it was')


@pytest.mark.parametrize('last, code', [(None, 1), (Evaluation(10, None), 70)])
def test_a_run_that_ends_well_without_a_value_has_failed(last, code):
    running = under_way()
    running.last = last
    assert running.failure(0, 'loss')[0] == code


def test_a_signal_is_told_as_a_shell_does():
    assert end_of(under_way(shell('kill -9 $$'))) == 137


def test_nothing_of_it_is_left():
    running = under_way(shell('sleep 1000 & echo $!; wait'))
    connection.wait(running.child.open_pipes, 10)
    assert running.exit_code() is None
    running.child.close()
    (said,) = running._said
    until(lambda: gone(int(said)))


def test_the_command_of_a_trial(tmp_path, monkeypatch):
    cores = (min(os.sched_getaffinity(0)),)
    monkeypatch.setattr(runs, 'TRIAL', ('sh', '-c', 'taskset -cp $$; echo "$TF_CONFIG$X $*"', 'sh'))
    for name, value in {'TF_CONFIG': '{}', 'X': 'x', 'ESTIMATOR_TRAINER_GENERATION': '1'}.items():
        monkeypatch.setenv(name, value)
    config = TrainerConfig(model_dir=str(tmp_path))
    parameters = tuple(targets.typed(each, float, True) for each in targets.parse(['rate:log:1:2']))
    target = targets.Targets(config, parameters, ('--a=1',), ('loss', 'min'))
    study = studies.Study(str(tmp_path), PLAN, PARAMETERS)
    sweep = runs.Sweep(SweepFlags(parallel=1000), target, study)
    trial = Trial(1, 'running', str(tmp_path / 'trial-0001'), {'rate': 1.5})
    pinned, said = sweep.start(trial, cores).lines()
    assert pinned.endswith(f': {cores[0]}')
    trainer = ['--intra_op_threads=1', '--a=1', '--stop_metric=accuracy', '--stop_mode=max']
    stop = ['--stop_patience=1000000000', '--stop_min_delta=0.0']
    assert said.split() == [
        *('x', '--max_restarts=3', '--isolate=auto', '--', *trainer, *stop, '--param=rate=1.5'),
        f'--model_dir={trial.model_dir}',
    ]
