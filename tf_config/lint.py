"""Checks whether a TF_CONFIG can work under a strategy.

Every refusal shows a corrected TF_CONFIG, or the rule to follow if the correction would be a guess.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tf_config import mending
from tf_config.cluster import OF_CLUSTERS, STRATEGIES, Cluster, Task, render
from tf_config.mending import auto_strategy
from tf_config.problems import NEAR, Problem
from tf_config.reader import TfConfigReader

__all__ = ['Finding', 'Parsed', 'TfConfigError', 'auto_strategy', 'check', 'parse']

MOST_SHOWN = 20  # findings in a message, which are about a screen


@dataclass(frozen=True)
class Finding:
    """One mistake of a TF_CONFIG.

    Attributes:
        key: where it is, such as 'cluster.worker[1]', or the name of a variable or flag of an engine.
        seen: the value there, as text.
        problem: what is wrong with the value, as the end of a sentence.
        corrected: what to write instead, a TF_CONFIG or a flag of an engine. It corrects all mistakes of the text.
        rule: what to follow instead of `corrected`, if that is a guess: it makes this process a task that another
            process may be, or has made-up addresses. A message then shows the rule only. '' if it is no guess.
    """

    key: str
    seen: str
    problem: str
    corrected: str
    rule: str = ''

    def __str__(self) -> str:
        return f'{self.key} = {self.seen}: {self.problem}'


class TfConfigError(ValueError):
    """A TF_CONFIG cannot work.

    Attributes:
        findings: all its mistakes; at least one.
    """

    def __init__(self, findings: Iterable[Finding]) -> None:
        super().__init__(findings)
        self.findings = tuple(findings)

    def __str__(self) -> str:
        first = self.findings[0]
        cure = f'rule: {first.rule}' if first.rule else f'corrected: {first.corrected}'
        return '\n'.join(['TF_CONFIG is refused:', *self.lines(), cure])

    def lines(self) -> list[str]:
        """The findings as lines of a message: at most MOST_SHOWN, and the number of the others."""
        lines = [f'  {finding}' for finding in self.findings[:MOST_SHOWN]]
        others = len(self.findings) - len(lines)
        return [*lines, f'  and {others} more like these'] if others else lines


@dataclass(frozen=True)
class Parsed:
    """A cluster, and the task of it that this process is.

    Attributes:
        cluster: all tasks; empty if the process is alone.
        task: this process; None if the cluster is empty. An evaluator need not be listed in its cluster.
        notes: what the user should know, one sentence each.
    """

    cluster: Cluster
    task: Task | None
    notes: tuple[str, ...] = ()


def check(cluster: Cluster, task: Task | None, strategy: str) -> tuple[Finding, ...]:
    """Finds what keeps a cluster from working under a strategy.

    Args:
        cluster: the cluster.
        task: the task that this process is; None if it is unknown, or the cluster is empty.
        strategy: one of STRATEGIES; 'auto' is that of `auto_strategy`.

    Returns:
        The mistakes; empty if the cluster can work.

    Raises:
        ValueError: the strategy is unknown.
    """
    _check_strategy(strategy)
    problems, mended, mended_task = mending.mend(cluster, task, strategy)
    rule = _rule(mended) if _is_guess(problems, cluster, task, mended, mended_task) else ''
    return _findings(problems, mended, mended_task, rule)


def parse(text: str, strategy: str = 'auto') -> Parsed:
    """Reads and checks a TF_CONFIG.

    Args:
        text: the JSON of a TF_CONFIG. Blank text and '{}' are an empty cluster: one process, which has no task.
        strategy: one of STRATEGIES.

    Raises:
        TfConfigError: the cluster cannot work under the strategy. The error has all mistakes.
        ValueError: the strategy is unknown.
    """
    _check_strategy(strategy)
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
        # The cluster is made up as an example, so its own mistakes are not reported.
        task = task or Task('chief', 0)
        cluster, task = mending.mend_cluster(mending.example(task), task, strategy, mending.ignore)
        rule = (
            'a TF_CONFIG names a cluster and a task; `python -m tf_config make` prints that of each task. '
            f'For example: {render(cluster, task)}'
        )
    else:
        of_cluster, mended, mended_task = mending.mend(cluster, task, strategy, reader.no_task_in)
        problems = problems + of_cluster
        guessed = reader.is_guess or _is_guess(problems, cluster, task, mended, mended_task)
        rule = _rule(mended) if guessed else ''
        cluster, task = mended, mended_task
    if problems:
        raise TfConfigError(_findings(problems, cluster, task, rule))
    return Parsed(cluster, task, tuple(reader.notes))


def _check_strategy(strategy: str) -> None:
    if strategy not in STRATEGIES:
        raise ValueError(f'strategy = {strategy!r}: one of {", ".join(STRATEGIES)} is wanted')


def _findings(problems: Sequence[Problem], cluster: Cluster, task: Task | None, rule: str) -> tuple[Finding, ...]:
    corrected = render(cluster, task) if problems and task else ''
    return tuple(Finding(key, seen, problem, corrected, rule) for key, seen, problem in problems)


def _is_guess(
    problems: Sequence[Problem], cluster: Cluster, task: Task | None, mended: Cluster, mended_task: Task | None
) -> bool:
    """Whether this process may be another task than `mended_task`, which the correction makes it.

    It is no guess if the cluster was made up, because nobody takes its example addresses for real ones.
    """
    if len(cluster) < 2:
        return False
    if task is not None and task in cluster:
        moved = mended_task is None or mended_task not in mended or mended.address(mended_task) != cluster.address(task)
        return moved or any(key.startswith('task') and NEAR not in problem for key, _, problem in problems)
    return any(key.startswith('task') for key, _, _ in problems)


def _rule(cluster: Cluster) -> str:
    others = f'{f" --ps={len(cluster.ps)}" if cluster.ps else ""}{" --evaluator" if cluster.evaluator else ""}'
    return (
        'which task this process is cannot be told from here. All tasks get the same "cluster", which lists each of '
        'them once; each gets a "task" of its own: "type" is a role of the cluster, and "index" its place in the list '
        f'of that role, counted from 0. `python -m tf_config make --workers={len(cluster.training_tasks)}{others}` '
        'prints one for each task.'
    )
