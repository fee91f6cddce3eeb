"""Runs a sweep: starts trials, follows their evaluations, ends those that are pruned, keeps how each has ended."""

import contextlib
import dataclasses
import logging
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import connection

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import early_stopping
from estimator_trainer.run_dir import file_names, locks, metrics_log
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.supervisor.policy import task_commands
from estimator_trainer.this_process.signal_pipe import Signals
from estimator_trainer.tools.sweep import evaluations, sweep_report, trial
from estimator_trainer.tools.sweep.sweep_plan import SweepPlan
from estimator_trainer.tools.sweep.trial import Trial, TrialStatus
from estimator_trainer.tools.sweep.trial_process import TrialProcess

_log = logging.getLogger('estimator_trainer')
_LOOK_SECS = 0.5  # between two looks at the evaluations
_LEFT_SECS = 60  # for what a sweep that was killed has left: the kernel is ending it


@dataclasses.dataclass(frozen=True)
class SweepBounds:
    """`trials`: of the whole sweep. `parallel`: at a time. `failed`: in a row at the start, after which it ends."""

    trials: int
    parallel: int
    failed: int


class Sweep:
    """One start of a sweep, whose folder is locked.

    Args:
        study: study.Study.
        rule: with which the trials may be ended from outside; None: they are not pruned.
        start: (model_dir, params, cores) -> TrialProcess.
        cores: those this process may use.
        evaluated: is given (number of a trial, lines), the lines of eval/metrics.jsonl that are new.
        changed: called when a trial has begun or ended.
    """

    def __init__(
        self,
        folder: str,
        plan: SweepPlan,
        bounds: SweepBounds,
        study,
        rule: early_stopping.EarlyStopping | None,
        start: Callable[[str, Mapping, Sequence[int]], TrialProcess],
        cores: Sequence[int],
        evaluated: Callable[[int, Sequence[dict]], None] = lambda number, lines: None,
        changed: Callable[[], None] = lambda: None,
    ):
        self._folder, self._plan, self._bounds, self._study = folder, plan, bounds, study
        self._rule, self._start = rule, start
        self._evaluated, self._changed = evaluated, changed
        self._left = trial.to_go_on_with(study.trials())
        self._shares = task_commands.core_shares(cores, bounds.parallel)  # of those that are free
        self._running: list[_Running] = []
        self._failed = 0
        self._signum: signal.Signals | None = None

    def run(self) -> int:
        """Runs trials until there are enough. The exit code.

        1. Trials that an earlier start has left go on first, then new ones begin.
        2. A trial is pruned where Optuna says so after an evaluation: it ends as by early stopping.
        3. A signal stops the trials, which save; they go on at the next start. A second Ctrl-C kills them.
        4. If the first trials fail, all of them, the sweep ends with the code of the last one.

        Raises:
            UsageError: the evaluations do not have the metric.
            CannotStore: the trials cannot be written down.
        """
        with Signals() as signals:
            try:
                while True:
                    code = self._fill()
                    if not self._running:
                        return code
                    descriptors = [fd for running in self._running for fd in running.child.descriptors]
                    connection.wait([signals, *descriptors], _LOOK_SECS)
                    for signum in signals.take():
                        self._stop(signum)
                    for running in tuple(self._running):
                        self._look(running)
            finally:
                for running in self._running:
                    running.child.close()

    @property
    def stopped(self) -> bool:
        """Whether a signal has ended it."""
        return self._signum is not None

    def _fill(self) -> int:
        """Begins trials as long as there is room. The exit code, for when none runs."""
        if self._signum:
            return 128 + self._signum
        while len(self._running) < self._bounds.parallel:
            trials = self._study.trials()
            if trial.is_hopeless(trials, self._failed, self._bounds.failed):
                last = [one for one in trials if one.state is TrialStatus.FAILED][-1]
                if self._running:  # one of them may do better
                    return exit_codes.OK
                _log.info('%s', sweep_report.hopeless(self._failed, last))
                return last.exit_code or exit_codes.FAILED
            if self._left:
                self._begin(trials[self._left.pop(0) - 1], again=True)
            elif len(trials) < self._bounds.trials:
                self._begin(self._study.begin())
            else:
                done = any(one.state in (TrialStatus.DONE, TrialStatus.PRUNED) for one in trials)
                return exit_codes.OK if done else exit_codes.FAILED
        return exit_codes.OK

    def _begin(self, one: Trial, again: bool = False) -> None:
        model_dir = trial.folder_of(self._folder, one.number)
        os.makedirs(model_dir, exist_ok=True)
        if again:
            wait_until_free(model_dir)
        cores = self._shares.pop(0)
        _log.info('%s', sweep_report.begins(one, self._bounds.trials, again))
        child = self._start(model_dir, one.params, cores)
        judge = evaluations.Judge(lambda at, value: self._study.report(one.number, at, value))
        self._running.append(_Running(one, model_dir, child, judge, cores))
        self._changed()

    def _look(self, running: '_Running') -> None:
        code = running.child.poll()  # before the evaluations: all that it wrote is seen
        running.child.read()
        if self._signum is None or code is not None:
            self._judge(running)
        if code is not None:
            self._running.remove(running)
            self._shares.append(running.cores)
            running.child.close()
            self._end(running, code)

    def _judge(self, running: '_Running') -> None:
        training = RunFolder(running.model_dir).training
        lines = running.read_lines()
        if not lines or not isinstance(training.get('max_steps'), int):
            return
        self._evaluated(running.trial.number, lines[running.passed_on :])
        running.passed_on = len(lines)
        for evaluation in running.judge.look(evaluations.of_lines(lines, self._plan.metric), training['max_steps']):
            _log.info('%s', sweep_report.evaluated(running.trial, evaluation, self._plan.metric))
        pruned = running.judge.pruned
        if pruned and self._rule and not early_stopping.decision(self._rule, running.model_dir):
            with contextlib.suppress(OSError):  # the next look tries again
                early_stopping.end_from_outside(self._rule, running.model_dir, pruned.step, 'pruned by the sweep')

    def _end(self, running: '_Running', code: int) -> None:
        """Writes down how a trial has ended; a trial that was stopped goes on at the next start."""
        judge, number = running.judge, running.trial.number
        about: dict = {'secs': round(running.child.secs, 1)}
        if judge.pruned:
            state = TrialStatus.PRUNED
        elif code == exit_codes.OK and judge.value is not None:
            state = TrialStatus.DONE
        elif self._signum and exit_codes.retryable(code):
            _log.info('%s', sweep_report.stopped(running.trial))
            return
        else:
            state, cause = TrialStatus.FAILED, running.child.cause(code)
            if code == exit_codes.OK:
                code = exit_codes.NOT_FINITE if judge.last else exit_codes.FAILED
                what = f'{self._plan.metric} is not finite' if judge.last else 'nothing was evaluated'
                cause = f'the run has ended, and {what}'
            about |= {'exit_code': code, 'cause': cause}
            self._failed += 1
        last = judge.pruned or judge.last
        value = judge.value if state is not TrialStatus.FAILED else None
        ended = self._study.end(number, state, value=value, step=last and last.step, **about)
        _log.info('%s', sweep_report.ended(ended, self._study.trials(), self._plan, self._bounds.trials))
        self._changed()

    def _stop(self, signum: signal.Signals) -> None:
        if self._signum is None:
            self._signum = signum
            _log.info('%s', sweep_report.stopping(signum, [running.trial for running in self._running]))
            for running in self._running:
                running.child.stop()
        elif signum == signal.SIGINT:
            for running in self._running:
                running.child.kill()


