"""The trials of a sweep in study.db, and the choice of the next one. The only module that imports Optuna.

Every choice is a function of the seed, the number of the trial and the trials that have ended. So a sweep that is
killed goes on as one that is not:

- The sampler is made anew for each trial, with a seed of its own, over a copy of the trials in memory.
- A trial is written with all its params at once, and is 'running' until it has ended. The next start goes on with it.
- A report is written before it is judged. A report that was not the last one has been judged by an earlier start.
"""

import contextlib
import os
import warnings
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import optuna
import sqlalchemy.engine
import sqlalchemy.exc
from optuna.trial import FrozenTrial, TrialState

from estimator_trainer.compat.patches import other_libraries
from estimator_trainer.errors import UsageError
from estimator_trainer.tools.sweep import space as spaces
from estimator_trainer.tools.sweep.space import Parameter
from estimator_trainer.tools.sweep.sweep_plan import SweepPlan
from estimator_trainer.tools.sweep.trial import CannotStore, Trial, TrialStatus

NAME = 'study.db'
_STUDY = 'sweep'
_STATES = {
    TrialState.RUNNING: TrialStatus.RUNNING,
    TrialState.WAITING: TrialStatus.RUNNING,  # nobody here makes such trials
    TrialState.COMPLETE: TrialStatus.DONE,
    TrialState.PRUNED: TrialStatus.PRUNED,
    TrialState.FAIL: TrialStatus.FAILED,
}
optuna.logging.set_verbosity(optuna.logging.WARNING)


class Study:
    """Optuna's study in a folder. One process at a time may use it."""

    def __init__(self, folder: str, plan: SweepPlan, parameters: Sequence[Parameter]):
        self._plan, self._path = plan, os.path.join(folder, NAME)
        self._distributions = {parameter.name: _distribution(parameter) for parameter in parameters}
        pruner = optuna.pruners.NopPruner()
        if plan.prune_after:  # what is evaluated before the first step says nothing
            pruner = optuna.pruners.MedianPruner(n_startup_trials=plan.prune_after, n_warmup_steps=1)
        url = sqlalchemy.engine.URL.create('sqlite', database=self._path)
        with self._storing():
            self._study = optuna.create_study(
                study_name=_STUDY,
                storage=optuna.storages.RDBStorage(url.render_as_string()),
                sampler=optuna.samplers.RandomSampler(),  # of no use: `_choose` has one
                pruner=pruner,
                direction=self._direction,
                load_if_exists=True,
            )

    @property
    def _direction(self) -> str:
        return 'maximize' if self._plan.maximizes else 'minimize'

    def trials(self) -> list[Trial]:
        with self._storing():
            return [_trial(frozen) for frozen in self._study.get_trials(deepcopy=False)]

    def begin(self) -> Trial:
        """Chooses the params of a new trial, and writes them down."""
        with self._storing():
            before = self._study.get_trials()
            params = self._choose(before)
            self._study.add_trial(
                optuna.trial.create_trial(state=TrialState.RUNNING, params=params, distributions=self._distributions)
            )
            return _trial(self._study.get_trials(deepcopy=False)[len(before)])

    def report(self, number: int, at: int, value: float) -> bool:
        """Writes down what an evaluation has found. Whether the trial is to be pruned there."""
        with self._storing():
            trial = self._of(number)
            reported = self._frozen(number).intermediate_values
            if reported and at < max(reported):
                return False
            if at not in reported:
                trial.report(value, at)
            return trial.should_prune()

    def end(
        self, number: int, state: TrialStatus, value: float | None = None, step: int | None = None, **about: object
    ) -> Trial:
        """Writes down how a trial has ended. `about` are further attributes of Trial."""
        with self._storing():
            trial = self._of(number)
            for name, what in {'step': step, 'value': value, **about}.items():
                if what is not None:
                    trial.set_user_attr(name, what)
            if state is TrialStatus.DONE:
                self._study.tell(trial, value)
            else:
                self._study.tell(trial, state=TrialState.PRUNED if state is TrialStatus.PRUNED else TrialState.FAIL)
            return _trial(self._frozen(number))

    def _choose(self, before: Sequence[FrozenTrial]) -> dict:
        seed = int(np.random.SeedSequence([self._plan.seed, len(before)]).generate_state(1)[0])
        with warnings.catch_warnings():
            warnings.simplefilter('ignore', optuna.exceptions.ExperimentalWarning)  # of some versions
            sampler = optuna.samplers.TPESampler(seed=seed, multivariate=True, constant_liar=True)
        copy = optuna.create_study(sampler=sampler, direction=self._direction)
        copy.add_trials(before)
        return copy.ask(self._distributions).params

    def _of(self, number: int) -> optuna.Trial:
        return other_libraries.optuna_trial(self._study, self._frozen(number))

    def _frozen(self, number: int) -> FrozenTrial:
        return self._study.get_trials(deepcopy=False)[number - 1]

    @contextlib.contextmanager
    def _storing(self) -> Iterator[None]:
        try:
            yield
        except (sqlalchemy.exc.SQLAlchemyError, optuna.exceptions.StorageInternalError) as error:
            cause = getattr(error, 'orig', None) or getattr(error.__cause__, 'orig', None) or error
            raise CannotStore(f'{self._path}: {cause}; look at the disk and at this file') from error
        except optuna.exceptions.DuplicatedStudyError as error:
            raise UsageError(f'{self._path}: {error}') from error


def _distribution(parameter: Parameter) -> optuna.distributions.BaseDistribution:
    if parameter.kind == spaces.CHOICE:
        return optuna.distributions.CategoricalDistribution(parameter.values)
    kind = optuna.distributions.IntDistribution if parameter.type is int else optuna.distributions.FloatDistribution
    return kind(*parameter.values, log=parameter.kind == spaces.LOG)


def _trial(frozen: FrozenTrial) -> Trial:
    about: Mapping = frozen.user_attrs
    return Trial(
        number=frozen.number + 1,
        state=_STATES[frozen.state],
        params=dict(frozen.params),
        value=frozen.value if frozen.state is TrialState.COMPLETE else about.get('value'),
        step=about.get('step'),
        reported=dict(frozen.intermediate_values),
        exit_code=about.get('exit_code'),
        cause=about.get('cause', ''),
        secs=about.get('secs'),
    )
