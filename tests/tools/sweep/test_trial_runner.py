"""The sweep with the real study, and with trials that are objects of this process or shells."""

import json
import os
import pathlib
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
PLAN = studies.SweepPlan('accuracy', 'max', 7, 3, ('rate:log:1e-4:1', 'optimizer:choice:sgd,adam'), {})
PARAMETERS = tuple(
    targets.typed(parameter, kind)
    for parameter, kind in zip(targets.parse(PLAN.param_space), (float, str), strict=True)
)
MAX_STEPS = 40


class Crash(BaseException):
    """The sweep was killed."""


class Crashes:
    """Raises Crash at the nth call of a function that it was wrapped around."""

    def __init__(self, at):
        self.left = at

    def around(self, function):
        def wrapped(*args, **kwargs):
            self._count()
            result = function(*args, **kwargs)
            self._count()
            return result

        return wrapped

    def _count(self):
        self.left -= 1
        if self.left == 0:
            raise Crash


def accuracy(params, step):
    """Of a trial: the nearer the rate is to 0.01, the better; nothing is drawn."""
    return round(1 / (1 + abs(params['rate'] - 0.01)) * step / MAX_STEPS - (params['optimizer'] == 'sgd') * 0.1, 6)


class FakeChild:
    """A trial that evaluates at 10, 20, 30 and 40, one each time that it is looked at, and goes on where it was.

    It has the methods of Child. `code`: it ends with this one, after its first evaluation if it is not 0.
    """

    def __init__(self, trial, code=0):
        self.folder, self.params, self.code = pathlib.Path(trial.model_dir), trial.params, code
        (self.folder / 'eval').mkdir(exist_ok=True)
        (self.folder / 'training.json').write_text(json.dumps({'max_steps': MAX_STEPS}))
        self.told = None
        reader, self._writer = os.pipe()
        os.write(self._writer, b'x')  # select never waits
        self.open_pipes = (reader,)

    def poll(self):
        path = self.folder / 'eval' / 'metrics.jsonl'
        steps = [json.loads(line)['step'] for line in path.read_text().splitlines()] if path.exists() else []
        if self.told or len(steps) == 4 or self.code and steps or (self.folder / 'eval' / 'stop.json').exists():
            return self.told or self.code
        step = 10 * len(steps) + 10
        with open(path, 'a') as file:
            file.write(json.dumps({'kind': 'eval', 'step': step, 'accuracy': accuracy(self.params, step)}) + '\n')
        return None

    def read_lines(self, descriptor):
        return [f'error: it was so ({self.code})']

    def send(self, signum):
        self.told = 128 + signum

    def close(self):
        for descriptor in (*self.open_pipes, self._writer):
            os.close(descriptor)


class Folder:
    """The folder of a sweep. Each call of `sweep` is a start of the command."""

    def __init__(self, path):
        self.path = str(path)
        os.makedirs(self.path)

    def sweep(self, crashes=None, trials=8, code=lambda params: 0, start=FakeChild, **more):
        crashes = crashes or Crashes(0)
        study = studies.Study(self.path, PLAN, PARAMETERS)
        for name in ('begin', 'report', 'end'):
            setattr(study, name, crashes.around(getattr(study, name)))
        config = TrainerConfig(model_dir=self.path)
        target = targets.Targets(config, PARAMETERS, (), ('accuracy', 'max'))
        sweep = runs.Sweep(SweepFlags(trials=trials, **{'max_failed': 3, **more}), target, study)
        sweep.start = crashes.around(lambda trial, cores: start(trial, code(trial.params)))
        return sweep.run()

    @property
    def trials(self):
        return studies.Study(self.path, PLAN, PARAMETERS).trials()

    @property
    def table(self):
        return [(trial.number, trial.state, trial.params, trial.value, trial.step) for trial in self.trials]


@pytest.fixture(scope='module')
def undisturbed(tmp_path_factory):
    folder = Folder(tmp_path_factory.mktemp('undisturbed') / 'sweep')
    assert folder.sweep() == 0
    return folder


