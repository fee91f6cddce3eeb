"""Runs one gang of tasks to its end, in one thread."""

import dataclasses
import random
import selectors
import signal
import time
from collections.abc import Callable, Iterable, Sequence

from estimator_trainer.exit_codes import STALLED
from estimator_trainer.monitoring.profiles import schedule
from estimator_trainer.monitoring.training_progress import TrainingFollower
from estimator_trainer.run_dir.protocol import PROFILE_SIGNAL
from estimator_trainer.supervisor.policy import causes
from estimator_trainer.supervisor.policy.causes import Cause, GangEnd, GangEndKind, GangOutcome, TaskEnd
from estimator_trainer.supervisor.policy.restarts import Limits, Rules, TaskRestartBudgets
from estimator_trainer.supervisor.policy.task_commands import CannotStart, Launcher, StartedTask, TaskCommand
from estimator_trainer.supervisor.reports import wording
from estimator_trainer.supervisor.reports.report_file import GangView, task_states
from estimator_trainer.this_process.child_process import KILLED_SECS
from estimator_trainer.this_process.console import Console
from estimator_trainer.this_process.signal_pipe import Signals

CAUSE_SECS = 2  # after a symptom: a dead peer is reaped within milliseconds
STACKS_SECS = 2  # for stacks to arrive in the logs
_LONGEST_WAIT_SECS = 3600  # more than this a selector may not take


@dataclasses.dataclass(frozen=True)
class PendingRestart:
    """A task that will be restarted alone."""

    command: TaskCommand
    life: int  # the one to come
    due: float
    last_end: TaskEnd  # of the life before


