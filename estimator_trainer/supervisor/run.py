"""A run: one gang after the other, until the training is done or there is no use in going on."""

import collections
import contextlib
import dataclasses
import os
import pathlib
import random
import secrets
import selectors
import signal
import time
from collections.abc import Sequence

from estimator_trainer import allocator, exit_codes, report_page
from estimator_trainer.monitoring import server, state
from estimator_trainer.run_dir import checkpoint_file, metrics_log, protocol, training_file
from estimator_trainer.supervisor import (
    last_line,
    log_folders,
    logs,
    messages,
    oom,
    policy,
    ports,
    progress,
    report,
    restarts,
    status,
    task_commands,
    training_status,
)
from estimator_trainer.supervisor.attempt import Attempt
from estimator_trainer.supervisor.local_launcher import LocalLauncher
from estimator_trainer.supervisor.machine import Machine, gang
from estimator_trainer.supervisor.options import Options
from estimator_trainer.supervisor.policy import Cause, Outcome, Why
from estimator_trainer.supervisor.signals import PROFILE, Signals
from estimator_trainer.supervisor.supervisor import Supervisor

_AVOIDED_ATTEMPTS = 100  # whose ports are not used again


class Run:
    """Runs the cluster to its end. Its model_dir, if it has one here, is locked."""

    def __init__(self, opts: Options, machine: Machine, rng: random.Random):
        self._opts, self._machine, self._rng = opts, machine, rng
        self._say = machine.err.say
        self._terminal = machine.err if machine.err.has_line else machine.out  # the one that may have a last line
        self._began, self._began_at = time.monotonic(), time.time()
        self._report = opts.model_dir and os.path.join(opts.model_dir, report.REPORT_FILE)
        self._workers = opts.shape.workers
        self._alone = restarts.Alone(opts.rules, rng)
        self._failures: list[restarts.Failure] = []
        self._story: list[tuple[Attempt, restarts.Decision | None]] = []
        self._ports: collections.deque[list[int]] = collections.deque(maxlen=_AVOIDED_ATTEMPTS)
        self._status = status.StatusFile(opts.model_dir, self._say)
        before = training_file.read(opts.model_dir) if opts.model_dir else None
        self._checkpoint = self._named_step()  # of which the next attempt goes on
        if self._checkpoint is None and before:
            self._checkpoint = before.checkpoint_step
        self._said_removed = False
        self._started = 0  # the attempt whose start was told last
        self._pages = None
        if opts.model_dir and report_page.wanted(opts.report, machine.environ):
            self._pages = report_page.Pages(opts.model_dir, self._say)
        self._last: dict = {}  # what status.json says, but for what changes by itself
        self._shown: dict = {}  # what it said last

    def run(self, claim: ports.Claim, folder: pathlib.Path) -> int:
        """Starts gangs until there is nothing more to do. The exit code.

        Args:
          claim: ports of the first gang; it is closed.
          folder: of its logs.
        """
        self._remove_old_report()
        for console in (self._machine.out, self._machine.err):
            console.kept_in = f'the log files in {folder.parent}'
        with (
            Signals(also=(PROFILE,)) as signals,
            last_line.erased_by_signals(self._terminal.without_line),
            self._serving(),
            self._pages or contextlib.nullcontext(),
        ):
            while True:
                with claim, log_folders.in_use(folder):
                    self._remove_old_logs(folder)
                    attempt = self._attempt(claim.ports, folder, signals)
                code, decision = self._judge(attempt)
                self._story.append((attempt, decision))
                if decision is None or not decision.restart:
                    return self._end(code, stopped=attempt.outcome.signum is not None)
                signum = self._back_off(decision.delay, signals)
                if signum:
                    self._say(f'received {messages.order(signum)}: no restart')
                    return self._end(128 + signum, stopped=True)
                try:
                    claim = self._claim()
                    folder = log_folders.new(str(folder.parent))
                except OSError as error:
                    claim.close()
                    self._say(f'no restart: {error}')
                    no_ports = isinstance(error, ports.NoPorts)
                    return self._end(exit_codes.FAILED if no_ports else exit_codes.CANNOT_WRITE)

    def _serving(self) -> contextlib.AbstractContextManager:
        """Serves the metrics of the cluster, if that is wanted."""
        if self._machine.metrics is None:
            return contextlib.nullcontext()
        return server.of_run(
            self._machine.metrics, lambda: state.of_cluster(self._opts.model_dir, self._shown), self._say
        )

    def _named_step(self) -> int | None:
        return checkpoint_file.named_step(self._opts.model_dir) if self._opts.model_dir else None

    def _claim(self) -> ports.Claim:
        shape = dataclasses.replace(self._opts.shape, workers=self._workers)
        return ports.claim(shape.size, {port for taken in self._ports for port in taken})

    def _attempt(self, claimed: Sequence[int], folder: pathlib.Path, signals: Signals) -> Attempt:
        """Runs one gang."""
        opts, machine, number = self._opts, self._machine, len(self._story) + 1
        self._ports.append(list(claimed))
        generation = f'{number}-{secrets.token_hex(4)}'
        inherited = allocator.environment(machine.environ) if opts.allocator == 'auto' else machine.environ
        environ = task_commands.environment(inherited, generation, self._began_at, machine.isolated, opts.shape.workers)
        commands = gang(opts, machine, self._workers, claimed, environ)
        addresses = {command.name: command.address for command in commands}
        watch = training_status.Watch(opts.model_dir, generation, opts.limits.stall_timeout, time.monotonic())

        started, kills = time.time(), oom.kills()

        def show(view: status.View, over: bool = False) -> None:
            if self._started < number:  # every task has its process now
                self._started = number
                pids = {task.name: task.pid for task in view.tasks}
                self._say(messages.start(commands, pids, len(machine.cores), folder))
            self._last = {
                'attempt': number,
                'generation': generation,
                'restarts': number - 1,
                **status.of_training(watch.training, self._checkpoint),
                'secs_left': None if over else watch.secs_left,
                'tasks': status.of_tasks(view, addresses),
                'log_dir': str(folder),
                'started': self._began_at,
                'attempt_started': started,
                'attempts': report.attempts(self._story[-status.LATEST :]),
                'pid': os.getpid(),
            }
            if not over:  # what comes next is not known yet
                self._show(status.state(view, watch.training))

        launcher = LocalLauncher(folder, machine.out, machine.err, opts.log_bounds)
        supervisor = Supervisor(launcher, opts.limits, machine.err, self._alone, watch, show, opts.profile_tasks)
        outcome = supervisor.run(commands, signals)
        attempt = Attempt(
            number,
            generation,
            self._workers,
            addresses,
            folder,
            started,
            outcome,
            watch.training,
            self._checkpoint,
            self._named_step(),
            (oom.kills() or 0) - (kills or 0),
        )
        self._checkpoint = attempt.checkpoint
        show(status.View(tasks=status.task_views(addresses, {}, (), outcome.ended)), over=True)
        return attempt

    def _judge(self, attempt: Attempt) -> tuple[int, restarts.Decision | None]:
        """Says how the attempt ended. The exit code, if this is the end, and what follows."""
        outcome, rules = attempt.outcome, self._opts.rules
        cause = outcome.stop.cause
        witness = cause and (cause.ended or cause.reporter)
        log = witness and logs.path_of(attempt.folder, cause.name, 'err', cause.ended.life if cause.ended else 1)
        self._say(messages.closing(attempt, log, logs.tail(log) if log else ()))
        if outcome.signum:
            return policy.code_of_stopped(outcome, attempt.training.state if attempt.training else None), None
        if outcome.stop.why not in (Why.FAILED, Why.STALLED):
            return outcome.stop.exit_code, None
        self._failures.append(self._failure(outcome))
        decision = restarts.decide(self._failures, rules, self._rng)
        if decision.restart:
            self._shrink(cause)
            own = self._opts.program is not None
            self._say(messages.restart(decision, rules.max_restarts, attempt.checkpoint, cause, own))
        else:
            self._say(messages.no_restart(decision, rules, cause))
        return decision.exit_code, decision

    def _failure(self, outcome: Outcome) -> restarts.Failure:
        cause = outcome.stop.cause
        error = cause.ended.error if cause.ended else None
        return restarts.Failure(
            at=time.monotonic(),
            code=cause.code,
            checkpoint=self._checkpoint or 0,
            task=cause.name,
            step=error.step if error else None,
            workers=self._workers,
            never_started=bool(cause.ended and cause.ended.never_started),
            alone=task_commands.restarts_alone(cause.name, self._opts.shape.asynchronous),
        )

    def _shrink(self, cause: Cause) -> None:
        """Goes on with fewer workers, if that is wanted, of use and possible."""
        opts = self._opts
        if opts.min_workers is None or not restarts.is_at_fault_again(self._failures):
            return
        global_batch = opts.batch_size * opts.shape.workers
        workers = restarts.fewer_workers(self._workers, opts.min_workers, global_batch)
        if workers is None:
            self._say(messages.no_shrinking(cause, opts.min_workers, global_batch))
            return
        self._workers = workers
        self._say(messages.shrinking(cause, workers, global_batch // workers))

    def _back_off(self, secs: float, signals: Signals) -> signal.Signals | None:
        """Waits. A signal ends that at once, and is returned."""
        until = time.monotonic() + secs
        with selectors.DefaultSelector() as selector:
            selector.register(signals, selectors.EVENT_READ)
            while True:
                received = [signum for signum in signals.take() if signum != PROFILE]  # there is no task now
                left = until - time.monotonic()
                if received or left <= 0:
                    return received[0] if received else None
                self._show(status.BACKING_OFF)
                selector.select(min(left, status.EVERY_SECS))

    def _show(self, state: str, **more) -> None:
        told = self._shown = {**self._last, 'state': state, 'exit_code': None, **more, 'time': time.time()}
        self._status.write(told)
        if self._terminal.has_line:
            folder = self._opts.model_dir
            last = metrics_log.last(os.path.join(folder, 'metrics.jsonl')) if folder else {}
            parts = progress.of_cluster(told, last)
            self._terminal.show((lambda width: progress.joined(parts, width)) if parts else None)

    def _remove_old_report(self) -> None:
        """What is there tells of another run."""
        if self._report:
            with contextlib.suppress(OSError):
                os.unlink(self._report)

    def _remove_old_logs(self, folder: pathlib.Path) -> None:
        """Says so, once."""
        keep = self._opts.log_bounds.attempts
        removed = log_folders.remove_old(folder, keep)
        if removed and not self._said_removed:
            self._said_removed = True
            self._say(
                f'{folder.parent}: the oldest logs are removed ({", ".join(removed)}), the newest {keep} '
                'attempts stay (--keep_attempts)'
            )

    def _end(self, code: int, stopped: bool = False) -> int:
        """The last words. Returns `code`."""
        document = report.document(code, self._began_at, time.time(), self._story)
        status.JsonFile(self._report, self._say).write(document)
        state = status.STOPPED if stopped else status.FAILED if code else status.DONE
        self._show(state, exit_code=code)
        secs = time.monotonic() - self._began
        if self._pages and not stopped:  # who stops a run does not wait for a page
            self._pages.last()
        knows = self._opts.model_dir and not self._opts.program
        left = messages.on_disk(self._checkpoint) if stopped and knows else ''
        self._say(messages.end(code, secs, len(self._story) - 1, protocol.shown(self._report, os.environ), left))
        return code
