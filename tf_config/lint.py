"""Judges a TF_CONFIG against the strategy it is meant for; every refusal shows a corrected one, or the rule where the
correction would be a guess."""

from dataclasses import dataclass, replace

from tf_config import addresses
from tf_config.cluster import OF_CLUSTERS, ROLES, STRATEGIES, Cluster, Task, render
from tf_config.reader import ABSENT, NEAR, Problem, TfConfigReader, example_host, shown

MOST_SHOWN = 20  # findings in a message: about a screen


@dataclass(frozen=True)
class Finding:
    """One thing wrong with a TF_CONFIG.

    `corrected` mends this and all the others. Where `rule` is not empty, it is a guess, which makes this process a task
    that another process may be, or an example with made-up addresses. A message shows the rule in its place.
    """

    key: str
    seen: str
    problem: str
    corrected: str
    rule: str = ''

    def __str__(self):
        return f'{self.key} = {self.seen}: {self.problem}'


class TfConfigError(ValueError):
    """A TF_CONFIG that cannot work; `findings` holds all that is wrong with it."""

    def __init__(self, findings):
        super().__init__(findings)
        self.findings = tuple(findings)

    def __str__(self):
        first = self.findings[0]
        cure = f'rule: {first.rule}' if first.rule else f'corrected: {first.corrected}'
        return '\n'.join(['TF_CONFIG is refused:', *self.lines(), cure])

    def lines(self):
        """The findings as lines of a message, which a cluster of thousands must not flood."""
        lines = [f'  {finding}' for finding in self.findings[:MOST_SHOWN]]
        left = len(self.findings) - len(lines)
        return [*lines, f'  and {left} more like these'] if left else lines


@dataclass(frozen=True)
class Parsed:
    """`task` is None where there is no cluster; an evaluator may be outside its cluster."""

    cluster: Cluster
    task: Task | None
    notes: tuple = ()


def auto_strategy(cluster):
    """The strategy that the shape of the cluster asks for."""
    if cluster.ps:
        return 'parameter_server'
    return 'multi_worker_mirrored' if len(cluster.training_tasks) > 1 else 'none'


def check(cluster, task, strategy):
    """The findings of a cluster and a task under a strategy, none where it can work.

    Raises ValueError on an unknown strategy.
    """
    problems, mended, mended_task = _mend(cluster, task, strategy)
    rule = _rule(mended) if _is_guess(problems, cluster, task, mended, mended_task) else ''
    return _findings(problems, mended, mended_task, rule)


def parse(text, strategy='auto'):
    """TF_CONFIG -> Parsed. Blank text and '{}' are the empty cluster: one process, no task.

    Raises TfConfigError with all findings where the cluster cannot work under the strategy, and
    ValueError on an unknown strategy.
    """
    reader = TfConfigReader()
    document = reader.document(text)
    cluster = None if document is None else reader.cluster(document)
    task = None if document is None else reader.task(document, cluster)
    alone = cluster is not None and not cluster
    first = task in (Task('chief', 0), Task('worker', 0))
    if alone and first and strategy not in OF_CLUSTERS and not reader.problems:
        reader.notes.append(f'task {task} is in no cluster: a single process')
        task = None
    problems = reader.problems
    if cluster is None or alone and problems:
        # Made up for the example only: what is wrong with it is nobody's fault.
        task = task or Task('chief', 0)
        _, cluster, task = _mend(_example(task), task, strategy)
        rule = (
            'a TF_CONFIG names a cluster and a task; `python -m tf_config make` prints that of each task. '
            f'For example: {render(cluster, task)}'
        )
    else:
        found, mended, mended_task = _mend(cluster, task, strategy, reader.no_task_in)
        problems = problems + found
        guessed = reader.is_guess or _is_guess(problems, cluster, task, mended, mended_task)
        rule = _rule(mended) if guessed else ''
        cluster, task = mended, mended_task
    if problems:
        raise TfConfigError(_findings(problems, cluster, task, rule))
    return Parsed(cluster, task, tuple(reader.notes))


def _findings(problems, cluster, task, rule):
    corrected = render(cluster, task) if problems else ''
    return tuple(Finding(key, seen, problem, corrected, rule) for key, seen, problem in problems)


