"""Fakes of what a supervisor works with: tasks, launchers, consoles, signals, and chance."""

import contextlib
import os
import signal

from estimator_trainer.supervisor import supervisor
from estimator_trainer.supervisor.gang import Gang
from estimator_trainer.supervisor.policy.causes import TaskEnd
from estimator_trainer.supervisor.policy.restarts import Limits, Rules
from estimator_trainer.supervisor.policy.task_commands import CannotStart, TaskCommand

SIGNALS_THAT_END = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


class Console:
    """A console that remembers what it was given."""

    def __init__(self):
        self.said, self.written = [], b''

    def say(self, text):
        self.said.append(text)

    def write(self, data):
        self.written += data

    def prefix(self, name, number):
        return b''

    @property
    def text(self):
        return '\n'.join(self.said)


class Signals:
    """`signal_pipe.Signals` that hands out, one at each look, the signals that were `sent`."""

    def __init__(self):
        self.sent = []
        self._pipe = os.pipe()

    def fileno(self):
        return self._pipe[0]

    def take(self):
        return [self.sent.pop(0)] if self.sent else []


class Task:
    """A `StartedTask`.

    Args:
        code: its exit code; None: it runs until a signal ends it.
        polls: so often it is seen running before it ends with `code`.
        deaf: signals that do not end it.
    """

    pid = 1

    def __init__(self, code=None, polls=0, deaf=()):
        self._code, self._polls, self._deaf, self.received = code, polls, deaf, []

    def started(self, command, life):
        self.command, self.life, self.name = command, life, command.name
        return self

    def poll(self):
        self._polls -= 1
        return self._code if self._polls < 0 else None

    def send(self, signum):
        self.received.append(signum)
        if signum in SIGNALS_THAT_END and signum not in self._deaf:
            self._code, self._polls = -signum, 0

    def kill(self):
        self.send(signal.SIGKILL)

    def end(self, code, secs):
        last = self.received[-1] if self.received else None
        return TaskEnd(self.name, code, secs, last, None, self.life)

    def close(self):
        self.kill()


class Launcher:
    """A `Launcher` of fake tasks, by name. An exception in place of a task is raised as CannotStart."""

    look_secs = 0.001

    def __init__(self, tasks):
        self.tasks, self.started = tasks, []

    def start(self, command, number, life, selector):
        task = self.tasks[command.name]
        if isinstance(task, Exception):
            raise CannotStart(str(task))
        self.started.append(command.name)
        return task.started(command, life)


def commands(names, serve_for_ever=()):
    return [
        TaskCommand(name, (), {}, trains=name.startswith(('chief', 'worker')), serves_for_ever=name in serve_for_ever)
        for name in names
    ]


class Chance:
    """Chance that always draws the lowest or the highest number."""

    def __init__(self, choose):
        self._choose = choose

    def uniform(self, low, high):
        return self._choose(low, high)


class Supervisor(supervisor.Supervisor):
    """Runs gangs of fake tasks, each given by the names of its tasks.

    Attributes:
        outcomes: how gangs have ended.
    """

    workers = 1

    def __init__(self, *gangs, rules=Rules(backoff_secs=0)):
        self.console, self.outcomes, self._gangs = Console(), [], list(gangs)
        super().__init__(rules, Limits(), False, self.console, Chance(min))

    def _place(self, signals):
        return contextlib.nullcontext()

    def _make_gang(self, place, generation):
        tasks = self._gangs.pop(0)
        return Gang(commands(tasks), Launcher(tasks), Limits(), self.console, self._budgets)

    def _gang_ended(self, gang, outcome):
        self.outcomes.append(outcome)

    def run(self):
        """The exit code."""
        return self._run_gangs(Signals())[0]
