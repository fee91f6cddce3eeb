"""Environments of engines, and flags, that give no cluster: what the message says."""

import pytest

from tests.tf_config.engine_environments import (
    BATCH_SCRIPT,
    HET,
    MPICH,
    OF_JOBSET,
    OF_SRUN_PMI2,
    OPEN_MPI,
    POD,
    SALLOC,
    found,
    own_numbers,
    step,
    without,
)
from tf_config import ResolverError, read_layout

# name: (environment, flags, look-up, what the message says)
REFUSED = {
    'slurm, a batch script': (
        BATCH_SCRIPT,
        dict(cluster_from='slurm'),
        own_numbers,
        ['SLURM_STEP_ID = absent', 'batch', 'srun'],
    ),
    'slurm, an allocation': (SALLOC, dict(cluster_from='slurm'), own_numbers, ['SLURM_STEP_ID', 'srun']),
    'slurm, no job': ({}, dict(cluster_from='slurm'), own_numbers, ['SLURM_JOB_ID = absent', 'srun']),
    'slurm, a step without nodes': (step(0, nodes=''), {}, own_numbers, ['SLURM_STEP_NODELIST = absent']),
    'slurm, a step without counts': (
        without(step(0), 'SLURM_STEP_TASKS_PER_NODE'),
        {},
        own_numbers,
        ['SLURM_STEP_TASKS_PER_NODE'],
    ),
    'slurm, a step without a size': (
        without(step(0), 'SLURM_STEP_NUM_TASKS', 'SLURM_NTASKS'),
        {},
        own_numbers,
        ['SLURM_NTASKS = absent'],
    ),
    'slurm, a rank that is no number': (step('first'), {}, own_numbers, ['SLURM_PROCID = first', 'whole']),
    'slurm, a rank too high': (step(2), {}, own_numbers, ['SLURM_PROCID = 2', 'from 0 to 1']),
    'slurm, too many counts': (
        step(0, per_node='1(x3)', tasks=3),
        {},
        own_numbers,
        ['1(x3)', 'counts 3 nodes', 'names 2'],
    ),
    'slurm, counts that do not add up': (
        step(0, tasks=3),
        {},
        own_numbers,
        ['adds up to 2', 'SLURM_STEP_NUM_TASKS = 3'],
    ),
    'slurm, counts that are none': (step(0, per_node='1x2'), {}, own_numbers, ['1x2', '2(x3),1']),
    'slurm, a list that is none': (step(0, 'n[1-'), {}, own_numbers, ['SLURM_STEP_NODELIST = n[1-']),
    'slurm, a range that runs down': (step(0, 'n[2-1]'), {}, own_numbers, ['n[2-1]', 'bad range']),
    'slurm, a node twice': (step(0, 'n1,n1'), {}, own_numbers, ['n1,n1', 'names 1']),
    'slurm, arbitrary': (
        step(0, DISTRIBUTION='arbitrary'),
        {},
        own_numbers,
        ['SLURM_DISTRIBUTION = arbitrary', 'block'],
    ),
    'slurm, plane, several tasks on a node': (
        step(0, per_node='3,1', tasks=4, DISTRIBUTION='plane', GTIDS='0,1,3', NODENAME='n1'),
        {},
        own_numbers,
        ['SLURM_DISTRIBUTION = plane', 'block and cyclic'],
    ),
    'slurm, a distribution of the future': (
        step(0, per_node='2,1', tasks=3, DISTRIBUTION='spiral'),
        {},
        own_numbers,
        ['spiral'],
    ),
    'slurm, the ranks on this node are others': (
        step(1, per_node='3,1', tasks=4, GTIDS='0,1,3', NODENAME='n1'),
        {},
        own_numbers,
        ['SLURM_GTIDS = 0,1,3', 'n1', '0,1,2'],
    ),
    'slurm, on another node': (step(0, NODENAME='n2'), {}, own_numbers, ['SLURM_GTIDS = 0', 'n2', 'were 1']),
    'slurm, components in a job that is not heterogeneous': (
        step(0, 'n[1-3]', '2,1(x2)', 4, DISTRIBUTION='block', GTIDS='0', NODEID=0, NODENAME='n3'),
        {},
        own_numbers,
        ['SLURM_GTIDS', 'one component'],
    ),
    'slurm, het job without its components': (
        step(0, 'n[1,3]', HET_SIZE=2),
        {},
        own_numbers,
        ['SLURM_JOB_NODELIST_HET_GROUP_0 = absent', 'sbatch'],
    ),
    'slurm, het job with a shared node': (
        step(0, 'n[1-2]', **{**HET, 'JOB_NODELIST_HET_GROUP_0': 'n2'}),
        {},
        own_numbers,
        ['SLURM_STEP_NODELIST', 'one component'],
    ),
    'slurm, a node without an address': (
        step(0),
        {},
        lambda nodes: {'n1': ('n1', '10.0.0.1')},
        ['node n2 has no address', 'scontrol', '--hosts'],
    ),
    'slurm, too few roles': (step(0), dict(roles='worker:1'), own_numbers, ['--roles = worker:1', 'makes 1', 'has 2']),
    'slurm, too many roles': (step(0), dict(roles='chief:1,worker:2'), own_numbers, ['--roles', 'makes 3', 'has 2']),
    'slurm, too many roles for a lone task': (
        step(0, 'n1', '1', 1),
        dict(roles='worker:2'),
        own_numbers,
        ['makes 2', 'has 1'],
    ),
    'slurm, ports that end': (
        step(0, 'n1', '2', 2),
        dict(base_port=65535),
        own_numbers,
        ['--base_port = 65535', '65536'],
    ),
    'slurm, a batch script that wants roles': (
        BATCH_SCRIPT,
        dict(roles='worker:2'),
        own_numbers,
        ['--roles=worker:2', 'Slurm job 3', 'leave out'],
    ),
    'nobody says who this is': (
        {},
        dict(roles='chief:1,worker:2'),
        own_numbers,
        ['--roles=chief:1,worker:2: makes 3 tasks'],
    ),
    'open mpi without hosts': (
        OPEN_MPI,
        {},
        own_numbers,
        ['--hosts = absent', 'OMPI_COMM_WORLD_SIZE = 2', 'give 2 hosts'],
    ),
    'open mpi without hosts in a slurm job': (
        {**step(0), **OPEN_MPI},
        {},
        own_numbers,
        ['Open MPI', '--hosts', 'srun in place of mpirun'],
    ),
    'open mpi, fewer hosts than ranks': (OPEN_MPI, dict(hosts='a'), own_numbers, ['--hosts = a', 'give 2']),
    'open mpi, hosts in another order': (
        OPEN_MPI,
        dict(hosts='a,a'),
        own_numbers,
        ['OMPI_COMM_WORLD_LOCAL_RANK = 0', '--hosts=a,a', 'order'],
    ),
    'open mpi that is not there': (
        {},
        dict(cluster_from='openmpi'),
        own_numbers,
        ['OMPI_COMM_WORLD_RANK = absent', 'mpirun'],
    ),
    'mpich that is not there': (OF_SRUN_PMI2, dict(cluster_from='mpich'), own_numbers, ['MPI_LOCALRANKID = absent']),
    'mpich, a rank too high': (
        {**MPICH, 'PMI_RANK': '3'},
        dict(hosts='a,b,c'),
        own_numbers,
        ['PMI_RANK = 3', 'from 0 to 2'],
    ),
    'kubernetes without roles': (POD, {}, own_numbers, ['--roles = absent', '--roles=worker:2']),
    'kubernetes without a service': (
        without(POD, 'ESTIMATOR_TRAINER_SERVICE'),
        dict(cluster_from='kubernetes', roles='worker:2'),
        own_numbers,
        ['ESTIMATOR_TRAINER_SERVICE = absent', 'headless'],
    ),
    'kubernetes without an index': (
        {'ESTIMATOR_TRAINER_SERVICE': 's', 'HOSTNAME': 'mnist-x2k'},
        dict(roles='worker:2'),
        own_numbers,
        ['HOSTNAME = mnist-x2k', 'Indexed Job'],
    ),
    'kubernetes, an index too high': (
        {**POD, 'JOB_COMPLETION_INDEX': '2', 'HOSTNAME': 'mnist-2'},
        dict(roles='worker:2'),
        own_numbers,
        ['JOB_COMPLETION_INDEX = 2', 'from 0 to 1'],
    ),
    'kubernetes, a host network without a name': (
        {**POD, 'HOSTNAME': 'node7'},
        dict(roles='worker:2'),
        own_numbers,
        ['HOSTNAME = node7', '"-1"', 'ESTIMATOR_TRAINER_JOB'],
    ),
    'kubernetes, JobSet, a role that is none': (
        {**OF_JOBSET, 'ESTIMATOR_TRAINER_ROLE': 'ps'},
        dict(roles='chief:1,worker:2'),
        own_numbers,
        ['ESTIMATOR_TRAINER_ROLE = ps', '--roles=chief:1,worker:2'],
    ),
    'kubernetes, JobSet, an index too high': (
        OF_JOBSET,
        dict(roles='chief:1,worker:1'),
        own_numbers,
        ['JOB_COMPLETION_INDEX = 1', 'worker'],
    ),
    'kubernetes, a name that is none': (
        {**POD, 'ESTIMATOR_TRAINER_SERVICE': 'a b'},
        dict(roles='worker:2'),
        own_numbers,
        ['mnist-0.a b:2222', 'valid host'],
    ),
    'by hand without a rank': ({}, dict(hosts='a,b'), own_numbers, ['--rank = absent', 'from 0']),
    'by hand without hosts': ({}, dict(rank=1), own_numbers, ['--hosts = absent', '--hosts=a,b']),
    'by hand, a rank too high': ({}, dict(hosts='a,b', rank=2), own_numbers, ['--rank = 2', 'from 0 to 1']),
    'by hand, an address twice': ({}, dict(hosts='a:1,A:1', rank=0), own_numbers, ['--hosts = A:1', 'twice']),
    'roles that do not fit together': (
        step(0),
        dict(roles='worker:1,ps:1'),
        own_numbers,
        ['Slurm', 'cluster.chief', 'corrected: --roles=chief:1,ps:1'],
    ),
    'roles of which none trains': (step(0), dict(roles='ps:1,evaluator:1'), own_numbers, ['nobody trains']),
}