@dataclasses.dataclass
class _Running:
    """A trial under way. `passed_on`: how many lines of its evaluations others know of."""

    trial: Trial
    model_dir: str
    child: TrialProcess
    judge: evaluations.Judge
    cores: tuple[int, ...]
    passed_on: int = 0
    _size: int = -1
    _lines: list = dataclasses.field(default_factory=list)

    def read_lines(self) -> list[dict]:
        """eval/metrics.jsonl, which is read when it has grown."""
        path = os.path.join(self.model_dir, file_names.EVALUATIONS)
        with contextlib.suppress(FileNotFoundError):
            size = os.stat(path).st_size
            if size != self._size:
                self._size, self._lines = size, metrics_log.MetricsLog(path).read()
        return self._lines


def wait_until_free(model_dir: str, secs: float = _LEFT_SECS) -> None:
    """Waits for the end of the processes of a trial whose sweep was killed.

    Raises:
        UsageError: somebody still has the model_dir.
    """
    for name in (file_names.SUPERVISOR_LOCK, file_names.TRAINER_LOCK):
        path = os.path.join(model_dir, name)
        if not os.path.exists(path):
            continue
        try:
            with locks.Lock(path) as lock:
                lock.wait(lambda holder: secs)
        except locks.Held as held:
            raise UsageError(
                f'{model_dir}: {held.holder} is still at work there; wait for its end, or stop it.'
            ) from None
        except OSError:  # no lock of ours, or no locks: the trial will say so
            continue
