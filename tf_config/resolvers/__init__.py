"""Finds the cluster of a process, from its environment and its flags.

A resolver is a pure function of both. If it has to ask anything else, such as the network or a file that a variable
names, `resolve` passes in the function that asks, as `look_up`, so that tests pass in another one. Only `lookup` uses
the network.
"""

import dataclasses
from collections.abc import Callable, Mapping
from typing import NamedTuple

from tf_config.cluster import OF_CLUSTERS, ROLES, render
from tf_config.lint import Parsed, TfConfigError, parse
from tf_config.resolvers import hosts, kubernetes, lookup, mpi, slurm
from tf_config.resolvers.layout import SOURCES, Layout, Ranks, ResolverError, cluster_of, read_layout, refusal

__all__ = [
    'SOURCES',
    'Layout',
    'Ranks',
    'ResolverError',
    'from_environment',
    'read_layout',
    'resolve',
    'started_with_others',
]


class _Engine(NamedTuple):
    """An engine, or --hosts, which describes a cluster.

    Attributes:
        name: in messages.
        used: the flags of a Layout that it uses.
        is_here: whether it has started this process, so that 'auto' takes it.
        resolve: finds the ranks.
    """

    name: str
    used: tuple[str, ...]
    is_here: Callable[[Mapping[str, str]], bool]
    resolve: Callable[[Mapping[str, str], Layout, lookup.NodeLookup], Ranks]


# By their values of --cluster_from. 'auto' takes the first that is here: mpirun stands before Slurm, because inside a
# job of Slurm the step is that of mpirun's own daemons. `_detect` decides on hosts, whose flags say that it is meant.
_ENGINES = {
    'openmpi': _Engine(
        mpi.OPEN_MPI,
        ('--roles', '--base_port', '--hosts'),
        lambda environ: mpi.is_process(environ, mpi.OPEN_MPI),
        lambda environ, layout, look_up: mpi.resolve(environ, layout, mpi.OPEN_MPI),
    ),
    'mpich': _Engine(
        mpi.MPICH,
        ('--roles', '--base_port', '--hosts'),
        lambda environ: mpi.is_process(environ, mpi.MPICH),
        lambda environ, layout, look_up: mpi.resolve(environ, layout, mpi.MPICH),
    ),
    'slurm': _Engine(slurm.NAME, ('--roles', '--base_port'), slurm.is_step, slurm.resolve),
    'kubernetes': _Engine(
        kubernetes.NAME,
        ('--roles', '--base_port'),
        kubernetes.is_pod,
        lambda environ, layout, look_up: kubernetes.resolve(environ, layout),
    ),
    'hosts': _Engine(
        hosts.NAME,
        ('--roles', '--base_port', '--hosts', '--rank'),
        lambda environ: False,
        lambda environ, layout, look_up: hosts.resolve(layout),
    ),
}

_NUMBERS = {  # of the tasks that have been started together
    'openmpi': ('OMPI_COMM_WORLD_SIZE',),
    'mpich': ('PMI_SIZE',),
    'slurm': ('SLURM_STEP_NUM_TASKS', 'SLURM_NTASKS'),
}


def from_environment(environ: Mapping[str, str], strategy: str = 'auto') -> Parsed:
    """Reads and checks the TF_CONFIG of an environment. A missing one is an empty cluster.

    Raises:
        TfConfigError: the cluster cannot work under the strategy, as `parse`.
        ValueError: the strategy is unknown.
    """
    return parse(environ.get('TF_CONFIG', ''), strategy)


