"""A cluster and the tasks in it, and their way into TF_CONFIG."""

import functools
import itertools
import json
from dataclasses import dataclass

ROLES = ('chief', 'worker', 'ps', 'evaluator')
STRATEGIES = ('auto', 'none', 'mirrored', 'multi_worker_mirrored', 'parameter_server')
OF_CLUSTERS = ('multi_worker_mirrored', 'parameter_server')  # strategies that a process of its own cannot have


@dataclass(frozen=True, order=True)
class Task:
    """One process of a job; as text, 'worker:1'."""

    role: str
    index: int

    def __str__(self):
        return f'{self.role}:{self.index}'


@dataclass(frozen=True)
class Cluster:
    """The 'host:port' of every task, by role. False where there is no task at all.

    A cluster without a chief has worker 0 for its chief. The evaluator may be missing here and
    still exist: it talks to nobody.

    A cluster may have thousands of tasks, and much of a run asks it something: only `tasks` and what is
    made of it go through all of them, once.
    """

    chief: tuple = ()
    worker: tuple = ()
    ps: tuple = ()
    evaluator: tuple = ()

    def addresses(self, role):
        """The addresses of a role, by index. Raises KeyError on an unknown role."""
        if role not in ROLES:
            raise KeyError(role)
        return getattr(self, role)

    def address(self, task):
        """Raises KeyError where the cluster has no such task."""
        if task not in self:
            raise KeyError(str(task))
        return getattr(self, task.role)[task.index]

    @functools.cached_property
    def tasks(self):
        """Every task, in the order chief, worker, ps, evaluator."""
        return tuple(itertools.chain.from_iterable(map(self.tasks_of, ROLES)))

    def tasks_of(self, role):
        """The tasks of a role. Raises KeyError on an unknown one."""
        return tuple(Task(role, index) for index in range(len(self.addresses(role))))

    @functools.cached_property
    def training_tasks(self):
        """Chief and workers, the first ones of `tasks`."""
        return self.tasks[: len(self.chief) + len(self.worker)]

    @property
    def chief_task(self):
        """The task that owns checkpoints; None where nobody trains."""
        role = 'chief' if self.chief else 'worker'
        return Task(role, 0) if self.addresses(role) else None

    def __contains__(self, task):
        """Whether the cluster has an address for `task`."""
        return task.role in ROLES and 0 <= task.index < len(getattr(self, task.role))

    def __len__(self):
        """The number of tasks."""
        return sum(len(getattr(self, role)) for role in ROLES)


def render(cluster, task):
    """TF_CONFIG of `task` as compact JSON."""
    roles = {role: list(cluster.addresses(role)) for role in ROLES if cluster.addresses(role)}
    document = {'cluster': roles, 'task': {'type': task.role, 'index': task.index}}
    return json.dumps(document, separators=(',', ':'))


def for_tensorflow(cluster, task, strategy):
    """TF_CONFIG as TensorFlow wants it from this process, or None where it wants none.

    `strategy` is a resolved one, never 'auto'. Raises ValueError on any other, and where the
    strategy has no place for the task.
    """
    if strategy not in STRATEGIES or strategy == 'auto':
        raise ValueError(f'{strategy!r} is not a resolved strategy')
    if task is None:
        return None
    if task.role == 'evaluator':
        # An evaluator talks to nobody, whatever the strategy: Estimator only wants a chief named.
        if cluster.chief_task is None:
            raise ValueError(f'{task} needs a cluster that names its chief')
        return render(Cluster(chief=(cluster.address(cluster.chief_task),)), Task('evaluator', 0))
    if strategy in ('none', 'mirrored'):
        return None
    ps = cluster.ps if strategy == 'parameter_server' else ()
    seen = Cluster(chief=cluster.chief, worker=cluster.worker, ps=ps)
    if task not in seen:
        raise ValueError(f'{task} has no place in this cluster under {strategy}')
    return render(seen, task)


def number_of_tasks(workers, ps, evaluator):
    """How many addresses `make` takes."""
    return workers + ps + bool(evaluator)


def make(workers, ps, evaluator, addresses):
    """A cluster of `workers` training tasks, the chief counted.

    With parameter servers the first is the chief; without, all are workers and worker 0 is chief.
    `addresses` is any iterable of 'host:port', in the order of `Cluster.tasks`; what is left over
    is not taken. Raises ValueError on fewer than one worker, a negative ps, too few addresses.
    """
    if workers < 1:
        raise ValueError(f'workers = {workers}: at least 1 is needed, the chief is counted')
    if ps < 0:
        raise ValueError(f'ps = {ps}: 0 or more is wanted')
    needed = number_of_tasks(workers, ps, evaluator)
    taken = tuple(itertools.islice(addresses, needed))
    if len(taken) < needed:
        raise ValueError(f'{len(taken)} addresses for {needed} tasks')
    chiefs = 1 if ps else 0
    return Cluster(
        chief=taken[:chiefs],
        worker=taken[chiefs:workers],
        ps=taken[workers : workers + ps],
        evaluator=taken[workers + ps :],
    )
