"""Finds the mistakes of a cluster and a task under a strategy, and the nearest cluster and task without them."""

from dataclasses import replace

from tf_config import addresses
from tf_config.cluster import OF_CLUSTERS, ROLES, Cluster, Task
from tf_config.problems import ABSENT, Blame, Problem, as_line, example_host


def auto_strategy(cluster: Cluster) -> str:
    """The strategy that 'auto' means for a cluster.

    It is 'parameter_server' with parameter servers, 'multi_worker_mirrored' if several tasks train, else 'none'.
    """
    if cluster.ps:
        return 'parameter_server'
    return 'multi_worker_mirrored' if len(cluster.training_tasks) > 1 else 'none'


def example(task: Task) -> Cluster:
    """A small cluster of made-up hosts. If possible, it has the task `task`."""
    sizes = {'chief': 1, 'worker': 1}
    if task.role in ('worker', 'ps'):
        sizes[task.role] = min(task.index, 7) + 1
    return Cluster(
        **{role: tuple(f'{example_host(role, index)}:2222' for index in range(size)) for role, size in sizes.items()}
    )


def _with_one(cluster: Cluster, role: str) -> Cluster:
    """The cluster with a made-up task of `role`, of which it has none."""
    places = addresses.TakenPlaces(map(cluster.address, cluster.tasks))
    return replace(cluster, **{role: (places.unused(example_host(role, 0)),)})


def ignore(key: str, seen: object, problem: str) -> None:
    """A `Blame` that reports nothing."""


def mend(
    cluster: Cluster, task: Task | None, strategy: str, no_task_in: object = ABSENT
) -> tuple[list[Problem], Cluster, Task | None]:
    """The mistakes, and the nearest cluster and task without mistakes. `no_task_in`: see reader.TfConfigReader."""
    problems: list[Problem] = []

    def blame(key: str, seen: object, problem: str) -> None:
        problems.append(Problem(key, as_line(seen), problem))

    if not cluster:
        if task is None and strategy not in OF_CLUSTERS:
            return problems, cluster, task
        who = f'strategy {strategy}' if strategy in OF_CLUSTERS else f'task {task}'
        what = 'is missing' if no_task_in is ABSENT else 'lists no task'
        blame('cluster', no_task_in, f'{what}: {who} needs a cluster, with the "host:port" of every task')
        task = task or Task('chief', 0)
        return problems, *mend_cluster(example(task), task, strategy, ignore)
    return problems, *mend_cluster(cluster, task, strategy, blame)


def mend_cluster(cluster: Cluster, task: Task | None, strategy: str, blame: Blame) -> tuple[Cluster, Task]:
    """Corrects a cluster that has tasks, and the task that this process is."""
    if strategy == 'auto':
        strategy = auto_strategy(cluster)
    # Each step relies on the corrections of the steps before it.
    cluster = _mend_nobody_trains(cluster, blame)
    task = _mend_task(cluster, task, blame)
    cluster, task = _mend_more_than_one(cluster, task, blame)
    if strategy == 'parameter_server':
        cluster, task = _mend_parameter_server(cluster, task, blame)
    elif cluster.ps:
        blame(
            'cluster.ps', cluster.ps, f'lists parameter servers, and strategy {strategy} has none: use parameter_server'
        )
        cluster = replace(cluster, ps=())
        task = cluster.training_tasks[0] if task.role == 'ps' else task
    if strategy in ('none', 'mirrored'):
        cluster, task = _mend_several_train(cluster, task, strategy, blame)
    return cluster, task


def _mend_nobody_trains(cluster: Cluster, blame: Blame) -> Cluster:
    if cluster.training_tasks:
        return cluster
    roles = {role: cluster.addresses(role) for role in ROLES if cluster.addresses(role)}
    blame('cluster', roles, 'has no chief and no worker: nobody trains')
    return _with_one(cluster, 'chief')


def _mend_task(cluster: Cluster, task: Task | None, blame: Blame) -> Task:
    chief = cluster.training_tasks[0]
    if task is None:
        blame('task', ABSENT, 'is missing: which task of the cluster is this process?')
        return chief
    # An evaluator may be outside the cluster, as the only one.
    size = len(cluster.addresses(task.role)) or int(task.role == 'evaluator')
    if 0 <= task.index < size:
        return task
    if size:
        blame('task.index', task.index, f'is out of range: indices of {task.role} go from 0 to {size - 1}')
        return Task(task.role, 0)
    blame('task.type', task.role, 'has no address in the cluster')
    return chief


def _mend_more_than_one(cluster: Cluster, task: Task, blame: Blame) -> tuple[Cluster, Task]:
    if len(cluster.chief) > 1:
        blame('cluster.chief', cluster.chief, 'lists several chiefs: one leads, the rest work')
        if task.role == 'chief' and task.index > 0:
            task = Task('worker', len(cluster.worker) + task.index - 1)
        cluster = replace(cluster, chief=cluster.chief[:1], worker=cluster.worker + cluster.chief[1:])
    if len(cluster.evaluator) > 1:
        blame('cluster.evaluator', cluster.evaluator, 'lists several evaluators: they would write the same files')
        cluster = replace(cluster, evaluator=cluster.evaluator[:1])
        task = Task('evaluator', 0) if task.role == 'evaluator' else task
    return cluster, task


def _mend_parameter_server(cluster: Cluster, task: Task, blame: Blame) -> tuple[Cluster, Task]:
    if not cluster.chief:
        blame('cluster.chief', ABSENT, 'is missing: parameter_server needs one chief; worker 0 can be it')
        if task == Task('worker', 0):
            task = Task('chief', 0)
        elif task.role == 'worker':
            task = Task('worker', task.index - 1)
        cluster = replace(cluster, chief=cluster.worker[:1], worker=cluster.worker[1:])
    if not cluster.ps:
        blame('cluster.ps', ABSENT, 'is missing: parameter_server needs at least one ps')
        cluster = _with_one(cluster, 'ps')
    return cluster, task


def _mend_several_train(cluster: Cluster, task: Task, strategy: str, blame: Blame) -> tuple[Cluster, Task]:
    if len(cluster.training_tasks) == 1:
        return cluster, task
    blame(
        'cluster.worker',
        cluster.worker,
        f'makes {len(cluster.training_tasks)} training tasks, and under strategy {strategy} each '
        'would train alone into one model_dir: use multi_worker_mirrored, or a cluster of one',
    )
    chief = cluster.training_tasks[0]
    cluster = replace(cluster, **{'worker': (), chief.role: (cluster.address(chief),)})
    return cluster, task if task.role == 'evaluator' else chief
