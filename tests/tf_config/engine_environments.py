"""Environments that engines give a task. Those of Slurm are what 22.05 really set, but for what a name says."""

from tf_config import read_layout, resolve

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
