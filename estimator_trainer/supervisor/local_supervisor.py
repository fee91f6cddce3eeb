"""A run on this machine: its ports, its logs, what it shows and reports."""

import collections
import contextlib
import dataclasses
import os
import pathlib
import random
import re
import time
from collections.abc import Iterator

from estimator_trainer import exit_codes
from estimator_trainer.monitoring import report_page, run_state, server
from estimator_trainer.run_dir import file_names, protocol, removal, run_starts, status_file, training_file
from estimator_trainer.run_dir.protocol import PROFILE_SIGNAL
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.supervisor.gang import Gang
from estimator_trainer.supervisor.local_machine import Machine, gang
from estimator_trainer.supervisor.options import Options
from estimator_trainer.supervisor.policy import restarts, task_commands
from estimator_trainer.supervisor.policy.causes import Cause, GangOutcome
from estimator_trainer.supervisor.processes import last_line, log_folders, logs, oom, ports
from estimator_trainer.supervisor.processes.local_launcher import LocalLauncher
from estimator_trainer.supervisor.reports import progress_line, report_file, status, training_status, wording
from estimator_trainer.supervisor.reports.attempt import Attempt
from estimator_trainer.supervisor.supervisor import CannotGoOn, Supervisor
from estimator_trainer.this_process import allocator
from estimator_trainer.this_process.signal_pipe import Signals

_AVOIDED_ATTEMPTS = 100  # whose ports are not used again


