"""A cluster and the tasks in it, and their way into TF_CONFIG."""

import functools
import itertools
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace

ROLES = ('chief', 'worker', 'ps', 'evaluator')
STRATEGIES = ('auto', 'none', 'mirrored', 'multi_worker_mirrored', 'parameter_server')
OF_CLUSTERS = ('multi_worker_mirrored', 'parameter_server')  # strategies that a process of its own cannot have


@dataclass(frozen=True, order=True)
class Task:
    """One process of a job; as text, 'worker:1'."""

    role: str
    index: int

    def __str__(self) -> str:
        return f'{self.role}:{self.index}'


@dataclass(frozen=True)
class Cluster:
    """The address 'host:port' of every task, by role. A cluster without any task is false.

    If there is no chief, worker 0 is the chief. An evaluator may exist although the cluster does not list it, because
    no other task connects to it.

    A cluster may have thousands of tasks, and a run asks for its properties often. Only `tasks` and `training_tasks`
    go through all tasks, and they do so once.
    """

    chief: tuple[str, ...] = ()
    worker: tuple[str, ...] = ()
    ps: tuple[str, ...] = ()
    evaluator: tuple[str, ...] = ()

    def addresses(self, role: str) -> tuple[str, ...]:
        """The addresses of the tasks of a role; an address's place in the tuple is the index of its task.

        Raises:
            KeyError: `role` is not one of ROLES.
        """
        if role not in ROLES:
            raise KeyError(role)
        addresses: tuple[str, ...] = getattr(self, role)
        return addresses

    def address(self, task: Task) -> str:
        """The address 'host:port' of a task.

        Raises:
            KeyError: the cluster has no such task.
        """
        if task not in self:
            raise KeyError(str(task))
        return self.addresses(task.role)[task.index]

    @functools.cached_property
    def tasks(self) -> tuple[Task, ...]:
        """Every task, in the order chief, worker, ps, evaluator."""
        return tuple(itertools.chain.from_iterable(map(self.tasks_of, ROLES)))

    def tasks_of(self, role: str) -> tuple[Task, ...]:
        """The tasks of a role, by index.

        Raises:
            KeyError: `role` is not one of ROLES.
        """
        return tuple(Task(role, index) for index in range(len(self.addresses(role))))

    @functools.cached_property
    def training_tasks(self) -> tuple[Task, ...]:
        """The chief and the workers, which are the first tasks of `tasks`."""
        return self.tasks[: len(self.chief) + len(self.worker)]

    @property
    def chief_task(self) -> Task | None:
        """The task that saves checkpoints: the chief, or worker 0 without one; None if no task trains."""
        role = 'chief' if self.chief else 'worker'
        return Task(role, 0) if self.addresses(role) else None

    def __contains__(self, task: Task) -> bool:
        """Whether the cluster has an address for `task`."""
        return task.role in ROLES and 0 <= task.index < len(getattr(self, task.role))

    def __len__(self) -> int:
        """The number of tasks."""
        return sum(len(getattr(self, role)) for role in ROLES)


def render(cluster: Cluster, task: Task) -> str:
    """The TF_CONFIG of `task`, as JSON without blanks. Roles without tasks are left out."""
    roles = {role: list(cluster.addresses(role)) for role in ROLES if cluster.addresses(role)}
    document = {'cluster': roles, 'task': {'type': task.role, 'index': task.index}}
    return json.dumps(document, separators=(',', ':'))


def for_program(cluster: Cluster, task: Task) -> str:
    """The TF_CONFIG of `task` for a program that reads it by itself.

    With parameter servers an evaluator is no part of the cluster, as TensorFlow's RunConfig describes it: a session
    whose program has a session_config of its own has no device filters, and waits for every task that is named.
    """
    is_apart = cluster.ps and task.role != 'evaluator'
    return render(replace(cluster, evaluator=()) if is_apart else cluster, task)


def for_tensorflow(cluster: Cluster, task: Task | None, strategy: str) -> str | None:
    """The TF_CONFIG that this process sets for TensorFlow, or None if TensorFlow needs none.

    Args:
        cluster: the cluster of the run.
        task: the task that this process is; None if it is alone.
        strategy: one of STRATEGIES, but not 'auto'.

    Raises:
        ValueError: the strategy is 'auto' or unknown; the task takes no part in this strategy; or it is an evaluator
            of a cluster without a chief.
    """
    if strategy not in STRATEGIES or strategy == 'auto':
        raise ValueError(f'{strategy!r} is not a resolved strategy')
    if task is None:
        return None
    if task.role == 'evaluator':
        # An evaluator connects to no other task under any strategy. Estimator only requires that a chief is named.
        if cluster.chief_task is None:
            raise ValueError(f'{task} needs a cluster that names its chief')
        return render(Cluster(chief=(cluster.address(cluster.chief_task),)), Task('evaluator', 0))
    if strategy in ('none', 'mirrored'):
        return None
    ps = cluster.ps if strategy == 'parameter_server' else ()
    in_strategy = Cluster(chief=cluster.chief, worker=cluster.worker, ps=ps)
    if task not in in_strategy:
        raise ValueError(f'{task} has no place in this cluster under {strategy}')
    return render(in_strategy, task)


def number_of_tasks(workers: int, ps: int, evaluator: bool) -> int:
    """The number of addresses that `make` takes for these arguments."""
    return workers + ps + bool(evaluator)


def make(workers: int, ps: int, evaluator: bool, addresses: Iterable[str]) -> Cluster:
    """Makes a cluster.

    Args:
        workers: the number of tasks that train, including the chief. With parameter servers the first of them has the
            role chief. Without, all have the role worker, and worker 0 is the chief.
        ps: the number of parameter servers.
        evaluator: adds an evaluator.
        addresses: the 'host:port' of each task, in the order of `Cluster.tasks`. No more are taken than there are
            tasks, so the iterable may be endless.

    Raises:
        ValueError: `workers` is less than 1, `ps` is negative, or there are too few addresses.
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
