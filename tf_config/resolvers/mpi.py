"""Open MPI and MPICH: who is in the cluster, from what `mpirun` tells each process.

    Open MPI  OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK
    MPICH     PMI_RANK, PMI_SIZE, MPI_LOCALRANKID (its launcher Hydra, which Intel MPI has as well)

Neither says where the other ranks are: `--hosts` does, one entry for each rank in the order of the ranks
(`--hosts=a,a,b,b`). A shorter list would be a guess, since ranks go over hosts by mpirun's own options.
"""

import re

from tf_config import addresses
from tf_config.resolvers.layout import BASE_PORT, Ranks, host_of, numbered, refusal

OPEN_MPI, MPICH = 'Open MPI', 'MPICH'
_VARIABLES = {
    OPEN_MPI: ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'OMPI_COMM_WORLD_LOCAL_RANK'),
    MPICH: ('PMI_RANK', 'PMI_SIZE', 'MPI_LOCALRANKID'),
}


def is_process(environ, name):
    """Whether mpirun of `name` started this: all its variables are there."""
    return all(environ.get(variable) for variable in _VARIABLES[name])


def resolve(environ, layout, name):
    """Ranks of this mpirun. Raises ResolverError."""
    rank, size, local_rank = (_whole(environ, name, variable) for variable in _VARIABLES[name])
    variable, of_size, _ = _VARIABLES[name]
    where = f'mpirun of {size} process{"es" if size != 1 else ""}'
    hosts = layout.hosts or (('localhost',) if size == 1 else ())
    if len(hosts) != size:
        raise refusal(
            name,
            '--hosts',
            ','.join(hosts) or None,
            f'{of_size} = {size}, and mpirun does not say where the other ranks are: give {size} '
            'hosts in the order of the ranks, a host with two ranks twice'
            + ('; srun in place of mpirun needs none' if environ.get('SLURM_JOB_ID') else ''),
        )
    _check_own_host(name, hosts, rank, local_rank)
    numbers = numbered(name, hosts, layout.base_port or BASE_PORT)
    return Ranks(name, where, rank, variable, numbers)


def _whole(environ, name, variable):
    text = environ.get(variable, '')
    if not re.fullmatch('[0-9]{1,9}', text):
        raise refusal(
            name, variable, environ.get(variable), 'a whole number from 0 is wanted; start the trainer with mpirun'
        )
    return int(text)


def _check_own_host(name, hosts, rank, local_rank):
    """The one thing that mpirun says of places: how many lower ranks are on this host."""
    machines = [addresses.machine(host_of(host)) for host in hosts]
    if rank < len(hosts) and machines[:rank].count(machines[rank]) != local_rank:
        variable = _VARIABLES[name][2]
        raise refusal(
            name,
            variable,
            local_rank,
            f'rank {rank} has so many lower ranks on its host, and in --hosts={",".join(hosts)} it '
            f'has {machines[:rank].count(machines[rank])}: give the hosts in the order of the '
            'ranks, each by one name',
        )