def _is_guess(problems, cluster, task, mended, mended_task):
    """Whether nothing says that this process is the task that it has become. Where the cluster was made up, its
    addresses are examples that nobody takes for his own."""
    if len(cluster) < 2:
        return False
    if task is not None and task in cluster:
        moved = mended_task not in mended or mended.address(mended_task) != cluster.address(task)
        return moved or any(key.startswith('task') and NEAR not in problem for key, _, problem in problems)
    return any(key.startswith('task') for key, _, _ in problems)


def _rule(cluster):
    others = f'{f" --ps={len(cluster.ps)}" if cluster.ps else ""}{" --evaluator" if cluster.evaluator else ""}'
    return (
        'which task this process is cannot be told from here. All tasks get the same "cluster", which lists each of '
        'them once; each gets a "task" of its own: "type" is a role of the cluster, and "index" its place in the list '
        f'of that role, counted from 0. `python -m tf_config make --workers={len(cluster.training_tasks)}{others}` '
        'prints one for each task.'
    )


def _example(task):
    """A small cluster, if possible one that has a place for `task`."""
    sizes = {'chief': 1, 'worker': 1}
    if task.role in ('worker', 'ps'):
        sizes[task.role] = min(task.index, 7) + 1
    return Cluster(
        **{role: tuple(f'{example_host(role, index)}:2222' for index in range(size)) for role, size in sizes.items()}
    )


def _with_one(cluster, role):
    """The cluster with an example task of `role`, which has none."""
    places = addresses.TakenPlaces(map(cluster.address, cluster.tasks))
    return replace(cluster, **{role: (places.unused(example_host(role, 0)),)})


def _mend(cluster, task, strategy, no_task_in=ABSENT):
    """What is wrong, and the nearest cluster and task with which nothing is.

    `no_task_in`: what the text has for a cluster, where there is no task in it.
    """
    if strategy not in STRATEGIES:
        raise ValueError(f'strategy = {strategy!r}: one of {", ".join(STRATEGIES)} is wanted')
    problems = []

    def blame(key, seen, problem):
        problems.append(Problem(key, shown(seen), problem))

    if not cluster:
        if task is None and strategy not in OF_CLUSTERS:
            return problems, cluster, task
        who = f'strategy {strategy}' if strategy in OF_CLUSTERS else f'task {task}'
        what = 'is missing' if no_task_in is ABSENT else 'lists no task'
        blame('cluster', no_task_in, f'{what}: {who} needs a cluster, with the "host:port" of every task')
        task = task or Task('chief', 0)
        return problems, *_mend(_example(task), task, strategy)[1:]

    if strategy == 'auto':
        strategy = auto_strategy(cluster)
    # Each step may rely on what the ones before have mended.
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
        task = cluster.chief_task if task.role == 'ps' else task
    if strategy in ('none', 'mirrored'):
        cluster, task = _mend_several_train(cluster, task, strategy, blame)
    return problems, cluster, task


def _mend_nobody_trains(cluster, blame):
    if cluster.training_tasks:
        return cluster
    roles = {role: cluster.addresses(role) for role in ROLES if cluster.addresses(role)}
    blame('cluster', roles, 'has no chief and no worker: nobody trains')
    return _with_one(cluster, 'chief')


def _mend_task(cluster, task, blame):
    if task is None:
        blame('task', ABSENT, 'is missing: which task of the cluster is this process?')
        return cluster.chief_task
    # An evaluator may be outside the cluster, as the only one.
    size = len(cluster.addresses(task.role)) or int(task.role == 'evaluator')
    if 0 <= task.index < size:
        return task
    if size:
        blame('task.index', task.index, f'is out of range: indices of {task.role} go from 0 to {size - 1}')
        return Task(task.role, 0)
    blame('task.type', task.role, 'has no address in the cluster')
    return cluster.chief_task


def _mend_more_than_one(cluster, task, blame):
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


def _mend_parameter_server(cluster, task, blame):
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


def _mend_several_train(cluster, task, strategy, blame):
    if len(cluster.training_tasks) == 1:
        return cluster, task
    blame(
        'cluster.worker',
        cluster.worker,
        f'makes {len(cluster.training_tasks)} training tasks, and under strategy {strategy} each '
        'would train alone into one model_dir: use multi_worker_mirrored, or a cluster of one',
    )
    chief = cluster.chief_task
    cluster = replace(cluster, **{'worker': (), chief.role: (cluster.address(chief),)})
    return cluster, task if task.role == 'evaluator' else chief
