"""The restarts of a run: one gang after the other, until training is done or another restart is in vain."""

import contextlib
import random
import secrets
import selectors
import signal
import time
from typing import Generic, TypeVar

from estimator_trainer.run_dir.protocol import PROFILE_SIGNAL
from estimator_trainer.run_dir.training_file import TrainingStatus
from estimator_trainer.supervisor.gang import Gang
from estimator_trainer.supervisor.policy import causes, restarts
from estimator_trainer.supervisor.policy.causes import Cause, GangOutcome
from estimator_trainer.supervisor.reports import wording
from estimator_trainer.this_process.console import Console
from estimator_trainer.this_process.signal_pipe import Signals

_LOOK_SECS = 2  # while no task runs
Place = TypeVar('Place')


class CannotGoOn(Exception):
    """There is no place for the tasks of the next gang. The text says why."""

    def __init__(self, why: str, code: int):
        super().__init__(why)
        self.code = code


class StopSignal(Exception):
    """A signal has told us to stop while no task was running."""

    def __init__(self, signum: signal.Signals):
        super().__init__(signum)
        self.signum = signum


class Supervisor(Generic[Place]):
    """Runs gangs, wherever their tasks run. A subclass knows the place.

    Attributes:
      workers: how many workers train in the next gang.
      checkpoint: the step of the checkpoint from which the next gang goes on. None: as far as is known, there is none.
      is_program: the tasks are not trainers.
    """

    workers: int
    checkpoint: int | None = None
    is_program = False

    def __init__(
        self, rules: restarts.Rules, limits: restarts.Limits, asynchronous: bool, console: Console, rng: random.Random
    ):
        self._limits, self._say = limits, console.say
        self._budgets = restarts.TaskRestartBudgets(rules, rng)
        self._history = restarts.History(rules, rng, lambda name: causes.restarts_alone(name, asynchronous))
        self._decisions: list[restarts.Decision | None] = []  # what followed each gang that has ended
        self._began, self._began_at = time.monotonic(), time.time()

    def _place(self, signals: Signals) -> contextlib.AbstractContextManager[Place]:
        """Finds, within a bounded time, where the tasks of the next gang run. Raises CannotGoOn, StopSignal."""
        raise NotImplementedError

    def _make_gang(self, place: Place, generation: str) -> Gang:
        """The next gang, which has not been started."""
        raise NotImplementedError

    def _gang_ended(self, gang: Gang, outcome: GangOutcome) -> None:
        """Called when a gang has ended. Sets `checkpoint`."""
        raise NotImplementedError

    def _adapt(self, cause: Cause) -> None:
        """Called before each restart."""

    def _look(self) -> None:
        """Called about every two seconds while no task runs."""

    def _run_gangs(self, signals: Signals) -> tuple[int, bool]:
        """Runs gangs until the run ends. Returns the exit code, and whether a signal has stopped the run."""
        while True:
            try:
                with self._place(signals) as place:
                    gang = self._make_gang(place, f'{len(self._decisions) + 1}-{secrets.token_hex(4)}')
                    outcome = gang.run(signals)
                    self._gang_ended(gang, outcome)
                code, decision = self._judge(outcome, gang.follower.training)
                self._decisions.append(decision)
                if decision is None or not decision.restart:
                    return code, outcome.signum is not None
                self._back_off(decision.delay, signals)
            except StopSignal as stopped:
                return 128 + stopped.signum, True
            except CannotGoOn as error:
                self._say(str(error))
                return error.code, False

    def _judge(self, outcome: GangOutcome, training: TrainingStatus | None) -> tuple[int, restarts.Decision | None]:
        """Decides what follows a gang, and the exit code if nothing does."""
        if outcome.signum:
            return causes.code_of_stopped(outcome, training.state if training else None), None
        cause, rules = outcome.end.cause, self._history.rules
        if cause is None:
            return outcome.end.exit_code, None
        decision = self._history.decide(cause, time.monotonic(), self.checkpoint or 0, self.workers)
        if decision.restart:
            self._adapt(cause)
            self._say(wording.restart(decision, rules.max_restarts, self.checkpoint, cause, self.is_program))
        else:
            self._say(wording.no_restart(decision, rules, cause))
        return decision.exit_code, decision

    def _back_off(self, secs: float, signals: Signals) -> None:
        try:
            self._wait(secs, signals)
        except StopSignal as stopped:
            self._say(f'received {wording.order(stopped.signum)}: no restart')
            raise

    def _wait(self, secs: float, signals: Signals) -> None:
        """Waits so long. Raises StopSignal as soon as there was a signal."""
        until = time.monotonic() + secs
        with selectors.DefaultSelector() as selector:
            selector.register(signals, selectors.EVENT_READ)
            while True:
                received = [signum for signum in signals.take() if signum != PROFILE_SIGNAL]  # there is no task now
                if received:
                    raise StopSignal(received[0])
                left = until - time.monotonic()
                if left <= 0:
                    return
                self._look()
                selector.select(min(left, _LOOK_SECS))
