"""Environments of engines -> clusters: single processes, notes, and what holds for all of them."""

import itertools

import pytest

from tests.tf_config.engine_environments import (
    BATCH_SCRIPT,
    FIRST_PORT,
    MPICH,
    OPEN_MPI,
    POD,
    SALLOC,
    TF_CONFIG,
    aliases,
    found,
    ipv6,
    one_machine,
    own_numbers,
    step,
)
from tf_config import Cluster, ResolverError, Task, TfConfigError
from tf_config.resolvers import slurm

ALONE = {  # name: (environment, flags, what the note says)
    'a laptop': ({}, {}, ''),
    'a laptop with a flagfile of one task': ({}, dict(roles='worker:1', base_port=9), ''),
    'stray variables': (
        {
            'SLURM_NTASKS': '4',
            'SLURM_PROCID': '1',
            'PMI_RANK': '1',
            'OMPI_COMM_WORLD_RANK': '1',
            'HOSTNAME': 'laptop-7',
            'SLURM_CONF': '/etc/slurm.conf',
            'PMI_SIZE': '2',
        },
        {},
        '',
    ),
    'a batch script': (BATCH_SCRIPT, {}, 'Slurm job 3, and no step of it'),
    'an interactive allocation': (SALLOC, {}, 'Slurm job 3, and no step of it'),
    'a step of one task': (
        step(0, 'n1', '1', 1),
        {},
        'cluster from Slurm: step 3.0 on n1; the only task: a single process',
    ),
    'mpirun -n 1': ({**OPEN_MPI, 'OMPI_COMM_WORLD_SIZE': '1', 'OMPI_COMM_WORLD_RANK': '0'}, {}, 'the only task'),
    'an Indexed Job of another kind': (
        {'JOB_COMPLETION_INDEX': '7', 'HOSTNAME': 'sweep-7'},
        {},
        'ESTIMATOR_TRAINER_SERVICE is not',
    ),
    'a Job of one pod': (
        {**POD, 'JOB_COMPLETION_INDEX': '0', 'HOSTNAME': 'mnist-0'},
        dict(roles='chief:1'),
        'the only task',
    ),
}


@pytest.mark.parametrize('environ, flags, note', ALONE.values(), ids=ALONE)
def test_a_process_of_its_own(environ, flags, note):
    parsed = found(environ, **flags)
    assert (parsed.cluster, parsed.task) == (Cluster(), None)
    assert len(parsed.notes) == bool(note) and note in ''.join(parsed.notes)


@pytest.mark.parametrize(
    'environ, flags, notes',
    [
        (step(1, 'n[2,10]'), {}, ['cluster from Slurm: step 3.0 on n[2,10]; rank 1 of 2 is worker:1']),
        (OPEN_MPI, dict(hosts='a,b'), ['cluster from Open MPI: mpirun of 2 processes; rank 1 of 2 is worker:1']),
        (
            POD,
            dict(roles='chief:1,worker:1'),
            ['cluster from Kubernetes: the pods mnist-* of service mnist; rank 1 of 2 is worker:0'],
        ),
        ({}, dict(hosts='a,b', rank=0), ['cluster from --hosts: 2 hosts; rank 0 of 2 is worker:0']),
        (TF_CONFIG, {}, []),
        (
            TF_CONFIG,
            dict(roles='worker:2', base_port=9),
            [
                '--roles=worker:2 is not used: the cluster is from TF_CONFIG',
                '--base_port=9 is not used: the cluster is from TF_CONFIG',
            ],
        ),
        ({**TF_CONFIG, **step(0)}, {}, ['cluster from TF_CONFIG, which is set; Slurm is not asked']),
        (
            {**TF_CONFIG, **step(0)},
            dict(cluster_from='slurm'),
            ['cluster from Slurm: step 3.0 on n[1-2]; rank 0 of 2 is worker:0'],
        ),
        (
            step(0),
            dict(hosts='a', rank=1),
            [
                'cluster from Slurm: step 3.0 on n[1-2]; rank 0 of 2 is worker:0',
                '--hosts=a is not used: the cluster is from Slurm',
                '--rank=1 is not used: the cluster is from Slurm',
            ],
        ),
    ],
)
def test_notes(environ, flags, notes):
    assert list(found(environ, **flags).notes) == notes


