"""What a sweep is, in plan.json, and its trials, in study.db. The only module that imports Optuna.

Every choice is a function of the seed, the number of the trial and the trials that have ended. So a sweep that is
killed goes on as one that is not:

- The sampler is made anew for each trial, with a seed of its own, over a copy of the trials in memory.
- A trial is written with all its params at once, and is 'running' until it has ended. The next start goes on with it.
- A report is written before it is judged. A report that was not the last one has been judged by an earlier start.
"""

import contextlib
import dataclasses
import json
import os
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
import optuna
import sqlalchemy.engine
import sqlalchemy.exc
from optuna.trial import FrozenTrial, TrialState

from estimator_trainer import exit_codes
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import file_names, protocol
from estimator_trainer.tools.command_line import Ended
from estimator_trainer.tools.sweep.sweep_report import DONE, FAILED, PRUNED, RUNNING, Trial
from estimator_trainer.tools.sweep.targets import CHOICE, LOG, Parameter

PLAN = 'plan.json'
_STUDY = 'sweep'
_STATES = {RUNNING: TrialState.RUNNING, DONE: TrialState.COMPLETE, PRUNED: TrialState.PRUNED, FAILED: TrialState.FAIL}
_NAMES = {state: name for name, state in _STATES.items()} | {TrialState.WAITING: RUNNING}
_ABOUT = ('step', 'exit_code', 'cause', 'secs')  # attributes of Trial that Optuna keeps for us
_LATER = (file_names.STUDY, file_names.SWEEP, file_names.SWEEP_PAGE)  # what a sweep writes after its plan
_FREE = (
    *('model_dir', 'progress', 'report', 'track', 'metrics_port', 'dry_run'),
    *('log_every_steps', 'save_summary_steps', 'allow_config_change'),
    *('profile_steps', 'profile_tasks', 'scratch_dir', 'max_unpushed_secs'),
    'data_cache_dir',
)
optuna.logging.set_verbosity(optuna.logging.WARNING)


@dataclasses.dataclass(frozen=True)
class SweepPlan:
    """Everything that decides the trials of a sweep. A restart has to say the same.

    Attributes:
        param_space: as the flags say it.
        trainer: the flags of the trainer that may make a difference, name -> value.
    """

    metric: str
    mode: str
    seed: int
    prune_after: int
    param_space: Sequence[str]
    trainer: dict


def trainer_flags(config: TrainerConfig) -> dict:
    """What a SweepPlan keeps of the flags of the trainer."""
    return {name: value for name, value in vars(config).items() if name not in _FREE}


def keep(plan: SweepPlan, folder: str) -> None:
    """Writes the plan of a new sweep, or holds it against the one in the folder.

    Raises:
        UsageError: the folder holds another sweep, or something else; every difference is shown.
    """
    path, new = os.path.join(folder, PLAN), _as_json(dataclasses.asdict(plan))
    if os.path.exists(path):
        old = protocol.read_json(path)
        if not old:
            raise UsageError(f'--model_dir={folder}: its {PLAN} cannot be read; mend it, or name another folder.')
        of_trainer = _as_json(trainer_flags(TrainerConfig())) | (
            old.get('trainer') or {}
        )  # an earlier version had fewer flags
        pairs = [(name, old.get(name), now) for name, now in new.items() if name != 'trainer']
        pairs += [(name, of_trainer[name], now) for name, now in new['trainer'].items()]
        different = [f'  {name}: {was!r} there, {now!r} now' for name, was, now in pairs if was != now]
        if different:
            lines = '\n'.join(different)
            raise UsageError(
                f'--model_dir={folder}: holds a sweep with other flags:\n{lines}\n'
                'Give them as they were, or another --model_dir.'
            )
        return
    if os.path.exists(os.path.join(folder, file_names.CONFIG)):
        raise UsageError(f'--model_dir={folder}: holds a run of the trainer; name another folder for the sweep.')
    for name in _LATER:
        if os.path.lexists(os.path.join(folder, name)):
            raise UsageError(
                f'--model_dir={folder}: its {name} is not of a sweep with a {PLAN}; move it away, or name another '
                'folder.'
            )
    protocol.remove_unfinished(path)
    protocol.write_json(path, new)


def _as_json(value: dict) -> dict:
    return json.loads(json.dumps(value))


