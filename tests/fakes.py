"""Fakes of what many tests need: clocks, and what a task trains with; and hosts, and the module `ray`.

The fakes of a supervisor's tests are in tests/supervisor/fakes.py, the object store in tests/storage/memory_store.py.
"""

import contextlib
import dataclasses
import functools
import signal
import types
from typing import Any

import tf_config
from estimator_trainer.config import trainer_config
from estimator_trainer.jobs.run_params import RunParams
from estimator_trainer.lifecycle import watchdog
from estimator_trainer.submit import ray_host
from tests.processes import until


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


@dataclasses.dataclass
class Plan:
    """A training.plan.Plan, as far as its readers look at it: of one process that trains alone."""

    name: str = 'trainer'
    role: str = 'chief'
    is_chief: bool = True
    trains: bool = True
    trains_alone: bool = True
    asynchronous: bool = False
    in_sync: bool = False
    is_multi_worker: bool = False
    uses_parameter_servers: bool = False
    num_tasks: int = 1
    num_training_tasks: int = 1
    training_index: int = 0
    num_replicas: int = 1
    batches_per_step: int = 1
    has_evaluator: bool = False
    global_batch_size: int = 64
    stop_rule: Any = None
    job: Any = None
    config: trainer_config.TrainerConfig = dataclasses.field(default_factory=config)
    cluster: tf_config.Cluster = tf_config.Cluster()


def params(**fields):
    """RunParams of ten steps."""
    given = dict(job={}, batch_size=64, num_replicas=1, initial_replicas=1, global_batch_size=64)
    return RunParams(**{**given, 'max_steps': 10, 'num_examples': None, 'seed': 1, **fields})


class Watchdog(watchdog.Watchdog):
    """A watchdog without threads.

    Args:
        missing: the peers that do not answer.

    Attributes:
        codes: with which it would have left.
        steps, checkpoints: of which it was told.
    """

    def __init__(self, missing=()):
        self.codes, self.steps, self.checkpoints, self._missing = [], [], [], list(missing)
        super().__init__('trainer', watchdog.Bounds(), {}, leave=self.codes.append)

    def missing_peers(self):
        return self._missing

    def stepped(self, step):
        super().stepped(step)
        self.steps.append(step)

    def saved(self, step):
        super().saved(step)
        self.checkpoints.append(step)


@dataclasses.dataclass
class Setup:
    """A training.trainer.Setup, as far as its readers look at it. What is None is not looked at."""

    plan: Any = dataclasses.field(default_factory=Plan)
    params: RunParams = dataclasses.field(default_factory=params)
    watchdog: Any = dataclasses.field(default_factory=Watchdog)
    loop: Any = None
    waits: Any = None
    job: Any = dataclasses.field(default_factory=lambda: types.SimpleNamespace(model_fn=None, make_estimator=None))
    run_configs: Any = None
    input_fn: Any = None
    dataset: Any = None

    def counts(self):
        return {}


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
        class RayError(Exception):
            pass

        class GetTimeoutError(RayError):
            pass

        class RayActorError(RayError):
            pass

        class RayTaskError(RayError):
            cause = None

        class OutOfMemoryError(RayError):
            pass

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
