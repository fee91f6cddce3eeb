"""The sweep with the real study, and with trials that are objects of this process or shells."""

import json
import os
import pathlib

import pytest

from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.tools.sweep import targets
from estimator_trainer.tools.sweep import trial_runner as runs
from estimator_trainer.tools.sweep.sweep_command import SweepFlags
from estimator_trainer.tools.sweep.sweep_report import Trial

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

    def wait(self, secs):
        """It has ended."""

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


# The process of a trial, with a shell in the place of the supervisor.