class LocalSupervisor(Supervisor):
    """Runs the cluster to its end on this machine. Its model_dir, if it has one here, is locked.

    Args:
      claim: ports of the first gang; it is closed.
      folder: of its logs.
    """

    def __init__(self, opts: Options, machine: Machine, rng: random.Random, claim: ports.Claim, folder: pathlib.Path):
        super().__init__(opts.rules, opts.limits, opts.shape.asynchronous, machine.err, rng)
        self._opts, self._machine = opts, machine
        self._claimed: ports.Claim | None = claim
        self._folder = folder
        self._terminal = machine.err if machine.err.has_line else machine.out  # the one that may have a last line
        self._report = opts.model_dir and os.path.join(opts.model_dir, report_file.REPORT_FILE)
        self.workers = opts.shape.workers
        self.is_program = opts.own.program is not None
        self._earlier: list[dict] = []  # starts of the run before this one
        self._attempts: list[Attempt] = []  # of this start, that have ended
        self._ports: collections.deque[list[int]] = collections.deque(maxlen=_AVOIDED_ATTEMPTS)
        self._status = status.StatusFile(opts.model_dir, self._say)
        before = RunFolder(opts.model_dir).training_status if opts.model_dir else None
        self.checkpoint = self._named_step()
        if self.checkpoint is None and before:
            self.checkpoint = before.checkpoint_step
        self._said_removed = False
        self._started = 0  # the attempt whose start was told last
        self._pages = None
        if opts.model_dir and report_page.wanted(opts.trainer.config.report, machine.environ):
            self._pages = report_page.Pages(opts.model_dir, self._say)
        self._last: dict = {}  # what status.json says, but for what changes by itself
        self._shown: dict = {}  # what it said last

    def run(self) -> int:
        """Starts gangs until there is nothing more to do. The exit code."""
        self._take_over()
        for console in (self._machine.out, self._machine.err):
            console.kept_in = f'the log files in {self._folder.parent}'
        with (
            Signals(also=(PROFILE_SIGNAL,)) as signals,
            last_line.erased_by_signals(self._terminal.without_line),
            self._serving(),
            self._pages or contextlib.nullcontext(),
        ):
            return self._end(*self._gangs(signals))

    def _serving(self) -> contextlib.AbstractContextManager:
        """Serves the metrics of the cluster, if that is wanted."""
        model_dir = self._opts.model_dir
        if self._machine.metrics is None or model_dir is None:
            return contextlib.nullcontext()
        return server.of_run(self._machine.metrics, lambda: run_state.of_cluster(model_dir, self._shown), self._say)

    def _named_step(self) -> int | None:
        return RunFolder(self._opts.model_dir).named_step if self._opts.model_dir else None

    @contextlib.contextmanager
    def _place(self, signals: Signals) -> Iterator[list[int]]:
        """The ports of the next gang. Its folder of logs is in use."""
        claim, self._claimed = self._claimed or self._new_place(), None
        with claim, log_folders.in_use(self._folder):
            self._remove_old_logs(self._folder)
            yield claim.ports

    def _new_place(self) -> ports.Claim:
        shape = dataclasses.replace(self._opts.shape, workers=self.workers)
        try:
            with contextlib.ExitStack() as stack:
                avoided = {port for taken in self._ports for port in taken}
                claim = stack.enter_context(ports.claim(shape.size, avoided))
                self._folder = log_folders.new(str(self._folder.parent))
                stack.pop_all()
                return claim
        except OSError as error:
            code = exit_codes.FAILED if isinstance(error, ports.NoPorts) else exit_codes.CANNOT_WRITE
            raise CannotGoOn(f'no restart: {error}', code) from None

    def _attempt(
        self, place: list[int], generation: str, signals: Signals
    ) -> tuple[GangOutcome, training_file.TrainingStatus | None]:
        opts, machine, number, folder = self._opts, self._machine, len(self._attempts) + 1, self._folder
        self._ports.append(place)
        inherited = machine.environ
        if opts.trainer.config.allocator == 'auto':
            inherited = allocator.environment(inherited)
        environ = task_commands.environment(inherited, generation, self._began_at, machine.isolated, opts.shape.workers)
        commands = gang(opts, machine, self.workers, place, environ)
        addresses = {command.name: command.address for command in commands}
        watch = training_status.TrainingFollower(
            opts.model_dir, generation, opts.limits.stall_timeout, time.monotonic()
        )

        started, kills, before = time.time(), oom.kills(), self.checkpoint

        def show(view: status.View, over: bool = False) -> None:
            if self._started < number:  # every task has its process now
                self._started = number
                pids = {task.name: task.pid for task in view.tasks}
                self._say(wording.start(commands, pids, len(machine.cores), folder))
            self._last = {
                'start': self._number,
                'attempt': number,
                'generation': generation,
                'restarts': number - 1,
                'checkpoint_before': before,
                **status.of_training(watch.training, self.checkpoint),
                'secs_left': None if over else watch.secs_left,
                'tasks': status.of_tasks(view, addresses),
                'log_dir': str(folder),
                'started': self._began_at,
                'attempt_started': started,
                'pid': os.getpid(),
            }
            if not over:  # what comes next is not known yet
                self._show(status.state(view, watch.training))

        launcher = LocalLauncher(folder, machine.out, machine.err, opts.log_bounds)
        supervisor = Gang(
            launcher, opts.limits, machine.err, self._alone, watch, show, opts.trainer.config.profile_tasks
        )
        outcome = supervisor.run(commands, signals)
        attempt = Attempt(
            number,
            generation,
            self.workers,
            addresses,
            folder,
            started,
            outcome,
            watch.training,
            before,
            self._named_step(),
            (oom.kills() or 0) - (kills or 0),
        )
        self._attempts.append(attempt)
        self.checkpoint = attempt.checkpoint
        show(status.View(tasks=status.task_views(addresses, {}, (), outcome.ended)), over=True)
        cause = outcome.end.cause
        log = (
            cause and cause.told_by and logs.path_of(folder, cause.name, 'err', cause.ended.life if cause.ended else 1)
        )
        self._say(wording.closing(attempt, log, logs.tail(log) if log else ()))
        return outcome, watch.training

    def _ended_attempts(self) -> list[tuple[Attempt, restarts.Decision | None]]:
        """The attempts that have ended, and what followed each."""
        return list(zip(self._attempts, self._decisions))

    def _adapt(self, cause: Cause) -> None:
        """Goes on with fewer workers, if that is wanted, of use and possible."""
        opts = self._opts
        if opts.own.min_workers is None or not restarts.is_at_fault_again(self._history.failures):
            return
        global_batch = opts.trainer.config.batch_size * opts.shape.workers
        workers = restarts.fewer_workers(self.workers, opts.own.min_workers, global_batch)
        if workers is None:
            self._say(wording.no_shrinking(cause, opts.own.min_workers, global_batch))
            return
        self.workers = workers
        self._say(wording.shrinking(cause, workers, global_batch // workers))

    def _look(self) -> None:
        self._show(status_file.BACKING_OFF)

    def _show(self, state: str, **more) -> None:
        known = {}
        if self._last:
            known = {**self._last, 'attempts': report_file.attempts(self._ended_attempts()[-status.LATEST :])}
        told = self._shown = {**known, 'state': state, 'exit_code': None, **more, 'time': time.time()}
        self._status.write(told)
        if self._terminal.has_line:
            folder = self._opts.model_dir
            last = RunFolder(folder).newest_metrics if folder else {}
            parts = progress_line.of_cluster(told, last)
            self._terminal.show((lambda width: progress_line.joined(parts, width)) if parts else None)

    @property
    def _number(self) -> int:
        """Of this start of the run."""
        return self._earlier[-1]['start'] + 1 if self._earlier else 1

    def _take_over(self) -> None:
        """Keeps what the files of the model_dir tell of earlier starts; report.json will tell of this one."""
        if self._opts.model_dir is None or self._report is None:
            return
        run = RunFolder(self._opts.model_dir)
        starts = run_starts.starts(run.earlier_starts, run.report, run.status, run.training)
        self._earlier = run_starts.newest(starts)
        if self._earlier:
            status.JsonFile(run.file(file_names.EARLIER_STARTS), self._say).write({run_starts.KEY: self._earlier})
        with contextlib.suppress(OSError):
            removal.file(self._report, removal.Named(re.escape(report_file.REPORT_FILE)))

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

    def _end(self, code: int, stopped: bool) -> int:
        """Says and writes how the run has ended. Returns `code`."""
        attempts = self._ended_attempts()
        document = report_file.document(code, self._began_at, time.time(), attempts, self._number, self._earlier)
        status.JsonFile(self._report, self._say).write(document)
        state = status_file.STOPPED if stopped else status_file.FAILED if code else status_file.DONE
        self._show(state, exit_code=code)
        secs = time.monotonic() - self._began
        if self._pages and not stopped:  # who stops a run does not wait for a page
            self._pages.last()
        knows = self._opts.model_dir and not self.is_program
        left = wording.on_disk(self.checkpoint) if stopped and knows else ''
        report = protocol.shown(self._report, os.environ) if self._report else None
        self._say(wording.end(code, secs, len(self._attempts) - 1, report, left))
        return code
