"""The loop: runs one gang of tasks to its end, in one thread."""

import dataclasses
import os
import pathlib
import selectors
import signal
import time
from collections.abc import Sequence

from estimator_trainer.cluster import policy, report
from estimator_trainer.cluster.logs import Console, StreamLog, path_of
from estimator_trainer.cluster.plan import Command
from estimator_trainer.cluster.policy import Ended, Outcome, Stop, Why
from estimator_trainer.cluster.process import Process
from estimator_trainer.cluster.signals import Signals

_READ = 1 << 20  # bytes; more than a pipe holds, so one read takes all that is in it


@dataclasses.dataclass(frozen=True)
class Limits:
    """How long things may take, in seconds."""

    grace_secs: float = 10  # from SIGTERM to SIGKILL
    drain_secs: float = 600  # for ps and evaluator, when training is done


class RunningTask:
    """One running task and where its output goes. `selector` watches its pipes."""

    def __init__(self, command, number, selector, folder, out, err):
        self.name, self.trains = command.name, command.trains
        self._selector = selector
        name = command.name
        out_log = StreamLog(path_of(folder, name, 'out'), out, out.prefix(name, number))
        err_log = StreamLog(path_of(folder, name, 'err'), err, err.prefix(name, number))
        self.process = Process(command)
        self._logs = {self.process.stdout: out_log, self.process.stderr: err_log}
        for fd in self._logs:
            selector.register(fd, selectors.EVENT_READ, self)

    def read(self, fd: int) -> None:
        """Takes what the pipe holds; at its end, closes the log."""
        try:
            data = os.read(fd, _READ)
        except BlockingIOError:
            return
        if data:
            self._logs[fd].feed(data)
        else:
            self._close_log(fd)

    def close(self) -> None:
        """Kills what is left of the group, takes what it still had to say, closes everything."""
        self.process.kill()
        for fd in tuple(self._logs):
            self.read(fd)  # not to its end: a process that left the group may hold the pipe
        for fd in tuple(self._logs):
            self._close_log(fd)
        self.process.close()

    def _close_log(self, fd: int) -> None:
        self._selector.unregister(fd)
        self._logs.pop(fd).close()


class Supervisor:
    """Runs one gang. Make one for each attempt."""

    def __init__(self, limits: Limits, out: Console, err: Console):
        self._limits = limits
        self._out, self._err = out, err
        self._running: list[RunningTask] = []
        self._ended: list[Ended] = []
        self._stop: Stop | None = None
        self._drain_until: float | None = None
        self._kill_at: float | None = None

    def run(self, gang: Sequence[Command], folder: pathlib.Path, signals: Signals) -> Outcome:
        """Starts every task of `gang`, and returns when all have ended.

        1. All tasks end with 0: done.
        2. One does not: the rest are stopped, SIGTERM first, SIGKILL after `grace_secs`.
        3. A signal to us: the same. Ctrl-C while tasks are being stopped kills them at once.
        4. Training is done, but a ps or the evaluator goes on for `drain_secs`: the same.

        Whatever happens here, an exception too, no process of a task's group is left.

        Args:
          gang: at least one task that trains.
          folder: exists; each task's output is written to it.
          signals: entered.

        Raises:
          OSError: a task cannot be started, or its log not be written.
        """
        self._started = time.monotonic()
        with selectors.DefaultSelector() as selector:
            selector.register(signals, selectors.EVENT_READ)
            try:
                for number, command in enumerate(gang):
                    task = RunningTask(command, number, selector, folder, self._out, self._err)
                    self._running.append(task)
                while self._running:
                    for key, _ in selector.select(self._timeout()):
                        if key.data is not None:
                            key.data.read(key.fd)
                    self._step(signals.take())
            finally:
                for task in self._running:
                    task.process.kill()  # all, before anything else can go wrong
                for task in self._running:
                    task.close()
        secs = time.monotonic() - self._started
        return Outcome(self._stop or Stop(Why.DONE), tuple(self._ended), secs)

    def _timeout(self) -> float | None:
        deadline = self._kill_at if self._stop else self._drain_until
        return None if deadline is None else max(0.0, deadline - time.monotonic())

    def _step(self, received: Sequence[signal.Signals]) -> None:
        """Looks at what happened since the last step, and acts on it."""
        ended = self._reap()
        for signum in received:
            self._on_signal(signum)
        failed = policy.cause(ended)
        if failed and not self._stop:
            self._end(Stop(Why.FAILED, cause=failed), report.how(failed))
        if self._stop is None:
            self._drain()
        elif self._kill_at is not None and time.monotonic() >= self._kill_at:
            self._kill('the time to end is over')

    def _reap(self) -> list[Ended]:
        now, ended = time.monotonic(), []
        for task in tuple(self._running):
            code = task.process.poll()
            if code is not None:
                self._running.remove(task)
                task.close()
                ended.append(Ended(task.name, code, now - self._started))
        self._ended += ended
        return ended

    def _on_signal(self, signum: signal.Signals) -> None:
        if self._stop is None:
            self._end(Stop(Why.SIGNALLED, signum=signum), f'received {signum.name}')
        elif signum == signal.SIGINT:  # others come twice when a terminal is closed
            self._kill(f'received {signum.name} while stopping')

    def _drain(self) -> None:
        if not self._running or any(task.trains for task in self._running):
            return
        late = self._names()
        if self._drain_until is None:
            self._drain_until = time.monotonic() + self._limits.drain_secs
            self._err.say(report.draining(late, self._limits.drain_secs))
        elif time.monotonic() >= self._drain_until:
            why = f'--drain_secs={self._limits.drain_secs:g} are over'
            self._end(Stop(Why.NOT_DRAINED, late=tuple(late)), why)

    def _end(self, stop: Stop, why: str) -> None:
        self._stop = stop
        self._kill_at = time.monotonic() + self._limits.grace_secs
        self._err.say(report.stopping(why, self._names(), self._limits.grace_secs))
        for task in self._running:
            task.process.terminate()

    def _kill(self, why: str) -> None:
        self._kill_at = None
        if self._running:
            self._err.say(f'{why}; killing {", ".join(self._names())}')
        for task in self._running:
            task.process.kill()

    def _names(self) -> list[str]:
        return [task.name for task in self._running]
