"""The cluster of a program that `mpirun` of Open MPI or MPICH has started, from the variables that it sets.

    Open MPI  OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE, OMPI_COMM_WORLD_LOCAL_RANK
    MPICH     PMI_RANK, PMI_SIZE, MPI_LOCALRANKID (its launcher Hydra, which Intel MPI has as well)

Neither says where the other ranks are. `--hosts` does: it has one entry for each rank, in the order of the ranks
(`--hosts=a,a,b,b`). From a shorter list the hosts could only be guessed, because options of mpirun decide which rank is
on which host.
"""

import re
from collections.abc import Mapping, Sequence

from tf_config import addresses
from tf_config.resolvers.layout import BASE_PORT, Layout, Ranks, host_of, numbered, refusal

OPEN_MPI, MPICH = 'Open MPI', 'MPICH'
_VARIABLES = {
    OPEN_MPI: ('OMPI_COMM_WORLD_RANK', 'OMPI_COMM_WORLD_SIZE', 'OMPI_COMM_WORLD_LOCAL_RANK'),
    MPICH: ('PMI_RANK', 'PMI_SIZE', 'MPI_LOCALRANKID'),
}


def is_process(environ: Mapping[str, str], name: str) -> bool:
    """Whether mpirun of `name` (OPEN_MPI or MPICH) has started this process: all its variables are set."""
    return all(environ.get(variable) for variable in _VARIABLES[name])


def resolve(environ: Mapping[str, str], layout: Layout, name: str) -> Ranks:
    """The ranks of this mpirun, which is that of `name` (OPEN_MPI or MPICH).

    Raises:
        ResolverError: a variable of mpirun is missing or wrong, or --hosts does not have the host of every rank.
    """
    rank, size, local_rank = (_whole(environ, name, variable) for variable in _VARIABLES[name])
    variable, size_variable, _ = _VARIABLES[name]
    where = f'mpirun of {size} process{"es" if size != 1 else ""}'
    hosts = layout.hosts or (('localhost',) if size == 1 else ())
    if len(hosts) != size:
        raise refusal(
            name,
            '--hosts',
            ','.join(hosts) or None,
            f'{size_variable} = {size}, and mpirun does not say where the other ranks are: give {size} '
            'hosts in the order of the ranks, a host with two ranks twice'
            + ('; srun in place of mpirun needs none' if environ.get('SLURM_JOB_ID') else ''),
        )
    _check_own_host(name, hosts, rank, local_rank)
    numbers = numbered(name, hosts, layout.base_port or BASE_PORT)
    return Ranks(name, where, rank, variable, numbers)


def _whole(environ: Mapping[str, str], name: str, variable: str) -> int:
    text = environ.get(variable, '')
    if not re.fullmatch('[0-9]{1,9}', text):
        raise refusal(
            name, variable, environ.get(variable), 'a whole number from 0 is wanted; start the trainer with mpirun'
        )
    return int(text)


def _check_own_host(name: str, hosts: Sequence[str], rank: int, local_rank: int) -> None:
    """Compares --hosts with the number of lower ranks on this host, which is all that mpirun says about hosts."""
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