class Gang:
    """One gang, which is run once. Make one for each attempt.

    Args:
      commands: of its tasks. At least one of them trains; the first that does is the chief.
      launcher: starts the tasks.
      limits: how long things may take.
      console: shows what the supervisor has to say.
      budgets: of restarts of single tasks; by default there are no such restarts.
      follower: looks at the training of this gang; by default nothing is known of it.
      show: called about every second if there is a follower, and at every change.
      profile_tasks: the trainer's flag: which tasks get a PROFILE_SIGNAL that comes to this process.

    Attributes:
      commands, follower: as given.
    """

    def __init__(
        self,
        commands: Sequence[TaskCommand],
        launcher: Launcher,
        limits: Limits,
        console: Console,
        budgets: TaskRestartBudgets | None = None,
        follower: TrainingFollower | None = None,
        show: Callable[[GangView], None] = lambda view: None,
        profile_tasks: str = schedule.CHIEF,
    ):
        self.commands = commands
        self._launcher, self._limits, self._say = launcher, limits, console.say
        self._budgets = budgets or TaskRestartBudgets(Rules(max_restarts=0), random.Random())
        self.follower = follower or TrainingFollower(None, '', 0, 0)
        self._show, self._profile_tasks = show, profile_tasks
        self._numbers = {command.name: number for number, command in enumerate(commands)}
        self._chief = next(command for command in commands if command.trains)
        self._running: list[StartedTask] = []
        self._pending: list[PendingRestart] = []
        self._ended: list[TaskEnd] = []
        self._began: dict[str, float] = {}  # when the last life of each task began, on our clock
        self._failures: list[TaskEnd] = []  # those that the gang does not survive
        self._over: GangEnd | None = None
        self._signum: signal.Signals | None = None
        self._judge_at: float | None = None
        self._drain_until: float | None = None
        self._kill_at: float | None = None
        self._give_up_at = float('inf')  # on killed processes

    def run(self, signals: Signals) -> GangOutcome:
        """Starts every task, and returns when all have ended. `signals` is entered.

        1. All tasks end with 0: done.
        2. A task fails or cannot be started, and the others can do without it: it alone is restarted, as often
           as `budgets` allows.
        3. The others cannot do without it: they are killed. If the task was stopped and has saved, the others get
           SIGTERM, and SIGKILL after `grace_secs`. If the task failed because it lost another one, the supervisor
           first waits CAUSE_SECS for the end of that one.
        4. No step is finished for too long: every task prints its stacks, and is killed.
        5. A signal to us: all are stopped. Ctrl-C while tasks are being stopped kills them at once.
        6. Training is done, but a ps or the evaluator still runs after `drain_secs`: all are stopped.
        7. All tasks have ended with 0, but for those that serve for ever: these are stopped, and the gang is done.

        Whatever happens here, an exception too, no process of a task's group is left that the kernel lets go.
        """
        self._started = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(signals, selectors.EVENT_READ)
            self._selector = selector
            try:
                self._start()
                while self._running or self._pending:
                    for key, _ in selector.select(self._timeout()):
                        if key.data is not None:
                            key.data.read(key.fd)
                    self._step(signals.take())
            finally:
                for task in self._running:
                    task.kill()  # all, before anything else can go wrong
                for task in self._running:
                    task.close()
        self.follower.look_now()
        secs = time.monotonic() - self._started
        end = causes.settled(self._over or GangEnd(GangEndKind.DONE), self._ended)
        return GangOutcome(end, tuple(self._ended), secs, self._signum)

    def _timeout(self) -> float:
        deadlines = [self.follower.next_look, time.monotonic() + self._launcher.look_secs]
        if self._over:
            deadlines.append(self._kill_at)
        else:
            deadlines += [self._judge_at, self._drain_until, *(restart.due for restart in self._pending)]
        first = min((at for at in deadlines if at is not None), default=float('inf'))
        return min(max(0.0, first - time.monotonic()), _LONGEST_WAIT_SECS)

    def _step(self, received: Sequence[signal.Signals]) -> None:
        """Acts on what has happened since the last step."""
        now = time.monotonic()
        ended, stopping, looked = self._reap(now), self._over, self.follower.look(now)
        for signum in received:
            if signum == PROFILE_SIGNAL:
                self._profile()
            else:
                self._on_signal(signum)
        if self._over is None:
            self._judge([task for task in ended if task.code != 0], now)
        started = self._over is None and self._start_again(now)
        if self._over is None and self.follower.stalled and self._chief_runs():
            why = f'no step was finished in {self._limits.stall_timeout:g} s (--stall_timeout)'
            self._end(GangEnd(GangEndKind.STALLED, Cause('', STALLED)), why)
        if self._over is None:
            self._drain(now)
        elif self._kill_at is not None and now >= self._kill_at:
            self._kill('the time to end is over')
        if looked or ended or started or self._over is not stopping:
            self._show(self._view())

    def _start(self) -> None:
        for command in self.commands:
            failed = self._spawn(command, life=1)
            if failed:
                self._judge([failed], time.monotonic())
            if self._over:
                break
        self._show(self._view())

    def _start_again(self, now: float) -> bool:
        """Starts the tasks whose time has come. Returns whether there were any."""
        due = [restart for restart in self._pending if restart.due <= now]
        for restart in due:
            self._pending.remove(restart)
            if restart.command.trains and not self._chief_runs():
                self._failures.append(restart.last_end)  # no task is left that it could join
                self._judge([], now)
                break
            self._budgets.made += 1
            failed = self._spawn(restart.command, restart.life)
            if failed:
                self._judge([failed], now)
        return bool(due)

    def _spawn(self, command: TaskCommand, life: int) -> TaskEnd | None:
        """Starts a task. Returns its end if it cannot be started."""
        self._began[command.name] = time.monotonic()
        try:
            task = self._launcher.start(command, self._numbers[command.name], life, self._selector)
        except CannotStart as error:
            secs = time.monotonic() - self._started
            self._ended.append(causes.never_started(command.name, life, secs, error))
            return self._ended[-1]
        self._running.append(task)
        return None

    def _reap(self, now: float) -> list[TaskEnd]:
        ended = []
        for task in tuple(self._running):
            code = task.poll()
            if code is not None or now >= self._give_up_at:
                self._running.remove(task)
                end = task.end(-signal.SIGKILL if code is None else code, now - self._started)
                ended.append(dataclasses.replace(end, began=self._began[task.name] - self._started))
        self._ended += ended
        return ended

    def _judge(self, failed: Iterable[TaskEnd], now: float) -> None:
        """Restarts the tasks that can be restarted alone. Ends the gang if it has lost any other task."""
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
        command = self._command(task.name)
        if not command.alone or (command.trains and not self._chief_runs()):
            return False
        decision = self._budgets.decide(task.name, task.exit_code, now)
        self._say(wording.task_restart(task, decision, self._budgets.max_restarts))
        if decision.restart:
            self._pending.append(PendingRestart(command, task.life + 1, now + decision.delay, task))
        return decision.restart

    def _drain(self, now: float) -> None:
        if self._chief_runs() or self._failures or not (self._running or self._pending):
            return
        late = [name for name in self._names() if not self._command(name).serves_for_ever]
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
        self._pending.clear()
        alone = {command.name for command in self.commands if command.alone}
        if end.kind is GangEndKind.FAILED and not causes.can_save(end.at_fault, self._failures, alone):
            self._kill(why)
            return
        signum = signal.SIGINT if end.signum == signal.SIGINT else signal.SIGTERM
        secs = self._limits.grace_secs
        if end.kind is GangEndKind.STALLED:
            signum, secs = signal.SIGUSR1, STACKS_SECS
        self._kill_at = time.monotonic() + secs
        self._say(wording.stopping(why, self._names(), signum, secs))
        self._send(signum)

    def _kill(self, why: str) -> None:
        self._kill_at, names = None, self._names()
        self._give_up_at = min(self._give_up_at, time.monotonic() + KILLED_SECS)
        self._say(f'{why}; killing {", ".join(names)}' if names else why)
        self._send(signal.SIGKILL)

    def _send(self, signum: signal.Signals) -> None:
        for task in self._running:
            task.send(signum)

    def _profile(self) -> None:
        chosen = [
            task
            for task in self._running
            if task.command.trains and schedule.includes(self._profile_tasks, task.name, task.command is self._chief)
        ]
        self._say(wording.profiling([task.name for task in chosen], self._profile_tasks))
        for task in chosen:
            task.send(PROFILE_SIGNAL)

    def _names(self) -> list[str]:
        return [task.name for task in self._running] + [restart.command.name for restart in self._pending]

    def _command(self, name: str) -> TaskCommand:
        return self.commands[self._numbers[name]]

    def _chief_runs(self) -> bool:
        """Whether training goes on. The chief ends last; a worker that goes on then is frozen."""
        return any(task.command is self._chief for task in self._running)

    def _view(self) -> GangView:
        running = {task.name: task.pid for task in self._running}
        tasks = task_states(self._numbers, running, {restart.command.name for restart in self._pending}, self._ended)
        drains = self._over is None and not self._failures and not self._chief_runs()
        return GangView(self._over is not None, drains, tasks)
