"""Runs a sweep: starts trials, follows their evaluations, ends those that are pruned, keeps how each has ended."""

import collections
import contextlib
import dataclasses
import functools
import logging
import math
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from multiprocessing import connection
from typing import IO, Any, NamedTuple

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import early_stopping
from estimator_trainer.run_dir import file_names, metrics_log, ownership, protocol
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.supervisor.cluster_command import TRAINER, usable_cores
from estimator_trainer.supervisor.policy import task_commands
from estimator_trainer.supervisor.reports import report_file
from estimator_trainer.this_process import child_process
from estimator_trainer.this_process.signal_pipe import Signals
from estimator_trainer.tools.sweep import sweep_report, targets
from estimator_trainer.tools.sweep.sweep_report import DONE, FAILED, PRUNED, RUNNING, Trial, shown

_log = logging.getLogger('estimator_trainer')
_LOOK_SECS = 0.5  # between two looks at the evaluations
_LEFT_SECS = 60  # for what a sweep that was killed has left: the kernel is ending it
_GRACE_SECS = 45  # for the trials of a sweep that fails; a supervisor gives its task 30
_LAST_LINES = 20
_NEVER = 10**9  # evaluations: the trial does not stop by itself
TRIAL = (*TRAINER, 'cluster', '--workers=1', '--noevaluator')


class Evaluation(NamedTuple):
    step: int
    value: float | None  # of the metric; None where it is not finite


def value_in(line: Mapping[str, Any], metric: str) -> float | None:
    """The metric in a line of eval/metrics.jsonl; None where it is not finite.

    Raises:
        UsageError: the evaluation does not have it, or it is no single number.
    """
    if metric not in line:
        names = ', '.join(sorted(set(line) - metrics_log.NOT_METRICS))
        raise UsageError(
            f'--metric={metric}: the evaluation does not give it; it has {names}. Name one of these, and another '
            '--model_dir.'
        )
    value = line[metric]
    if value is not None and not isinstance(value, int | float):
        raise UsageError(f'--metric={metric}: is no single number; name another metric.')
    return value if value is not None and math.isfinite(value) else None


class RunningTrial:
    """A trial under way: its process, and what its evaluations say.

    Whether it is pruned depends on the evaluations alone, and not on when they are looked at: those after that do not
    count.

    Args:
        child: its process, with pipes.
        cores: that it has for itself.

    Attributes:
        last: the last evaluation that counts.
        is_pruned: whether it was decided there that the trial ends.
        passed_on: lines of its evaluations that others know of.
        began: when this start of the sweep has started it, by time.monotonic().
    """

    def __init__(self, trial: Trial, child: child_process.Child, cores: tuple[int, ...] = ()):
        self.trial, self.child, self.cores = trial, child, cores
        self.last: Evaluation | None = None
        self.is_pruned = False
        self.passed_on = 0
        self.began = time.monotonic()
        self._said: collections.deque[str] = collections.deque(maxlen=_LAST_LINES)

    def exit_code(self) -> int | None:
        """That of its process as a shell gives it, once it has ended. Takes what it has said. Never waits."""
        code = self.child.poll()
        for descriptor in self.child.open_pipes:
            self._said.extend(self.child.read_lines(descriptor))
        return 128 - code if code is not None and code < 0 else code

    def failure(self, code: int, metric: str) -> tuple[int, str]:
        """The exit code of a trial that has failed, and why in one line. `code`: that of its process."""
        if code != exit_codes.OK:
            return code, report_file.failure_reason(RunFolder(self.trial.model_dir).report, code, self._said)
        if self.last:
            return exit_codes.NOT_FINITE, f'the run has ended, and {metric} is not finite'
        return exit_codes.FAILED, 'the run has ended, and nothing was evaluated'

    def judge(
        self, lines: Sequence[dict], metric: str, max_steps: int, report: Callable[[int, float], bool]
    ) -> list[Evaluation]:
        """Takes in all lines of eval/metrics.jsonl so far, and returns the evaluations that are new. Of several lines
        of one step the last one counts.

        Args:
            report: (thousandths of the training, value) -> whether the trial is to be pruned there.
        """
        new = []
        for step, line in sorted({line['step']: line for line in lines}.items()):
            if self.is_pruned or self.last and step <= self.last.step:
                continue
            self.last = Evaluation(step, value_in(line, metric))
            new.append(self.last)
            at, value = min(1000, round(1000 * step / max_steps)), self.last.value
            self.is_pruned = value is not None and report(at, value) and step < max_steps
        return new


