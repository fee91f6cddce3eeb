"""Environments of engines -> clusters. Those of Slurm are what 22.05 really set, but for what a name says."""

import itertools

import pytest

from tf_config import Cluster, ResolverError, Task, TfConfigError, read_layout, resolve
from tf_config.resolvers import slurm

FIRST_PORT = 12060  # of step 3.0


def step(procid, nodes='n[1-2]', per_node='1(x2)', tasks=2, **more):
    """The environment of a task of step 3.0; `more` without the SLURM_."""
    names = {
        'JOB_ID': 3,
        'STEP_ID': 0,
        'PROCID': procid,
        'STEP_NODELIST': nodes,
        'STEP_TASKS_PER_NODE': per_node,
        'STEP_NUM_TASKS': tasks,
        'NTASKS': tasks,
        'JOB_NODELIST': nodes,
        **more,
    }
    environ = {f'SLURM_{name}': str(value) for name, value in names.items()}
    if 'NODENAME' in more:
        environ['SLURMD_NODENAME'] = environ.pop('SLURM_NODENAME')
    return environ


def without(environ, *names):
    return {name: value for name, value in environ.items() if name not in names}


def own_numbers(nodes):
    """A network in which every node has a name and a number of its own."""
    return {node: (node, f'10.0.0.{index}') for index, node in enumerate(nodes)}


def one_machine(nodes):
    """Several slurmd on one host, whose names do not resolve."""
    return {node: ('10.0.0.1', '10.0.0.1') for node in nodes}


def aliases(nodes):
    """Several slurmd on one host, by names that do."""
    return {node: (node, '10.0.0.1') for node in nodes}


def ipv6(nodes):
    return {node: ('[fd00::1]', '[fd00::1]') for node in nodes}


def found(environ, look_up=own_numbers, strategy='auto', **flags):
    return resolve(environ, read_layout(**flags), strategy, look_up)


OPEN_MPI = {'OMPI_COMM_WORLD_RANK': '1', 'OMPI_COMM_WORLD_SIZE': '2', 'OMPI_COMM_WORLD_LOCAL_RANK': '0'}
OPEN_MPI_LOCAL = {**OPEN_MPI, 'OMPI_COMM_WORLD_LOCAL_RANK': '1'}
MPICH = {'PMI_RANK': '0', 'PMI_SIZE': '3', 'MPI_LOCALRANKID': '0', 'MPI_LOCALNRANKS': '1'}
OF_SRUN_PMI2 = {'PMI_RANK': '1', 'PMI_SIZE': '2', 'PMI_FD': '9'}
TF_CONFIG = {'TF_CONFIG': '{"cluster":{"worker":["a:1","b:1"]},"task":{"type":"worker","index":1}}'}
POD = {
    'JOB_COMPLETION_INDEX': '1',
    'HOSTNAME': 'mnist-1',
    'ESTIMATOR_TRAINER_SERVICE': 'mnist',
    'KUBERNETES_SERVICE_HOST': '10.96.0.1',
}
OF_JOBSET = {
    'JOB_COMPLETION_INDEX': '1',
    'HOSTNAME': 'mnist-worker-0-1',
    'ESTIMATOR_TRAINER_ROLE': 'worker',
    'ESTIMATOR_TRAINER_SERVICE': 'mnist',
}
BATCH_SCRIPT = {
    'SLURM_JOB_ID': '3',
    'SLURM_PROCID': '0',
    'SLURM_NTASKS': '2',
    'SLURM_NODEID': '0',
    'SLURM_JOB_NODELIST': 'n[1-2]',
    'SLURM_TASKS_PER_NODE': '1(x2)',
    'SLURM_GTIDS': '0',
    'SLURMD_NODENAME': 'n1',
}
SALLOC = {'SLURM_JOB_ID': '3', 'SLURM_NTASKS': '2', 'SLURM_JOB_NODELIST': 'n1'}
HET = dict(HET_SIZE=2, JOB_NODELIST_HET_GROUP_0='n3', JOB_NODELIST_HET_GROUP_1='n[1-2]')
FULL_LAYOUT = 'chief:1,worker:3,ps:2,evaluator:1'

