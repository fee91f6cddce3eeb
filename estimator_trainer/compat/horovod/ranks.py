"""Which rank this process has, from the places that name the trainer's cluster. Pure; imports no TensorFlow."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, MutableMapping

import tf_config

VARIABLE = 'ESTIMATOR_TRAINER_HOROVOD'  # `compat run --horovod` sets it: TF_CONFIG of this task, or nothing
HOSTS_VARIABLE = 'ESTIMATOR_TRAINER_HOSTS'  # of `compat run --hosts`: the host of each rank, which mpirun does not tell
_RANKS_HERE = {'OMPI_COMM_WORLD_SIZE': 'OMPI_COMM_WORLD_LOCAL_SIZE', 'PMI_SIZE': 'MPI_LOCALNRANKS'}  # by all ranks


@dataclasses.dataclass(frozen=True)
class Place:
    """This process among those that train.

    Attributes:
        addresses: 'host:port' of each rank.
    """

    rank: int = 0
    addresses: tuple[str, ...] = ('',)

    @property
    def size(self) -> int:
        return len(self.addresses)

    @property
    def hosts(self) -> tuple[str, ...]:
        """The host of each rank."""
        return tuple(address.rpartition(':')[0] for address in self.addresses)

    @property
    def local_rank(self) -> int:
        """The number of this process on its host."""
        return self.hosts[: self.rank].count(self.hosts[self.rank])

    @property
    def local_size(self) -> int:
        """The number of ranks on its host."""
        return self.hosts.count(self.hosts[self.rank])

    @property
    def cross_rank(self) -> int:
        """The number of this host, among those that have a process of this local rank."""
        before = set(self.hosts[: self.rank]) - {self.hosts[self.rank]}
        return sum(self.hosts.count(host) > self.local_rank for host in before)

    @property
    def cross_size(self) -> int:
        """The number of hosts that have a process of this local rank."""
        return len({host for host in self.hosts if self.hosts.count(host) > self.local_rank})


def take(environ: MutableMapping[str, str]) -> Place:
    """The place that `environ` says, which loses TF_CONFIG: Estimators would make a cluster of their own of it.

    Raises:
        tf_config.TfConfigError: the environment makes up no cluster, or one with parameter servers.
    """
    place = place_of(environ)
    if environ.get('TF_CONFIG', '').strip() or VARIABLE not in environ:
        environ[VARIABLE] = environ.pop('TF_CONFIG', '')  # for the processes that this one starts, and a second call
    return place


def place_of(environ: Mapping[str, str]) -> Place:
    """The place that `environ`, a mapping, says. A process that nothing names is rank 0 of 1.

    Raises:
        tf_config.TfConfigError: as above.
        ValueError: this task does not train; it is no rank.
    """
    said = environ.get('TF_CONFIG', '').strip() or environ.get(VARIABLE, '')
    layout = tf_config.Layout(hosts=_hosts(environ))
    parsed = tf_config.resolve({**environ, 'TF_CONFIG': said}, layout)
    if parsed.task is None:
        return Place()
    training = parsed.cluster.training_tasks
    if parsed.task not in training:
        raise ValueError(f'{parsed.task} has no rank: with Horovod every task trains; leave out ps and evaluators')
    addresses = tuple(parsed.cluster.address(task) for task in training)
    return Place(training.index(parsed.task), addresses)


def _hosts(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The host of each rank, where mpirun has started this."""
    for of_size, of_here in _RANKS_HERE.items():
        size = environ.get(of_size, '')
        if size and environ.get(HOSTS_VARIABLE):
            return tuple(environ[HOSTS_VARIABLE].split(','))
        if size.isdecimal() and size == environ.get(of_here):  # one machine has them all
            return ('localhost',) * int(size)
    return ()