def resolve(
    environ: Mapping[str, str],
    layout: Layout = Layout(),
    strategy: str = 'auto',
    look_up: lookup.NodeLookup = lookup.of_nodes,
) -> Parsed:
    """Finds the cluster where `layout.cluster_from` says that it is described, and adds a note about it.

    'auto' takes the first of these that is complete: TF_CONFIG; mpirun of Open MPI or MPICH (inside a Slurm job too,
    where the step is that of mpirun's own daemons); a step of Slurm; a pod that keeps the contract of `kubernetes`;
    --hosts or --rank. Without any of them, this process is alone, like the only task of an engine.

    Args:
        environ: the environment variables. No others are read.
        layout: the flags that shape the cluster.
        strategy: one of STRATEGIES.
        look_up: finds the addresses of Slurm's nodes.

    Raises:
        TfConfigError: the cluster cannot work under the strategy, as `parse`.
        ResolverError: the environment and the flags do not describe a cluster. It is a TfConfigError.
        ValueError: the strategy is unknown.
    """
    source: str | None = layout.cluster_from
    notes: tuple[str, ...] = ()
    if source == 'auto':
        source, notes = _detect(environ, layout)
    is_alone = source is None or source == 'tf_config' and not environ.get('TF_CONFIG', '').strip()
    if is_alone and strategy in OF_CLUSTERS:
        raise refusal(
            None,
            '--strategy',
            strategy,
            'needs a cluster, and neither TF_CONFIG nor an engine names one: set TF_CONFIG (python -m '
            'tf_config make --help), start the task with an engine (--cluster_from), or start all with '
            './run_local_cluster.sh',
        )
    if source is None:
        return _with_notes(_alone(layout, strategy, notes), notes)
    if source == 'tf_config':
        return _with_notes(from_environment(environ, strategy), (*notes, *_unused(layout, (), 'TF_CONFIG')))
    engine = _ENGINES[source]
    ranks = engine.resolve(environ, layout, look_up)
    cluster, task = cluster_of(ranks, layout)
    if task is None and strategy in OF_CLUSTERS:
        raise refusal(
            ranks.source,
            '--strategy',
            strategy,
            f'needs a cluster, and {ranks.where} has one task: start more of them, or use --strategy=auto',
        )
    try:
        parsed = parse(render(cluster, task) if task else '', strategy)
    except TfConfigError as error:
        raise _refused(ranks, error) from None
    shape = f'rank {ranks.rank} of {ranks.size} is {task}' if task else 'the only task: a single process'
    return _with_notes(
        parsed, (f'cluster from {ranks.source}: {ranks.where}; {shape}', *_unused(layout, engine.used, ranks.source))
    )


def started_with_others(environ: Mapping[str, str]) -> str | None:
    """'Slurm has started 4 tasks', if srun or mpirun has started this process with others; None if not."""
    for source, numbers in _NUMBERS.items():
        number = next((environ[name] for name in numbers if environ.get(name)), '')
        if _ENGINES[source].is_here(environ) and number.isdecimal() and int(number) > 1:
            return f'{_ENGINES[source].name} has started {number} tasks'
    return None


def _detect(environ: Mapping[str, str], layout: Layout) -> tuple[str | None, tuple[str, ...]]:
    """The source that 'auto' means, or None if this process is alone; and notes for the user."""
    present = {source: engine.name for source, engine in _ENGINES.items() if engine.is_here(environ)}
    if environ.get('TF_CONFIG', '').strip():
        others = ' and '.join(present.values())
        note = f'cluster from TF_CONFIG, which is set; {others} is not asked'
        return 'tf_config', (note,) if others else ()
    if present:
        return next(iter(present)), ()
    if layout.hosts or layout.rank is not None:
        return 'hosts', ()
    if slurm.is_job(environ):
        return None, (
            f'Slurm job {environ["SLURM_JOB_ID"]}, and no step of it: a single process; srun starts a cluster',
        )
    if environ.get(kubernetes.INDEX):
        return None, (f'{kubernetes.INDEX} is set, and {kubernetes.SERVICE} is not: a single process',)
    return None, ()


def _unused(layout: Layout, used: tuple[str, ...], name: str) -> tuple[str, ...]:
    """A note for each flag that is given and not `used`. `name` is that of the source in messages."""
    return tuple(
        f'{flag}={value} is not used: the cluster is from {name}'
        for flag, value in layout.given().items()
        if flag not in used
    )


def _alone(layout: Layout, strategy: str, notes: tuple[str, ...]) -> Parsed:
    """A process that is alone. Raises ResolverError if --roles names several tasks."""
    if layout.size and layout.size > 1:
        note = f' ({notes[0]})' if notes else ''
        raise refusal(
            None,
            '--roles',
            layout.given()['--roles'],
            f'makes {layout.size} tasks, and neither TF_CONFIG nor an engine is here to say which '
            f'of them this is{note}: start the trainer with the engine, or leave out --roles',
        )
    return parse('', strategy)


def _refused(ranks: Ranks, error: TfConfigError) -> ResolverError:
    """The error with the --roles that mend the cluster as its correction, if there are such roles."""
    roles = parse(error.findings[0].corrected).cluster
    counts = [(role, len(roles.addresses(role))) for role in ROLES if roles.addresses(role)]
    mends = sum(count for _, count in counts) == ranks.size
    corrected = '--roles=' + ','.join(f'{role}:{count}' for role, count in counts) if mends else ''
    return ResolverError(
        ranks.source, [dataclasses.replace(finding, corrected=corrected) for finding in error.findings]
    )


def _with_notes(parsed: Parsed, notes: tuple[str, ...]) -> Parsed:
    return dataclasses.replace(parsed, notes=(*notes, *parsed.notes))
