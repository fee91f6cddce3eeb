"""The flags that shape a cluster: which ranks have which roles, on which hosts and ports."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tf_config import addresses
from tf_config.cluster import ROLES, Cluster, Task
from tf_config.lint import Finding, TfConfigError
from tf_config.reader import nearest_role

# The values of --cluster_from, as its help lists them. _ENGINES of tf_config/resolvers has what is known of each.
SOURCES = ('auto', 'tf_config', 'slurm', 'openmpi', 'mpich', 'kubernetes', 'hosts')

# The default of TensorFlow and of Kubeflow. It is no privileged port, and it lies below the ports that Linux gives to
# outgoing connections (from 32768 up), so that no such connection can have taken it.
BASE_PORT = 2222


class ResolverError(TfConfigError):
    """The environment of an engine, or the flags, do not describe a cluster.

    Attributes:
        source: the name of the engine or flag that was to describe it, such as 'Slurm'; None if a flag is wrong by
            itself.
    """

    def __init__(self, source: str | None, findings: Iterable[Finding]) -> None:
        super().__init__(findings)
        self.source = source

    def __str__(self) -> str:
        if self.source is None:
            (finding,) = self.findings
            return f'{finding.key}={finding.seen}: {finding.problem}'
        corrected = self.findings[0].corrected
        return '\n'.join(
            [
                f'the cluster from {self.source} is refused:',
                *self.lines(),
                *([f'corrected: {corrected}'] if corrected else []),
            ]
        )


def refusal(source: str | None, key: str, value: str | int | None, problem: str, corrected: str = '') -> ResolverError:
    """Makes a ResolverError with one finding.

    Args:
        source: as in ResolverError.
        key: an environment variable or a --flag.
        value: its value; None if it is absent.
        problem: what is wrong with the value, and what to do.
        corrected: the flag that mends it, if it is known.
    """
    seen = 'absent' if value is None else str(value)
    seen = seen if len(seen) <= 200 else seen[:197] + '...'
    return ResolverError(source, [Finding(key, seen or '""', problem, corrected)])


@dataclass(frozen=True)
class Layout:
    """The values of the flags that shape a cluster. `read_layout` makes it from their text.

    Attributes:
        cluster_from: one of SOURCES.
        roles: (role, number of tasks) in the order of --roles; empty: every rank is a worker.
        base_port: the lowest port of the addresses; None: `BASE_PORT`, or under Slurm a port that follows from the
            number of the job, because jobs share nodes.
        hosts: 'host' or 'host:port' of each rank.
        rank: the rank of this process, counted from 0; None if the engine says it.
    """

    cluster_from: str = 'auto'
    roles: tuple[tuple[str, int], ...] = ()
    base_port: int | None = None
    hosts: tuple[str, ...] = ()
    rank: int | None = None

    @property
    def size(self) -> int | None:
        """The number of ranks in --roles; None without this flag."""
        return sum(count for _, count in self.roles) if self.roles else None

    def tasks(self, size: int) -> tuple[Task, ...]:
        """The task of each rank, if there are `size` ranks; --roles, where it is given, has as many."""
        roles = self.roles or (('worker', size),)
        return tuple(Task(role, index) for role, count in roles for index in range(count))

    def given(self) -> dict[str, str | int]:
        """The flags that have a value, such as {'--roles': 'ps:1,worker:2', '--base_port': 2222}."""
        values: dict[str, str | int | None] = {
            '--roles': ','.join(f'{role}:{count}' for role, count in self.roles),
            '--base_port': self.base_port,
            '--hosts': ','.join(self.hosts),
            '--rank': self.rank,
        }
        return {flag: value for flag, value in values.items() if value is not None and value != ''}


@dataclass(frozen=True)
class Ranks:
    """The ranks of a cluster, as a resolver has found them.

    Attributes:
        source: the name of the engine in messages, such as 'Slurm'.
        where: the part of the engine that holds the ranks, such as 'step 3.0 on n[1-2]'.
        rank: the rank of this process, counted from 0. The resolver of an engine that counts from 1 subtracts 1, and
            refuses a number above that of the ranks itself: the refusal of `cluster_of` would show another value than
            that of the variable.
        variable: the environment variable or flag that has the rank.
        addresses: 'host:port' of each rank.
    """

    source: str
    where: str
    rank: int
    variable: str
    addresses: tuple[str, ...]

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.addresses)


def read_layout(
    cluster_from: str = 'auto', roles: str = '', base_port: int | None = None, hosts: str = '', rank: int | None = None
) -> Layout:
    """Reads the flags that shape a cluster.

    Args:
        cluster_from: one of SOURCES.
        roles: role:count,... such as 'chief:1,worker:3'; '' if every rank is a worker.
        base_port: the lowest port of the addresses, from 1 to 65535; None for the default of the engine.
        hosts: 'host' or 'host:port' of each rank, separated by commas; '' if the engine knows them.
        rank: the rank of this process, counted from 0; None if the engine says it.

    Raises:
        ResolverError: a value is wrong.
    """
    if cluster_from not in SOURCES:
        raise refusal(None, '--cluster_from', cluster_from, f'one of {", ".join(SOURCES)} is wanted')
    if base_port is not None and not 1 <= base_port <= 65535:
        raise refusal(None, '--base_port', base_port, 'a number from 1 to 65535 is wanted')
    if rank is not None and rank < 0:
        raise refusal(None, '--rank', rank, 'ranks count from 0')
    return Layout(cluster_from, _roles(roles), base_port, _hosts(hosts), rank)


def _roles(text: str) -> tuple[tuple[str, int], ...]:
    roles: dict[str, int] = {}
    for item in filter(None, (item.strip() for item in text.split(','))):
        role, _, count = item.partition(':')

        def refused(problem: str) -> ResolverError:
            return refusal(None, '--roles', text, problem)

        if role not in ROLES:
            near = nearest_role(role)
            raise refused(
                f'"{role}" is not a role ({", ".join(ROLES)})' + (f': did you mean "{near}"?' if near else '')
            )
        if role in roles:
            raise refused(f'{role} is given twice: give one count for each role')
        if not re.fullmatch('[0-9]{1,6}', count):
            raise refused(f'"{item}" has no count: {role}:1 is of the wanted form')
        roles[role] = int(count)
    if roles and not any(roles.values()):
        raise refusal(None, '--roles', text, 'makes no task at all')
    return tuple((role, count) for role, count in roles.items() if count)


def _hosts(text: str) -> tuple[str, ...]:
    hosts = tuple(host.strip() for host in text.split(',')) if text.strip() else ()
    for host in hosts:
        problem = addresses.problem(host)
        if problem and addresses.problem(f'{host}:1'):
            problem = problem.replace('"host:port"', '"host" or "host:port"')
            raise refusal(None, '--hosts', text, f'"{host}" {problem}')
    return hosts


def host_of(host: str) -> str:
    """The host in an entry of --hosts, which is 'host' or 'host:port'."""
    return host if addresses.problem(host) else host.rpartition(':')[0]


def numbered(
    source: str, hosts: Sequence[str], base_port: int, place: Callable[[str], str | None] = lambda host: host
) -> tuple[str, ...]:
    """Gives each rank an address.

    Args:
        source: the name of the engine in messages.
        hosts: for each rank 'host:port', which stays as it is, or 'host', which gets the lowest port that no other rank
            has on the same machine.
        base_port: the lowest port to take.
        place: a host -> the name of its machine; for hosts that have several names.

    Raises:
        ResolverError: an address is given twice, or a port would be above 65535.
    """
    places, whole = addresses.TakenPlaces(), {host: host != host_of(host) for host in hosts}
    for host in hosts:
        if whole[host] and not places.take(host):
            raise refusal(source, '--hosts', host, 'is given twice: each rank needs its own address')
    result = []
    for host in hosts:
        address = host if whole[host] else places.unused(host, base_port, on=place(host))
        port = address.rpartition(':')[2]
        if int(port) > 65535:
            raise refusal(
                source, '--base_port', base_port, f'leads to port {port} of {host}, and the last one is 65535'
            )
        result.append(address)
    return tuple(result)


def cluster_of(ranks: Ranks, layout: Layout) -> tuple[Cluster, Task | None]:
    """The cluster of the ranks, and the task of this process; (Cluster(), None) for a single task that trains.

    Raises:
        ResolverError: --roles has another number of tasks than there are ranks, or the rank of this process is not
            below this number.
    """
    size = layout.size or ranks.size
    if size != ranks.size:
        raise refusal(
            ranks.source,
            '--roles',
            layout.given()['--roles'],
            f'makes {size} tasks, and {ranks.where} has {ranks.size}: give as many',
        )
    if not 0 <= ranks.rank < size:
        raise refusal(
            ranks.source,
            ranks.variable,
            ranks.rank,
            f'{ranks.where} has {size} tasks, whose ranks go from 0 to {size - 1}',
        )
    tasks = layout.tasks(size)
    if size == 1 and tasks[0].role in ('chief', 'worker'):
        return Cluster(), None
    by_role = {
        role: tuple(address for task, address in zip(tasks, ranks.addresses) if task.role == role) for role in ROLES
    }
    return Cluster(**by_role), tasks[ranks.rank]