# name: (environment, flags, look-up, the task that this is, addresses by rank)
FOUND = {
    'slurm, one task a node': (
        step(1, GTIDS=1, NODEID=1, NODENAME='n2'),
        {},
        own_numbers,
        'worker:1',
        'n1:12060 n2:12060',
    ),
    'slurm, a step with -m block:cyclic': (
        step(1, per_node='2,1', tasks=3, DISTRIBUTION='block:cyclic', GTIDS='0,1', NODENAME='n1'),
        {},
        own_numbers,
        'worker:1',
        'n1:12060 n1:12061 n2:12060',
    ),
    'slurm, without -m': (
        step(3, per_node='3,1', tasks=4, GTIDS=3, NODENAME='n2'),
        {},
        own_numbers,
        'worker:3',
        'n1:12060 n1:12061 n1:12062 n2:12060',
    ),
    'slurm, cyclic': (
        step(2, per_node='3,1', tasks=4, DISTRIBUTION='cyclic', GTIDS='0,2,3', NODENAME='n1'),
        {},
        own_numbers,
        'worker:2',
        'n1:12060 n2:12060 n1:12061 n1:12062',
    ),
    'slurm, cyclic:block, three nodes': (
        step(4, 'n[1-3]', '2,1,2', 5, DISTRIBUTION='cyclic:block', GTIDS='2,4', NODENAME='n3'),
        {},
        own_numbers,
        'worker:4',
        'n1:12060 n2:12060 n3:12060 n1:12061 n3:12061',
    ),
    'slurm, nodes are no strings': (
        step(1, 'n[2,10]', NODENAME='n10'),
        {},
        own_numbers,
        'worker:1',
        'n2:12060 n10:12060',
    ),
    'slurm, numbers with zeros': (
        step(2, 'n[08-10]', '1(x3)', 3),
        {},
        own_numbers,
        'worker:2',
        'n08:12060 n09:12060 n10:12060',
    ),
    'slurm, several kinds of nodes': (
        step(3, 'gpu-a,n[1-2],r[1-2]c3', '1(x5)', 5),
        {},
        own_numbers,
        'worker:3',
        'gpu-a:12060 n1:12060 n2:12060 r1c3:12060 r2c3:12060',
    ),
    'slurm, all on one node': (
        step(1, 'n1', '4', 4),
        {},
        own_numbers,
        'worker:1',
        'n1:12060 n1:12061 n1:12062 n1:12063',
    ),
    'slurm, several slurmd on one address': (
        step(2, 'n[1-3]', '1(x3)', 3),
        {},
        one_machine,
        'worker:2',
        '10.0.0.1:12060 10.0.0.1:12061 10.0.0.1:12062',
    ),
    'slurm, two names of one address': (step(0), {}, aliases, 'worker:0', 'n1:12060 n2:12061'),
    'slurm, two names of one address, cyclic': (
        step(0, per_node='2(x2)', tasks=4, DISTRIBUTION='cyclic'),
        {},
        aliases,
        'worker:0',
        'n1:12060 n2:12061 n1:12062 n2:12063',
    ),
    'slurm, nodes with IPv6 addresses only': (step(1), {}, ipv6, 'worker:1', '[fd00::1]:12060 [fd00::1]:12061'),
    'slurm, roles in the order as written': (
        step(1),
        dict(roles='evaluator:1,chief:1'),
        own_numbers,
        'chief:0',
        'n1:12060 n2:12060',
    ),
    'slurm, all roles': (
        step(5, 'n[1-7]', '1(x7)', 7),
        dict(roles=FULL_LAYOUT, base_port=3000),
        own_numbers,
        'ps:1',
        ' '.join(f'n{node}:3000' for node in range(1, 8)),
    ),
    'slurm, plane, where all distributions are the same': (
        step(1, DISTRIBUTION='plane', GTIDS=1, NODENAME='n2'),
        {},
        own_numbers,
        'worker:1',
        'n1:12060 n2:12060',
    ),
    'slurm, no SLURM_STEP_NUM_TASKS': (
        without(step(1), 'SLURM_STEP_NUM_TASKS'),
        {},
        own_numbers,
        'worker:1',
        'n1:12060 n2:12060',
    ),
    'slurm, a second step': (step(1, STEP_ID=1), {}, own_numbers, 'worker:1', 'n1:14080 n2:14080'),
    'slurm, srun --mpi=pmi2': ({**step(1), **OF_SRUN_PMI2}, {}, own_numbers, 'worker:1', 'n1:12060 n2:12060'),
    'slurm, het job': (
        step(0, 'n[1-3]', '1(x3)', 3, DISTRIBUTION='cyclic', GTIDS=0, NODEID=0, NODENAME='n3', **HET),
        dict(roles='chief:1,worker:2'),
        own_numbers,
        'chief:0',
        'n3:12060 n1:12060 n2:12060',
    ),
    'slurm, het job of srun': (
        step(
            1,
            'n[1,3]',
            HET_SIZE=2,
            JOB_NODELIST_PACK_GROUP_0='n3',
            JOB_NODELIST_PACK_GROUP_1='n1',
            GTIDS=1,
            NODEID=1,
            NODENAME='n1',
        ),
        {},
        own_numbers,
        'worker:1',
        'n3:12060 n1:12060',
    ),
    'slurm, het job, several tasks on a node': (
        step(3, 'n[1-3]', '2,1,2', 5, DISTRIBUTION='cyclic', GTIDS=3, NODENAME='n2', **HET),
        {},
        own_numbers,
        'worker:3',
        'n3:12060 n3:12061 n1:12060 n2:12060 n1:12061',
    ),
    'slurm, a step of one component of a het job': (
        step(1, 'n[1-2]', GTIDS=1, NODEID=1, NODENAME='n2', **HET),
        {},
        own_numbers,
        'worker:1',
        'n1:12060 n2:12060',
    ),
    'slurm, a step on some nodes of a component': (
        step(1, 'n[2-3]', GTIDS=1, NODEID=1, NODENAME='n2', **HET),
        {},
        own_numbers,
        'worker:1',
        'n3:12060 n2:12060',
    ),
    'open mpi': (OPEN_MPI, dict(hosts='a,b'), own_numbers, 'worker:1', 'a:2222 b:2222'),
    'open mpi, two ranks on a host': (
        OPEN_MPI_LOCAL,
        dict(hosts='a,a', base_port=4000),
        own_numbers,
        'worker:1',
        'a:4000 a:4001',
    ),
    'open mpi, two ranks here by two names': (
        OPEN_MPI_LOCAL,
        dict(hosts='localhost,127.0.0.1'),
        own_numbers,
        'worker:1',
        'localhost:2222 127.0.0.1:2223',
    ),
    'open mpi, in a slurm job': (
        {**step(0, per_node='1', nodes='n2', tasks=1), **OPEN_MPI},
        dict(hosts='n1,n2'),
        own_numbers,
        'worker:1',
        'n1:2222 n2:2222',
    ),
    'mpich, IPv6 and ports': (
        MPICH,
        dict(hosts='[fd00::1],[fd00::2]:2300,[fd00::1]', roles='chief:1,worker:1,evaluator:1'),
        own_numbers,
        'chief:0',
        '[fd00::1]:2222 [fd00::2]:2300 [fd00::1]:2223',
    ),
    'kubernetes, Indexed Job': (
        POD,
        dict(roles='worker:2'),
        own_numbers,
        'worker:1',
        'mnist-0.mnist:2222 mnist-1.mnist:2222',
    ),
    'kubernetes, a host network': (
        {**POD, 'HOSTNAME': 'node7', 'ESTIMATOR_TRAINER_JOB': 'mnist'},
        dict(roles='chief:1,worker:1'),
        own_numbers,
        'worker:0',
        'mnist-0.mnist:2222 mnist-1.mnist:2222',
    ),
    'kubernetes, JobSet': (
        OF_JOBSET,
        dict(roles='chief:1,worker:2,evaluator:1', base_port=5000),
        own_numbers,
        'worker:1',
        'mnist-chief-0-0.mnist:5000 mnist-worker-0-0.mnist:5000 mnist-worker-0-1.mnist:5000 '
        'mnist-evaluator-0-0.mnist:5000',
    ),
    'kubernetes, StatefulSet': (
        {'HOSTNAME': 'train-ing-1', 'ESTIMATOR_TRAINER_SERVICE': 's'},
        dict(roles='worker:2'),
        own_numbers,
        'worker:1',
        'train-ing-0.s:2222 train-ing-1.s:2222',
    ),
    'by hand': ({}, dict(hosts='a,b:2300,[::1],a', rank=3), own_numbers, 'worker:3', 'a:2222 b:2300 [::1]:2222 a:2223'),
    'by hand, a port that is taken already': (
        {},
        dict(hosts='a,a:2222,A', rank=0),
        own_numbers,
        'worker:0',
        'a:2223 a:2222 A:2224',
    ),
    'TF_CONFIG before an engine': ({**step(0), **TF_CONFIG}, {}, own_numbers, 'worker:1', 'a:1 b:1'),
}


@pytest.mark.parametrize('environ, flags, look_up, task, addresses', FOUND.values(), ids=FOUND)
def test_found(environ, flags, look_up, task, addresses):
    parsed = found(environ, look_up, **flags)
    assert str(parsed.task) == task
    order = read_layout(**flags).tasks(len(addresses.split()))
    assert [parsed.cluster.address(one) for one in order] == addresses.split()


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
