"""A run on this machine: the commands of its gangs, its ports, its logs, what it shows and reports."""

import collections
import contextlib
import dataclasses
import os
import pathlib
import random
import re
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence

from estimator_trainer import exit_codes
from estimator_trainer.monitoring import progress_line, report_page, run_state, server
from estimator_trainer.monitoring.training_progress import TrainingFollower
from estimator_trainer.run_dir import file_names, log_folders, protocol, removal, run_starts, status_file
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.supervisor.gang import Gang
from estimator_trainer.supervisor.options import Options
from estimator_trainer.supervisor.policy import restarts, task_commands
from estimator_trainer.supervisor.policy.causes import Cause, GangOutcome
from estimator_trainer.supervisor.processes import local_launcher, ports
from estimator_trainer.supervisor.reports import report_file, wording
from estimator_trainer.supervisor.supervisor import CannotGoOn, Supervisor
from estimator_trainer.this_process import allocator, gpus, last_line
from estimator_trainer.this_process.console import Console
from estimator_trainer.this_process.signal_pipe import Signals

_AVOIDED_ATTEMPTS = 100  # whose ports are not used again
_COMPAT_RUN = (sys.executable, '-m', 'estimator_trainer.compat', 'run')


@dataclasses.dataclass(frozen=True)
class Machine:
    """What a run on this machine works with."""

    trainer: Sequence[str]  # its command, without flags
    environ: Mapping[str, str]
    cores: Sequence[int]
    out: Console
    err: Console
    isolated: bool
    metrics: socket.socket | None = None  # listens at --metrics_port


def gang_commands(
    opts: Options, machine: Machine, workers: int, claimed: Sequence[int], environ: Mapping[str, str]
) -> list[task_commands.TaskCommand]:
    """The commands of a gang with `workers` at the `claimed` ports."""
    shape = dataclasses.replace(opts.shape, workers=workers)
    flags = [*opts.words]
    if workers != opts.shape.workers:
        flags.append(f'--batch_size={opts.trainer.config.batch_size * opts.shape.workers // workers}')
    if opts.trainer.config.metrics_port:  # the supervisor serves for all tasks
        flags.append('--metrics_port=')
    program = task_commands.Program(machine.trainer, flags)
    if opts.own.program is not None:
        program = task_commands.Program((*_COMPAT_RUN, *opts.switches, opts.own.program), flags, is_trainer=False)
    addresses = [f'127.0.0.1:{port}' for port in claimed]
    affinity = opts.own.cpu_affinity and hasattr(os, 'sched_setaffinity')
    seen = None
    if program.is_trainer and gpus.VISIBLE not in environ and (there := gpus.on_machine()):
        seen = task_commands.Gpus(there, opts.trainer.config.num_replicas or None)
    return task_commands.commands(shape, addresses, program, environ, machine.cores, affinity, seen)