class Sweep:
    """One start of a sweep, whose folder is locked.

    Args:
        values: SweepFlags.
        target: of the same command.
        study: study.Study.
        metrics: the file for lines of Katib, if there is one.

    Attributes:
        signum: the signal that has ended it.
    """

    def __init__(self, values, target: targets.Targets, study, metrics: IO[str] | None = None):
        self._values, self._target, self._study, self._plan, self._metrics = values, target, study, study.plan, metrics
        self._json = os.path.join(target.config.model_dir, file_names.SWEEP)
        self._file = report_file.JsonFile(self._json, _log.warning)
        cores = usable_cores()
        self._shares = task_commands.core_shares(cores, values.parallel)  # of those that are free
        self._flags = [f'--intra_op_threads={max(1, len(cores) // values.parallel)}', *target.trainer_flags]
        self._rule = early_stopping.rule_of(target.config, *target.best)
        if self._rule is None and self._plan.prune_after:  # early stopping is what ends a trial that is pruned
            self._rule = early_stopping.EarlyStopping(self._plan.metric, self._plan.mode, _NEVER)
            self._flags += [f'--stop_{name}={value}' for name, value in dataclasses.asdict(self._rule).items()]
        self._left = [trial for trial in study.trials() if trial.state == RUNNING]  # by an earlier start
        self._running: list[RunningTrial] = []
        self._failed = 0
        self.signum: signal.Signals | None = None

    def run(self) -> int:
        """Runs trials until there are enough. The exit code.

        1. Trials that an earlier start has left go on first, then new ones begin.
        2. A trial is pruned where Optuna says so after an evaluation: it ends as by early stopping.
        3. A signal stops the trials, which save; they go on at the next start. A second Ctrl-C kills them.
        4. If the first trials fail, all of them, the sweep ends with the code of the last one.

        Raises:
            UsageError: the evaluations do not have the metric.
            Ended: the trials cannot be written down.
        """
        protocol.remove_unfinished(self._json)
        for trial in self._study.trials():
            if trial.state != RUNNING:  # the others are looked at
                sweep_report.write_metrics(RunFolder(trial.model_dir).evaluation_lines, self._metrics)
        with Signals() as signals:
            try:
                while (code := self._fill()) is None:
                    descriptors = [fd for running in self._running for fd in running.child.open_pipes]
                    connection.wait([signals, *descriptors], _LOOK_SECS)
                    for signum in signals.take():
                        self._stop(signum)
                    for running in tuple(self._running):
                        self._look(running)
            finally:  # after an error: the trials save, as at a signal
                child_process.stop([running.child for running in self._running], _GRACE_SECS)
        self._keep('stopped' if self.signum else 'done' if code == exit_codes.OK else 'failed')
        return code

    def _fill(self) -> int | None:
        """Begins trials as long as there is room. The exit code of the sweep, once none runs and none begins."""
        while not self.signum and len(self._running) < self._values.parallel:
            trials = self._study.trials()
            if is_hopeless(trials, self._failed, self._values.max_failed):
                break  # one that runs may do better
            if self._left:
                trial, goes_on = self._left.pop(0), ' goes on'
                wait_until_free(trial.model_dir)
            elif len(trials) < self._values.trials:
                trial, goes_on = self._study.begin(), ''
            else:
                break
            os.makedirs(trial.model_dir, exist_ok=True)
            _log.info('trial %d of %d%s: %s', trial.number, self._values.trials, goes_on, trial.params_in_words)
            cores = self._shares.pop(0)
            self._running.append(RunningTrial(trial, self.start(trial, cores), cores))
            self._keep('running')
        return None if self._running else self._code()

    def _code(self) -> int:
        if self.signum:
            return 128 + self.signum
        trials = self._study.trials()
        if any(trial.state in (DONE, PRUNED) for trial in trials):
            return exit_codes.OK
        if self._failed >= self._values.max_failed:
            last = [trial for trial in trials if trial.state == FAILED][-1]
            _log.info(
                f'the sweep ends: the first {self._failed} trials have failed (--max_failed). Mend the cause and start '
                f'the same command again, which goes on with new trials. The last one: {last.failure}'
            )
            return last.exit_code or exit_codes.FAILED
        return exit_codes.FAILED

    def start(self, trial: Trial, cores: Sequence[int]) -> child_process.Child:
        """The process of a trial: a supervisor of one task, which it restarts if it fails. It keeps the logs of the
        task, and writes report.json."""
        values, own = self._values, [*self._flags, *self._target.flags(trial.params), f'--model_dir={trial.model_dir}']
        argv = [*TRIAL, f'--max_restarts={values.max_restarts}', f'--isolate={values.isolate}', '--', *own]
        others = ('TF_CONFIG', *protocol.VARIABLES)  # tell a task of a cluster its place
        environ = {name: value for name, value in os.environ.items() if name not in others}
        return child_process.Child(argv, env=environ, stdout=child_process.PIPE, stderr=child_process.PIPE, cores=cores)

    def _keep(self, state: str) -> None:
        self._file.write(sweep_report.document(state, vars(self._plan), self._study.trials(), self._target.flags))

    def _look(self, running: RunningTrial) -> None:
        code = running.exit_code()  # before the evaluations: all that it wrote is seen
        if self.signum is None or code is not None:
            with contextlib.suppress(OSError):  # the next look tries again
                self._judge(running)
        if code is not None:
            self._running.remove(running)
            self._shares.append(running.cores)
            running.child.close()
            self._end(running, code)

    def _judge(self, running: RunningTrial) -> None:
        trial = running.trial
        run = RunFolder(trial.model_dir)
        lines, max_steps = run.evaluation_lines, run.training.get('max_steps')
        if not lines or not isinstance(max_steps, int):
            return
        sweep_report.write_metrics(lines[running.passed_on :], self._metrics)
        running.passed_on = len(lines)
        report = functools.partial(self._study.report, trial.number)
        for step, value in running.judge(lines, self._plan.metric, max_steps, report):
            said = 'not finite' if value is None else shown(value)
            _log.info('trial %d: %s %s at step %d', trial.number, self._plan.metric, said, step)
        if running.is_pruned and self._rule and not early_stopping.decision(self._rule, run.path):
            with contextlib.suppress(OSError):  # the next look tries again
                early_stopping.end_from_outside(self._rule, run.path, running.last.step, 'pruned by the sweep')

    def _end(self, running: RunningTrial, code: int) -> None:
        """Writes down how a trial has ended; a trial that was stopped goes on at the next start."""
        number, value = running.trial.number, running.last and running.last.value
        about: dict = {'secs': round(time.monotonic() - running.began, 1), 'step': running.last and running.last.step}
        if running.is_pruned:
            ended = self._study.end(number, PRUNED, **about)
        elif code == exit_codes.OK and value is not None:
            ended = self._study.end(number, DONE, value, **about)
        elif self.signum and exit_codes.retryable(code):
            _log.info('trial %d is stopped; the next start of the sweep goes on with it', number)
            return
        else:
            self._failed += 1
            code, cause = running.failure(code, self._plan.metric)
            ended = self._study.end(number, FAILED, **about, exit_code=code, cause=cause)
        said = sweep_report.ended(ended, self._study.trials(), self._plan.metric, self._plan.mode)
        _log.info('trial %d of %d %s', number, self._values.trials, said)
        self._keep('running')

    def _stop(self, signum: signal.Signals) -> None:
        if self.signum is None:
            self.signum = signum
            which = ', '.join(f'trial {running.trial.number}' for running in self._running)
            _log.info('received %s: stopping %s after a checkpoint; the same command goes on', signum.name, which)
            for running in self._running:
                running.child.send(signal.SIGTERM)
        elif signum == signal.SIGINT:
            for running in self._running:
                running.child.kill()


def is_hopeless(trials: Sequence[Trial], failed: int, most: int) -> bool:
    """Whether to give up: `failed` trials of this start have failed, at least `most`, and none in the folder has ever
    done better."""
    return failed >= most and all(trial.state in (FAILED, RUNNING) for trial in trials)


def wait_until_free(model_dir: str) -> None:
    """Waits for the end of the processes of a trial whose sweep was killed.

    Raises:
        UsageError, TakenElsewhere: somebody still has the model_dir.
    """
    for name in (file_names.SUPERVISOR_LOCK, file_names.TRAINER_LOCK):
        if os.path.exists(os.path.join(model_dir, name)):
            with ownership.lock(model_dir, name) as lock:
                ownership.take(lock, model_dir, 'is still at work there', _LEFT_SECS, _LEFT_SECS)
