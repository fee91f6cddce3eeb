"""The loop: runs one gang of tasks to its end, in one thread."""

import dataclasses
import random
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Sequence

from estimator_trainer.exit_codes import STALLED
from estimator_trainer.monitoring.profiles import wanted
from estimator_trainer.run_dir.protocol import PROFILE_SIGNAL
from estimator_trainer.supervisor.launcher import CannotStart, Launcher, StartedTask, never_started
from estimator_trainer.supervisor.policy import causes
from estimator_trainer.supervisor.policy.causes import Cause, GangEnd, GangEndKind, GangOutcome, TaskEnd
from estimator_trainer.supervisor.policy.gang_limits import Limits
from estimator_trainer.supervisor.policy.restarts import Alone, Rules
from estimator_trainer.supervisor.policy.task_commands import TaskCommand
from estimator_trainer.supervisor.processes.console import Console
from estimator_trainer.supervisor.reports import wording
from estimator_trainer.supervisor.reports.status import View, task_views
from estimator_trainer.supervisor.reports.training_status import TrainingFollower
from estimator_trainer.this_process.signal_pipe import Signals

CAUSE_SECS = 2  # after a symptom: a dead peer is reaped within milliseconds
STACKS_SECS = 2  # for stacks to arrive in the logs
_LONGEST_WAIT_SECS = 3600  # more than this a selector may not take


@dataclasses.dataclass(frozen=True)
class Waiting:
    """A task that will be restarted alone."""

    command: TaskCommand
    life: int  # the one to come
    due: float
    last: TaskEnd  # of the life before


