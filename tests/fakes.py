"""Fakes of what many tests need: clocks, configurations, plans; and of what a supervisor works with: tasks, launchers,
consoles, signals, chance, hosts, and the module `ray`.
"""

import contextlib
import dataclasses
import functools
import os
import signal
import types

from estimator_trainer.config import trainer_config
from estimator_trainer.submit import ray_host
from estimator_trainer.supervisor import supervisor
from estimator_trainer.supervisor.gang import Gang
from estimator_trainer.supervisor.policy.causes import TaskEnd
from estimator_trainer.supervisor.policy.restarts import Limits, Rules
from estimator_trainer.supervisor.policy.task_commands import CannotStart, TaskCommand
from tests.processes import until

SIGNALS_THAT_END = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


class Clock:
    """A clock that moves where somebody sleeps, or where a test sets `now`. `during` is called at each sleep."""

    def __init__(self, now=0.0, during=lambda: None):
        self.now, self.during = now, during

    def __call__(self):
        return self.now

    def sleep(self, secs):
        self.now += secs
        self.during()


def config(**fields):
    """The TrainerConfig of a run of one step, with other values in some of its fields."""
    return dataclasses.replace(_default_config(), **fields)


@functools.cache
def _default_config():
    return trainer_config.parse(['trainer', '--model_dir=/no/folder', '--max_steps=1'])


def plan(**fields):
    """A training.plan.Plan, as far as its readers look at it: of one process that trains alone."""
    alone = {
        **dict(name='trainer', role='chief', is_chief=True, trains=True, trains_alone=True, asynchronous=False),
        **dict(num_tasks=1, num_training_tasks=1, has_evaluator=False, global_batch_size=64, stop_rule=None),
        **dict(config=config(), cluster=types.SimpleNamespace(chief=(), worker=(), ps=(), evaluator=())),
    }
    assert fields.keys() <= alone.keys()
    return types.SimpleNamespace(**{**alone, **fields})


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


class Changed:
    """An object with other methods in place of some of its own."""

    def __init__(self, original, **methods):
        self._original = original
        vars(self).update(methods)

    def __getattr__(self, name):
        return getattr(self._original, name)


class LocalHost:
    """`remote.TaskHost` in this process."""

    def __init__(self, name):
        self._actor, self._started = ray_host.TaskActor(name), False
        self.address = f'127.0.0.1:{self._actor.port()}'

    def __getattr__(self, name):
        return getattr(self._actor, name)

    def start(self, *args):
        self._started = True
        return self._actor.start(*args)

    def close(self):
        if self._started:
            self._actor.send(signal.SIGKILL)
            until(lambda: self._actor.poll() is not None)


class LocalCluster:
    """`remote_supervisor.HostPool`. `change`: (number of the gang, name, host) -> host."""

    def __init__(self, change=lambda gang, name, host: host, room=lambda: True):
        self.gangs, self._change, self.has_room = 0, change, room

    @contextlib.contextmanager
    def hosts(self, names):
        self.gangs += 1
        hosts = [LocalHost(name) for name in names]
        try:
            yield [self._change(self.gangs, name, host) for name, host in zip(names, hosts)]
        finally:
            for host in hosts:
                host.close()


class Ray:
    """The module `ray`. Its calls have the answers that the test gives; an answer that is an exception is raised."""

    class exceptions:
        class GetTimeoutError(Exception):
            pass

        class RayActorError(Exception):
            pass

        class RayTaskError(Exception):
            cause = None

    def __init__(self):
        self.answers, self.calls = {}, 0

    def remote(self, *args):
        """A call of any method of any actor."""
        self.calls += 1
        return self.calls

    def wait(self, calls, timeout):
        return [call for call in calls if call in self.answers], []

    def get(self, call, timeout):
        if call not in self.answers:
            raise self.exceptions.GetTimeoutError
        if isinstance(self.answers[call], Exception):
            raise self.answers[call]
        return self.answers[call]

    poll = training = start = property(lambda self: self)  # as an actor
