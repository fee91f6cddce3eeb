"""Where a cluster comes from: an environment and flags -> Parsed. Only `lookup` asks anybody else."""

import dataclasses

from tf_config.cluster import OF_CLUSTERS, ROLES, render
from tf_config.lint import TfConfigError, parse
from tf_config.resolvers import hosts, kubernetes, lookup, mpi, slurm
from tf_config.resolvers.layout import SOURCES, Layout, Ranks, ResolverError, cluster_of, read_layout, refusal

__all__ = ['SOURCES', 'Layout', 'Ranks', 'ResolverError', 'from_environment', 'read_layout', 'resolve']

_USED = {  # flags of a Layout, by source
    'tf_config': (),
    'slurm': ('--roles', '--base_port'),
    'openmpi': ('--roles', '--base_port', '--hosts'),
    'mpich': ('--roles', '--base_port', '--hosts'),
    'kubernetes': ('--roles', '--base_port'),
    'hosts': ('--roles', '--base_port', '--hosts', '--rank'),
}
_RESOLVERS = {
    'slurm': slurm.resolve,
    'openmpi': lambda environ, layout, look_up: mpi.resolve(environ, layout, mpi.OPEN_MPI),
    'mpich': lambda environ, layout, look_up: mpi.resolve(environ, layout, mpi.MPICH),
    'kubernetes': lambda environ, layout, look_up: kubernetes.resolve(environ, layout),
    'hosts': lambda environ, layout, look_up: hosts.resolve(layout),
}


def from_environment(environ, strategy='auto'):
    """Parsed from TF_CONFIG in `environ`, a mapping. Raises TfConfigError, as `lint.parse`."""
    return parse(environ.get('TF_CONFIG', ''), strategy)


def resolve(environ, layout=Layout(), strategy='auto', look_up=lookup.of_nodes):
    """Parsed from where `layout.cluster_from` says, with a note of what was found there.

    'auto' takes the first of these that is wholly there: TF_CONFIG; mpirun of Open MPI or MPICH (inside
    a Slurm job too, where the step is that of mpirun's own daemons); a step of Slurm; a pod that keeps
    the contract of `kubernetes`; --hosts or --rank. Where there is none, this is a process of its own,
    as a task is that has no others.

    Args:
        environ: a mapping; nothing else of the environment is read.
        look_up: node names -> {name: (host, number)}, as `slurm.resolve` has it.

    Raises:
        TfConfigError: the cluster cannot work under the strategy, as `lint.parse`.
        ResolverError, which is one: environment and flags do not make up a cluster.
    """
    source, notes = layout.cluster_from, ()
    if source == 'auto':
        source, notes = _detect(environ, layout)
    nobody = source is None or source == 'tf_config' and not environ.get('TF_CONFIG', '').strip()
    if nobody and strategy in OF_CLUSTERS:
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
        return _with_notes(from_environment(environ, strategy), (*notes, *_unused(layout, source, 'TF_CONFIG')))
    ranks = _RESOLVERS[source](environ, layout, look_up)
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
        parsed, (f'cluster from {ranks.source}: {ranks.where}; {shape}', *_unused(layout, source, ranks.source))
    )


def _detect(environ, layout):
    """('auto' resolved, or None for a process of its own; notes)."""
    engines = {
        'openmpi': mpi.is_process(environ, mpi.OPEN_MPI) and mpi.OPEN_MPI,
        'mpich': mpi.is_process(environ, mpi.MPICH) and mpi.MPICH,
        'slurm': slurm.is_step(environ) and slurm.NAME,
        'kubernetes': kubernetes.is_pod(environ) and kubernetes.NAME,
    }
    found = {source: name for source, name in engines.items() if name}
    if environ.get('TF_CONFIG', '').strip():
        others = ' and '.join(found.values())
        note = f'cluster from TF_CONFIG, which is set; {others} is not asked'
        return 'tf_config', (note,) if others else ()
    if found:
        return next(iter(found)), ()
    if layout.hosts or layout.rank is not None:
        return 'hosts', ()
    if slurm.is_job(environ):
        return None, (
            f'Slurm job {environ["SLURM_JOB_ID"]}, and no step of it: a single process; srun starts a cluster',
        )
    if environ.get(kubernetes.INDEX):
        return None, (f'{kubernetes.INDEX} is set, and {kubernetes.SERVICE} is not: a single process',)
    return None, ()


def _unused(layout, source, name):
    return tuple(
        f'{flag}={value} is not used: the cluster is from {name}'
        for flag, value in layout.given().items()
        if flag not in _USED[source]
    )


def _alone(layout, strategy, notes):
    """A process of its own, unless --roles wants others."""
    if layout.size and layout.size > 1:
        found = f' ({notes[0]})' if notes else ''
        raise refusal(
            None,
            '--roles',
            layout.given()['--roles'],
            f'makes {layout.size} tasks, and neither TF_CONFIG nor an engine is here to say which '
            f'of them this is{found}: start the trainer with the engine, or leave out --roles',
        )
    return parse('', strategy)


def _refused(ranks, error):
    """What `lint` says of a cluster, with the --roles that mend it where any do."""
    roles = parse(error.findings[0].corrected).cluster
    counts = [(role, len(roles.addresses(role))) for role in ROLES if roles.addresses(role)]
    mends = sum(count for _, count in counts) == ranks.size
    corrected = '--roles=' + ','.join(f'{role}:{count}' for role, count in counts) if mends else ''
    return ResolverError(
        ranks.source, [dataclasses.replace(finding, corrected=corrected) for finding in error.findings]
    )


def _with_notes(parsed, notes):
    return dataclasses.replace(parsed, notes=(*notes, *parsed.notes))