@pytest.mark.parametrize(
    'cluster_from, environ, flags',
    [
        ('slurm', step(0), {}),
        ('openmpi', OPEN_MPI, dict(hosts='a,b')),
        ('mpich', MPICH, dict(hosts='a,b,c')),
        ('kubernetes', POD, dict(roles='worker:2')),
        ('hosts', {}, dict(hosts='a,b', rank=1)),
        ('tf_config', TF_CONFIG, {}),
    ],
)
def test_auto_finds_what_can_be_named(cluster_from, environ, flags):
    assert found(environ, **flags) == found(environ, cluster_from=cluster_from, **flags)
    assert found(environ, **flags).task


@pytest.mark.parametrize('cluster_from', ['tf_config', 'slurm', 'hosts'])
def test_a_named_source_is_the_only_one_asked(cluster_from):
    environ = {**OPEN_MPI, **POD}
    if cluster_from == 'tf_config':
        assert found(environ, cluster_from=cluster_from).cluster == Cluster()
    else:
        with pytest.raises(ResolverError):
            found(environ, cluster_from=cluster_from)


def test_all_tasks_of_a_step_agree():
    layout = dict(roles='chief:1,worker:2,ps:1')
    all_found = [found(step(rank, per_node='2(x2)', tasks=4), **layout) for rank in range(4)]
    assert len({parsed.cluster for parsed in all_found}) == 1
    assert [parsed.task for parsed in all_found] == [
        Task('chief', 0),
        Task('worker', 0),
        Task('worker', 1),
        Task('ps', 0),
    ]


def test_the_strategy_is_judged_as_with_tf_config():
    with pytest.raises(ResolverError, match='multi_worker_mirrored'):
        found(step(0), strategy='none')
    with pytest.raises(ResolverError, match='use parameter_server'):
        found(step(0), strategy='multi_worker_mirrored', roles='chief:1,ps:1')
    for strategy in ('multi_worker_mirrored', 'parameter_server'):
        with pytest.raises(TfConfigError, match=f'--strategy = {strategy}: needs a cluster, and step .* has one task'):
            found(step(0, 'n1', '1', 1), strategy=strategy)
    assert found(step(0), strategy='parameter_server', roles='chief:1,ps:1').cluster.ps == ('n2:12060',)


def test_jobs_that_meet_part_when_one_is_requeued():
    def addresses(job, restarts):
        environ = {**step(0, 'n1', '2', 2), 'SLURM_JOB_ID': str(job), 'SLURM_RESTART_COUNT': str(restarts)}
        return found(environ, own_numbers).cluster.worker

    assert addresses(7, 0) == addresses(1007, 0)
    assert not set(addresses(7, 0)) & set(addresses(1007, 1))


def test_two_tasks_on_one_address_never_share_a_port():
    shapes = [(1, 3), (2, 2), (3, 1), (4, 4)]
    for (first, second), look_up, how in itertools.product(
        shapes, (own_numbers, one_machine, aliases, ipv6), ('block', 'cyclic')
    ):
        environ = step(0, per_node=f'{first},{second}', tasks=first + second, DISTRIBUTION=how)
        numbers = {host: number for host, number in look_up(('n1', 'n2')).values()}
        addresses = found(environ, look_up).cluster.worker
        places = [(numbers[host], port) for host, _, port in (one.rpartition(':') for one in addresses)]
        assert len(set(places)) == first + second


def test_jobs_that_share_a_node_have_ports_of_their_own():
    assert slurm.base_port(3, 0, 0) == FIRST_PORT
    near = [slurm.base_port(job, step, 0) for job in range(2000, 2050) for step in range(3)]
    assert len(set(near)) == len(near)
    every = {
        slurm.base_port(job, step, restarts) for job in range(10_000) for step in range(3) for restarts in range(3)
    }
    assert 12000 <= min(every) and max(every) + 20 <= 32768  # Linux gives the rest to outgoing connections