def test_trials_are_done_or_pruned(undisturbed):
    states = [trial.state for trial in undisturbed.trials]
    assert len(states) == 8 and set(states[:3]) == {'done'} and set(states) == {'done', 'pruned'}
    for trial in undisturbed.trials:
        assert trial.value == accuracy(trial.params, trial.step)
        stopped = os.path.exists(f'{undisturbed.path}/trial-000{trial.number}/eval/stop.json')
        assert stopped == (trial.state == 'pruned') == (trial.step < MAX_STEPS)
    assert len({trial.params['rate'] for trial in undisturbed.trials}) == 8


@pytest.mark.parametrize('moments', [(1, 2, 3, 4, 5), (9, 30, 20), (14, 6, 47), (61,), (38, 11, 24)])
def test_a_sweep_that_is_killed_ends_with_the_same_trials(tmp_path, undisturbed, moments):
    folder = Folder(tmp_path / 'sweep')
    for at in moments:
        with pytest.raises(Crash):
            folder.sweep(Crashes(at))
    assert folder.sweep() == 0
    assert folder.table == undisturbed.table


def test_more_trials_go_on(tmp_path, undisturbed):
    folder = Folder(tmp_path / 'sweep')
    assert folder.sweep(trials=2) == folder.sweep(trials=8) == folder.sweep(trials=3) == 0
    assert folder.table == undisturbed.table


def test_several_at_a_time(tmp_path):
    folder = Folder(tmp_path / 'sweep')
    assert folder.sweep(trials=7, parallel=3) == 0
    assert len(folder.trials) == 7 and {trial.state for trial in folder.trials} <= {'done', 'pruned'}


def test_a_trial_that_fails_is_counted_with_its_cause(tmp_path):
    folder = Folder(tmp_path / 'sweep')
    first = []  # the params of the first trial

    def code(params):
        first[:] = first or [params]
        return 70 if params == first[0] else 0

    assert folder.sweep(trials=3, code=code) == 0
    failed, *others = folder.trials
    assert (failed.state, failed.exit_code, failed.cause) == ('failed', 70, 'it was so (70)')
    assert [trial.state for trial in others] == ['done'] * 2


def test_a_sweep_whose_first_trials_fail_ends(tmp_path, caplog):
    folder = Folder(tmp_path / 'sweep')
    with caplog.at_level('INFO', 'estimator_trainer'):
        assert folder.sweep(code=lambda params: 66) == 66
    assert len(folder.trials) == 3 and 'the first 3 trials have failed (--max_failed)' in caplog.text
    assert folder.sweep(trials=5) == 0  # once the cause is mended
    assert [trial.state for trial in folder.trials[3:]] == ['done'] * 2


def test_a_signal_stops_the_trials_which_go_on_at_the_next_start(tmp_path, undisturbed):
    folder, numbers = Folder(tmp_path / 'sweep'), []

    class Interrupts(FakeChild):
        def poll(self):
            if len(numbers) == 3 and self.told is None:
                os.kill(os.getpid(), 2)
                self.told = 143  # as if it had been told already: the signal comes to this process
                return None
            return super().poll()

    def start(trial, code):
        numbers.append(trial.number)
        return Interrupts(trial, code)

    assert folder.sweep(start=start) == 130
    assert [trial.state for trial in folder.trials] == ['done', 'done', 'running']
    assert folder.sweep() == 0
    assert folder.table == undisturbed.table


@pytest.mark.parametrize(
    'states, failed, expected',
    [('FFF', 3, True), ('FFFR', 3, True), ('FF', 2, False), ('FFF', 0, False), ('DFFF', 3, False), ('FFFP', 3, False)],
)
def test_several_failures_at_the_start_are_enough(states, failed, expected):
    names = {'F': 'failed', 'R': 'running', 'D': 'done', 'P': 'pruned'}
    trials = [Trial(number, names[state], '', {}) for number, state in enumerate(states, start=1)]
    assert runs.is_hopeless(trials, failed, 3) is expected


# What the evaluations of a trial say.


def line(step, value, **more):
    return {'kind': 'eval', 'step': step, 'time': 1.0, 'accuracy': value, **more}


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


# The process of a trial, with a shell in the place of the supervisor.


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