class Gang:
    """Runs one gang. Make one for each attempt.

    Args:
      launcher: starts its tasks.
      limits: how long things may take.
      console: for what we have to say.
      alone: restarts of single tasks; none without.
      watch: looks at the training of this gang; nobody does without.
      show: called about every second where somebody watches, and at every change.
      profile_tasks: the trainer's flag: which tasks get the PROFILE_SIGNAL signals that come to us.
    """

    def __init__(
        self,
        launcher: Launcher,
        limits: Limits,
        console: Console,
        alone: Alone | None = None,
        watch: TrainingFollower | None = None,
        show: Callable[[View], None] = lambda view: None,
        profile_tasks: str = wanted.CHIEF,
    ):
        self._launcher, self._limits, self._say = launcher, limits, console.say
        self._alone = alone or Alone(Rules(max_restarts=0), random.Random())
        self._watch = watch or TrainingFollower(None, '', 0, 0)
        self._show = show
        self._profile_tasks = profile_tasks
        self._numbers: dict[str, int] = {}  # by name of task
        self._running: list[StartedTask] = []
        self._waiting: list[Waiting] = []
        self._ended: list[TaskEnd] = []
        self._began: dict[str, float] = {}  # of the life of a task that began last, on our clock
        self._failures: list[TaskEnd] = []  # those that the gang does not survive
        self._over: GangEnd | None = None
        self._signum: signal.Signals | None = None
        self._judge_at: float | None = None
        self._drain_until: float | None = None
        self._kill_at: float | None = None

    def run(self, gang: Sequence[TaskCommand], signals: Signals) -> GangOutcome:
        """Starts every task of `gang`, and returns when all have ended.

        1. All tasks end with 0: done.
        2. A task fails or cannot be started, and the others can do without it: it alone is restarted, as often
           as `alone` allows.
        3. The others cannot do without it: they are killed. If the task was stopped and has saved, the others get
           SIGTERM, and SIGKILL after `grace_secs`. If the task failed because it lost another one, the supervisor
           first waits CAUSE_SECS for the end of that one.
        4. No step is finished for too long: every task prints its stacks, and is killed.
        5. A signal to us: all are stopped. Ctrl-C while tasks are being stopped kills them at once.
        6. Training is done, but a ps or the evaluator still runs after `drain_secs`: all are stopped.
        7. All tasks have ended with 0, but for those that serve for ever: these are stopped, and the gang is done.

        Whatever happens here, an exception too, no process of a task's group is left.

        Args:
          gang: at least one task that trains; the first that does is the chief.
          signals: entered.
        """
        self._started, self._gang = time.monotonic(), gang
        self._numbers = {command.name: number for number, command in enumerate(gang)}
        with selectors.DefaultSelector() as selector:
            selector.register(signals, selectors.EVENT_READ)
            self._selector = selector
            try:
                self._start()
                while self._running or self._waiting:
                    for key, _ in selector.select(self._timeout()):
                        if key.data is not None:
                            key.data.read(key.fd)
                    self._step(signals.take())
            finally:
                for task in self._running:
                    task.kill()  # all, before anything else can go wrong
                for task in self._running:
                    task.close()
        self._watch.look_now()
        secs = time.monotonic() - self._started
        end = causes.settled(self._over or GangEnd(GangEndKind.DONE), self._ended)
        return GangOutcome(end, tuple(self._ended), secs, self._signum)

    def _timeout(self) -> float:
        deadlines = [self._watch.next_look, time.monotonic() + self._launcher.look_secs]
        if self._over:
            deadlines.append(self._kill_at)
        else:
            deadlines += [self._judge_at, self._drain_until, *(task.due for task in self._waiting)]
        first = min((at for at in deadlines if at is not None), default=float('inf'))
        return min(max(0.0, first - time.monotonic()), _LONGEST_WAIT_SECS)

    def _step(self, received: Sequence[signal.Signals]) -> None:
        """Looks at what happened since the last step, and acts on it."""
        now = time.monotonic()
        ended, stopping = self._reap(now), self._over
        looked = self._watch.look(now)
        for signum in received:
            if signum == PROFILE_SIGNAL:
                self._profile()
            else:
                self._on_signal(signum)
        if self._over is None:
            self._judge([task for task in ended if task.code != 0], now)
        started = self._over is None and self._start_again(now)
        if self._over is None and self._watch.stalled and self._chief_runs():
            why = f'no step was finished in {self._limits.stall_timeout:g} s (--stall_timeout)'
            self._end(GangEnd(GangEndKind.STALLED, Cause('', STALLED)), why)
        if self._over is None:
            self._drain(now)
        elif self._kill_at is not None and now >= self._kill_at:
            self._kill('the time to end is over')
        if looked or ended or started or self._over is not stopping:
            self._show(self._view())

    def _start(self) -> None:
        for command in self._gang:
            failed = self._spawn(command, life=1)
            if failed:
                self._judge([failed], time.monotonic())
            if self._over:
                break
        self._show(self._view())

    def _start_again(self, now: float) -> bool:
        """Starts tasks whose time has come. Whether there were any."""
        due = [task for task in self._waiting if task.due <= now]
        for task in due:
            self._waiting.remove(task)
            if task.command.trains and not self._chief_runs():
                self._failures.append(task.last)  # there is nobody left whom it could join
                self._judge([], now)
                break
            failed = self._spawn(task.command, task.life)
            if failed:
                self._judge([failed], now)
        return bool(due)

    def _spawn(self, command: TaskCommand, life: int) -> TaskEnd | None:
        """Starts a task; its end, if it cannot be started."""
        self._began[command.name] = time.monotonic()
        try:
            task = self._launcher.start(command, self._numbers[command.name], life, self._selector)
        except CannotStart as error:
            secs = time.monotonic() - self._started
            self._ended.append(never_started(command.name, life, secs, error))
            return self._ended[-1]
        self._running.append(task)
        return None

    def _reap(self, now: float) -> list[TaskEnd]:
        ended = []
        for task in tuple(self._running):
            code = task.poll()
            if code is not None:
                self._running.remove(task)
                began = self._began[task.name] - self._started
                ended.append(dataclasses.replace(task.end(code, now - self._started), began=began))
        self._ended += ended
        return ended

    def _judge(self, failed: Iterable[TaskEnd], now: float) -> None:
        """Restarts who can be restarted alone; ends the gang if it has lost anybody else."""
        for task in failed:
            if not self._restarts_alone(task, now):
                self._failures.append(task)
        if not self._failures:
            return
        if self._running and all(causes.is_symptom(task) for task in self._failures):
            if self._judge_at is None:
                self._judge_at = now + CAUSE_SECS
                self._say(wording.symptom(self._failures[0], CAUSE_SECS))
            if now < self._judge_at:
                return
        running = {task.name for task in self._running}
        dead = [task for task in reversed(self._ended) if task.name not in running]
        cause = causes.cause_of(self._failures, dead)
        self._end(GangEnd(GangEndKind.FAILED, cause), wording.cause(cause))

    def _restarts_alone(self, task: TaskEnd, now: float) -> bool:
        command = self._gang[self._numbers[task.name]]
        if not command.alone or (command.trains and not self._chief_runs()):
            return False
        decision = self._alone.decide(task.name, task.exit_code, now)
        self._say(wording.alone(task, decision, self._alone.max_restarts))
        if decision.restart:
            self._waiting.append(Waiting(command, task.life + 1, now + decision.delay, task))
        return decision.restart

    def _drain(self, now: float) -> None:
        if self._chief_runs() or not (self._running or self._waiting):
            return
        late = [name for name in self._names() if not self._gang[self._numbers[name]].serves_for_ever]
        if not late:
            self._end(GangEnd(GangEndKind.DONE), wording.all_but(self._names()))
        elif self._drain_until is None:
            self._drain_until = now + self._limits.drain_secs
            self._say(wording.draining(late, self._limits.drain_secs))
        elif now >= self._drain_until:
            why = f'--drain_secs={self._limits.drain_secs:g} are over'
            self._end(GangEnd(GangEndKind.NOT_DRAINED, late=tuple(late)), why)

    def _on_signal(self, signum: signal.Signals) -> None:
        self._signum = self._signum or signum
        if self._over is None:
            self._end(GangEnd(GangEndKind.SIGNALLED, signum=signum), f'received {wording.order(signum)}')
        elif signum == signal.SIGINT:  # others come twice when a terminal is closed
            self._kill(f'received {wording.order(signum)} while stopping')
        elif self._over.kind is not GangEndKind.SIGNALLED:
            self._say(f'received {signum.name} while stopping: no restart')

    def _end(self, end: GangEnd, why: str) -> None:
        self._over = end
        self._waiting.clear()
        alone = {command.name for command in self._gang if command.alone}
        if end.kind is GangEndKind.FAILED and not causes.can_save(end.at_fault, self._failures, alone):
            self._kill(why)
            return
        signum = signal.SIGINT if end.signum == signal.SIGINT else signal.SIGTERM
        secs = self._limits.grace_secs
        if end.kind is GangEndKind.STALLED:
            signum, secs = signal.SIGUSR1, STACKS_SECS
        self._kill_at = time.monotonic() + secs
        self._say(wording.stopping(why, self._names(), signum, secs))
        self._tell(signum)

    def _kill(self, why: str) -> None:
        self._kill_at = None
        names = self._names()
        self._say(f'{why}; killing {", ".join(names)}' if names else why)
        self._tell(signal.SIGKILL)

    def _tell(self, signum: signal.Signals) -> None:
        for task in self._running:
            task.tell(signum)

    def _profile(self) -> None:
        chosen = [
            task
            for task in self._running
            if task.command.trains and wanted.includes(self._profile_tasks, task.name, task.command is self._chief)
        ]
        self._say(wording.profiling([task.name for task in chosen], self._profile_tasks))
        for task in chosen:
            task.tell(PROFILE_SIGNAL)

    def _names(self) -> list[str]:
        return [task.name for task in self._running] + [task.command.name for task in self._waiting]

    def _chief_runs(self) -> bool:
        """Whether training goes on. The chief ends last; a worker that goes on then is frozen."""
        return any(task.command is self._chief for task in self._running)

    @property
    def _chief(self) -> TaskCommand:
        return next(command for command in self._gang if command.trains)

    def _view(self) -> View:
        running = {task.name: task.pid for task in self._running}
        waiting = {task.command.name for task in self._waiting}
        tasks = task_views(self._numbers, running, waiting, self._ended)
        return View(self._over is not None, self._over is None and not self._chief_runs(), tasks)