@pytest.mark.parametrize('environ, flags, look_up, parts', REFUSED.values(), ids=REFUSED)
def test_refused(environ, flags, look_up, parts):
    with pytest.raises(ResolverError) as caught:
        found(environ, look_up, **flags)
    message = str(caught.value)
    assert all(part in message for part in parts), message
    assert 'TF_CONFIG is refused' not in message


@pytest.mark.parametrize(
    'flags, parts',
    [
        (dict(cluster_from='nowhere'), ['--cluster_from=nowhere', 'slurm']),
        (dict(roles='workers:2'), ['--roles=workers:2', 'did you mean "worker"?']),
        (dict(roles='worker'), ['--roles=worker:', '"worker" has no count', 'worker:1']),
        (dict(roles='worker:x'), ['"worker:x"']),
        (dict(roles='worker:-1'), ['"worker:-1"']),
        (dict(roles='worker:1,ps:1,worker:1'), ['worker is given twice']),
        (dict(roles='worker:0'), ['no task']),
        (dict(base_port=0), ['--base_port=0', '1 to 65535']),
        (dict(base_port=65536), ['--base_port=65536']),
        (dict(hosts='a,,b'), ['--hosts=a,,b', '""']),
        (dict(hosts='a,::1'), ['"::1"', 'brackets']),
        (dict(hosts='a:0'), ['"a:0"', 'bad port']),
        (dict(hosts='http://a:1'), ['scheme', '"host" or "host:port"']),
        (dict(rank=-1), ['--rank=-1', 'from 0']),
    ],
)
def test_flags_are_refused(flags, parts):
    with pytest.raises(ResolverError) as caught:
        read_layout(**flags)
    message = str(caught.value)
    assert all(part in message for part in parts), message
    assert '\n' not in message