class Study:
    """Optuna's study in a folder. One process at a time may use it.

    Attributes:
        plan: of the sweep.
    """

    def __init__(self, folder: str, plan: SweepPlan, parameters: Sequence[Parameter]):
        self.plan, self._folder, self._path = plan, folder, os.path.join(folder, file_names.STUDY)
        self._direction = 'maximize' if plan.mode == 'max' else 'minimize'
        self._distributions = {parameter.name: _distribution(parameter) for parameter in parameters}
        pruner = optuna.pruners.NopPruner()
        if plan.prune_after:  # what is evaluated before the first step says nothing
            pruner = optuna.pruners.MedianPruner(n_startup_trials=plan.prune_after, n_warmup_steps=1)
        url = sqlalchemy.engine.URL.create('sqlite', database=self._path)
        with self._storing():
            self._storage = optuna.storages.RDBStorage(url.render_as_string())
            self._study = optuna.create_study(
                study_name=_STUDY,
                storage=self._storage,
                sampler=optuna.samplers.RandomSampler(),  # of no use: `begin` has one
                pruner=pruner,
                direction=self._direction,
                load_if_exists=True,
            )

    def trials(self) -> list[Trial]:
        with self._storing():
            return [self._trial(frozen) for frozen in self._study.get_trials(deepcopy=False)]

    def begin(self) -> Trial:
        """Chooses the params of a new trial, and writes them down."""
        with self._storing():
            before = self._study.get_trials()
            seed = int(np.random.SeedSequence([self.plan.seed, len(before)]).generate_state(1)[0])
            with warnings.catch_warnings():
                warnings.simplefilter('ignore', optuna.exceptions.ExperimentalWarning)  # of some versions
                sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
            copy = optuna.create_study(sampler=sampler, direction=self._direction)
            copy.add_trials(before)
            params = copy.ask(self._distributions).params
            self._study.add_trial(
                optuna.trial.create_trial(state=TrialState.RUNNING, params=params, distributions=self._distributions)
            )
            return self._trial(self._frozen(len(before) + 1))

    def report(self, number: int, at: int, value: float) -> bool:
        """Writes down what an evaluation has found. Whether the trial is to be pruned there.

        Args:
            at: how much of its training the trial has done, in thousandths. Trials with other batches make other
                steps of the same epochs, so this is what they are compared at.
        """
        with self._storing():
            reported = self._frozen(number).intermediate_values
            if reported and at < max(reported):
                return False
            trial = self._asked(number)
            if at not in reported:
                trial.report(value, at)
            return trial.should_prune()

    def end(self, number: int, state: str, value: float | None = None, **about: object) -> Trial:
        """Writes down how a trial has ended.

        Args:
            value: of a trial that is done. That of a pruned one was reported last.
            about: further attributes of Trial.
        """
        with self._storing():
            trial = self._asked(number)
            for name, what in about.items():
                trial.set_user_attr(name, what)
            self._study.tell(trial, value, _STATES[state])
            return self._trial(self._frozen(number))

    def _asked(self, number: int) -> optuna.Trial:
        """A trial, also one that an earlier start has begun."""
        study_id = self._storage.get_study_id_from_name(_STUDY)
        return optuna.Trial(self._study, self._storage.get_trial_id_from_study_id_trial_number(study_id, number - 1))

    def _frozen(self, number: int) -> FrozenTrial:
        return self._study.get_trials(deepcopy=False)[number - 1]

    def _trial(self, frozen: FrozenTrial) -> Trial:
        number, state = frozen.number + 1, _NAMES[frozen.state]
        model_dir = os.path.join(self._folder, f'trial-{number:04d}')
        about = {name: frozen.user_attrs.get(name) for name in _ABOUT}
        return Trial(number, state, model_dir, dict(frozen.params), frozen.value, **about)

    @contextlib.contextmanager
    def _storing(self) -> Iterator[None]:
        try:
            yield
        except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            cause = getattr(error, 'orig', None) or getattr(error.__cause__, 'orig', None) or error
            text = f'{self._path}: {cause}; look at the disk and at this file'
            raise Ended(exit_codes.CANNOT_WRITE, text) from error


def _distribution(parameter: Parameter) -> optuna.distributions.BaseDistribution:
    if parameter.kind == CHOICE:
        return optuna.distributions.CategoricalDistribution(parameter.values)
    is_whole = isinstance(parameter.values[0], int)
    kind = optuna.distributions.IntDistribution if is_whole else optuna.distributions.FloatDistribution
    return kind(*parameter.values, log=parameter.kind == LOG)