class LocalSupervisor(Supervisor[list[int]]):
    """Runs the cluster to its end on this machine. Its model_dir, if it has one here, is locked.

    Args:
      claim: the ports of the first gang; it is closed.
      folder: for the logs of the first gang.
    """

    def __init__(self, opts: Options, machine: Machine, rng: random.Random, claim: ports.Claim, folder: pathlib.Path):
        super().__init__(opts.rules, opts.limits, opts.shape.asynchronous, machine.err, rng)
        self._opts, self._machine = opts, machine
        self._claimed: ports.Claim | None = claim
        self._folder = folder
        self._terminal = machine.err if machine.err.has_line else machine.out  # the one that may have a last line
        self._report = opts.model_dir and os.path.join(opts.model_dir, file_names.REPORT)
        self.workers = opts.shape.workers
        self.is_program = opts.own.program is not None
        self._earlier: list[dict] = []  # starts of the run before this one
        self._attempts: list[restarts.Attempt] = []  # of this start, that have ended
        self._ports: collections.deque[list[int]] = collections.deque(maxlen=_AVOIDED_ATTEMPTS)
        self._status = report_file.StatusFile(opts.model_dir, self._say)
        self.checkpoint = self._named_step()
        if self.checkpoint is None and opts.model_dir and (before := RunFolder(opts.model_dir).training_status):
            self.checkpoint = before.checkpoint_step
        self._said_removed = False
        self._announced = ''  # the generation of which it was said that it has started
        self._pages = None
        if opts.model_dir and report_page.is_on(opts.trainer.config.report, machine.environ, self._say):
            self._pages = report_page.Pages(opts.model_dir, self._say)
        self._attempt: dict = {}  # what status.json says of an attempt from its beginning to its end
        self._kills: int | None = None  # by the kernel, before the attempt
        self._known: dict = {}  # what status.json says, except for its state and the time
        self._written: dict = {}  # what it said last

    def run(self) -> int:
        """Runs gangs until the run ends. Returns the exit code."""
        self._take_over()
        for console in (self._machine.out, self._machine.err):
            console.kept_in = f'the log files in {self._folder.parent}'
        with (
            Signals(also=(protocol.PROFILE_SIGNAL,)) as signals,
            last_line.erased_by_signals(self._terminal.without_line),
            self._serving(),
            self._pages or contextlib.nullcontext(),
        ):
            return self._end(signals, *self._run_gangs(signals))

    def _serving(self) -> contextlib.AbstractContextManager:
        """Serves the metrics of the cluster at --metrics_port."""
        model_dir = self._opts.model_dir
        if self._machine.metrics is None or model_dir is None:
            return contextlib.nullcontext()
        return server.of_run(self._machine.metrics, lambda: run_state.of_cluster(model_dir, self._written), self._say)

    def _named_step(self) -> int | None:
        return RunFolder(self._opts.model_dir).named_step if self._opts.model_dir else None

    @contextlib.contextmanager
    def _place(self, signals: Signals) -> Iterator[list[int]]:
        """The ports of the next gang. Its folder of logs is in use."""
        claim, self._claimed = self._claimed or self._new_place(), None
        with claim, log_folders.in_use(self._folder):
            self._remove_old_logs()
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

    def _make_gang(self, place: list[int], generation: str) -> Gang:
        opts, machine, files = self._opts, self._machine, self._status.files
        self._ports.append(place)
        inherited = machine.environ
        if opts.trainer.config.allocator == 'auto':
            inherited = allocator.environment(inherited)
        environ = task_commands.environment(inherited, generation, self._began_at, machine.isolated, opts.shape.workers)
        self._kills = local_launcher.memory_kills()
        self._attempt = {
            'start': self._number,
            'attempt': len(self._attempts) + 1,
            'generation': generation,
            'restarts': len(self._attempts),
            'checkpoint_before': self.checkpoint,
            'log_dir': str(self._folder),
            'started': self._began_at,
            'attempt_started': time.time(),
            'pid': os.getpid(),
        }
        gang = Gang(
            gang_commands(opts, machine, self.workers, place, environ),
            local_launcher.LocalLauncher(self._folder, machine.out, machine.err, opts.log_bounds),
            opts.limits,
            machine.err,
            self._budgets,
            TrainingFollower(opts.model_dir, generation, opts.limits.stall_timeout, time.monotonic(), files),
            lambda view: self._show_gang(gang, view),
            opts.trainer.config.profile_tasks,
        )
        return gang

    def _show_gang(self, gang: Gang, view: report_file.GangView, ended: bool = False) -> None:
        if self._announced != self._attempt['generation']:  # every task has its process now
            self._announced = self._attempt['generation']
            pids = {task['name']: task['pid'] for task in view.tasks}
            self._say(wording.start(gang.commands, pids, len(self._machine.cores), self._folder))
        self._known = {
            **self._attempt,
            **report_file.training_fields(gang.follower.training, self.checkpoint),
            'task_restarts': self._budgets.made,
            'secs_left': None if ended else gang.follower.secs_left,
            'tasks': report_file.task_fields(view, _addresses(gang)),
        }
        if not ended:  # what comes next is not known yet
            self._show(report_file.state(view, gang.follower.training))

    def _gang_ended(self, gang: Gang, outcome: GangOutcome) -> None:
        addresses, folder = _addresses(gang), self._opts.model_dir and RunFolder(self._opts.model_dir)
        files, started = self._status.files, self._attempt['attempt_started']
        attempt = restarts.Attempt(
            self._attempt['attempt'],
            self._attempt['generation'],
            self.workers,
            addresses,
            self._folder,
            started,
            outcome,
            gang.follower.training,
            self._attempt['checkpoint_before'],
            files.call(self._named_step, None),
            (local_launcher.memory_kills() or 0) - (self._kills or 0),
            files.call(lambda: folder.reported_step(started), None) if folder else None,
        )
        self._attempts.append(attempt)
        self.checkpoint = attempt.checkpoint
        tasks = report_file.task_states(addresses, {}, (), outcome.ended)
        self._show_gang(gang, report_file.GangView(tasks=tasks), ended=True)
        log, cause = None, outcome.end.cause
        if cause and cause.evidence:
            log = log_folders.path_of(self._folder, cause.name, 'err', cause.ended.life if cause.ended else 1)
        self._say(wording.closing(attempt, log, files.call(lambda: log_folders.tail(log), ()) if log else ()))

    def _ended_attempts(self) -> list[tuple[restarts.Attempt, restarts.Decision | None]]:
        """The attempts that have ended, and what followed each."""
        return list(zip(self._attempts, self._decisions))

    def _adapt(self, cause: Cause) -> None:
        """Goes on with fewer workers, if --min_workers allows it and it helps."""
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

    def _show(self, state: str, exit_code: int | None = None) -> None:
        """Writes status.json and the last line of the terminal."""
        attempts = report_file.attempts(self._ended_attempts()[-report_file.LATEST :])
        known = {**self._known, 'attempts': attempts} if self._known else {}
        status = self._written = {**known, 'state': state, 'exit_code': exit_code, 'time': time.time()}
        self._status.write(status)
        if self._terminal.has_line:
            folder = self._opts.model_dir
            last: dict = self._status.files.call(lambda: RunFolder(folder).newest_metrics, {}) if folder else {}
            parts = progress_line.cluster_line(status, last)
            self._terminal.show((lambda width: progress_line.joined(parts, width)) if parts else None)

    @property
    def _number(self) -> int:
        """The number of this start of the run."""
        return self._earlier[-1]['start'] + 1 if self._earlier else 1

    def _take_over(self) -> None:
        """Keeps what the files of the model_dir say of earlier starts; report.json will be about this one."""
        if self._opts.model_dir is None or self._report is None:
            return
        run = RunFolder(self._opts.model_dir)
        starts = run_starts.starts(
            run.earlier_starts, run.report, run.status, run.training, False, False, run.last_metrics, run.named_step
        )
        self._earlier = run_starts.newest(starts)
        history = report_file.JsonFile(run.file(file_names.EARLIER_STARTS), self._say, durable=True)
        if not self._earlier or history.write({run_starts.KEY: self._earlier}):  # or report.json alone knows of them
            with contextlib.suppress(OSError):
                removal.file(self._report, removal.Named(re.escape(file_names.REPORT)))

    def _remove_old_logs(self) -> None:
        """Removes the oldest logs, and says so once."""
        keep = self._opts.log_bounds.attempts
        removed = log_folders.remove_old(self._folder, keep)
        if removed and not self._said_removed:
            self._said_removed = True
            self._say(
                f'{self._folder.parent}: the oldest logs are removed ({", ".join(removed)}), the newest {keep} '
                'attempts stay (--keep_attempts)'
            )

    def _end(self, signals: Signals, code: int, stopped: bool) -> int:
        """Says and writes how the run has ended. Returns `code`."""
        times = self._began_at, time.time()
        document = report_file.document(code, *times, self._ended_attempts(), self._number, self._earlier)
        self._status.last(lambda: report_file.JsonFile(self._report, self._say).write(document))
        state = status_file.STOPPED if stopped else status_file.FAILED if code else status_file.DONE
        self._show(state, exit_code=code)
        secs = time.monotonic() - self._began
        if self._pages and not stopped:  # who stops a run does not wait for a page
            self._pages.last(told=lambda: {*signals.take()} - {protocol.PROFILE_SIGNAL})
        knows = self._opts.model_dir and not self.is_program
        left = wording.on_disk(self.checkpoint) if stopped and knows else ''
        report = protocol.path_for_user(self._report, os.environ) if self._report else None
        self._say(wording.end(code, secs, document['restarts'], report, left, document['task_restarts']))
        return code


def _addresses(gang: Gang) -> dict[str, str]:
    return {command.name: command.address for command in gang.commands}
