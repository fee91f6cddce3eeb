"""What the flags say of a cluster: which ranks play which roles, on which hosts and ports."""

import re
from dataclasses import dataclass

from tf_config import addresses
from tf_config.cluster import ROLES, Cluster, Task
from tf_config.lint import Finding, TfConfigError
from tf_config.reader import nearest_role

SOURCES = ('auto', 'tf_config', 'slurm', 'openmpi', 'mpich', 'kubernetes', 'hosts')

# TensorFlow's and Kubeflow's own choice. It is no privileged port, and it lies below those that Linux
# gives to outgoing connections (from 32768 up), one of which could otherwise be there first.
BASE_PORT = 2222


class ResolverError(TfConfigError):
    """An engine's environment, or flags, from which no cluster can be made out.

    `source` is what was asked; None where a flag is wrong by itself.
    """

    def __init__(self, source, findings):
        super().__init__(findings)
        self.source = source

    def __str__(self):
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


def refusal(source, key, seen, problem, corrected=''):
    """A ResolverError. `key` is a variable or a --flag, `seen` its value, None where it is absent;
    `problem` says what is wrong with it and what to do."""
    seen = 'absent' if seen is None else str(seen)
    seen = seen if len(seen) <= 200 else seen[:197] + '...'
    return ResolverError(source, [Finding(key, seen or '""', problem, corrected)])


@dataclass(frozen=True)
class Layout:
    """The flags, read.

    Attributes:
        roles: of --roles, (role, count) in the order as written; empty: every rank is a worker.
        base_port: the first port of each address; None: the engine's own (`BASE_PORT`, and under
            Slurm, where jobs share nodes, one that goes by the job).
        hosts: of --hosts, 'host' or 'host:port' for each rank.
        rank: of this process, where no engine says it.
    """

    cluster_from: str = 'auto'
    roles: tuple = ()
    base_port: int | None = None
    hosts: tuple = ()
    rank: int | None = None

    @property
    def size(self):
        """How many ranks --roles makes; None without."""
        return sum(count for _, count in self.roles) if self.roles else None

    def tasks(self, size):
        """The task of each of `size` ranks."""
        roles = self.roles or (('worker', size),)
        return tuple(Task(role, index) for role, count in roles for index in range(count))

    def given(self):
        """The flags that shape a cluster, as they were given."""
        values = {
            '--roles': ','.join(f'{role}:{count}' for role, count in self.roles),
            '--base_port': self.base_port,
            '--hosts': ','.join(self.hosts),
            '--rank': self.rank,
        }
        return {flag: value for flag, value in values.items() if value not in (None, '')}


@dataclass(frozen=True)
class Ranks:
    """What a resolver finds.

    Attributes:
        source: 'Slurm', as messages name it.
        where: what it went by, such as 'step 3.0 on n[1-2]'.
        rank: of this process.
        variable: the environment variable or flag that says so.
        addresses: 'host:port' of each rank.
    """

    source: str
    where: str
    rank: int
    variable: str
    addresses: tuple

    @property
    def size(self):
        return len(self.addresses)


def read_layout(cluster_from='auto', roles='', base_port=None, hosts='', rank=None):
    """The Layout of flags as they were typed. Raises ResolverError."""
    if cluster_from not in SOURCES:
        raise refusal(None, '--cluster_from', cluster_from, f'one of {", ".join(SOURCES)} is wanted')
    if base_port is not None and not 1 <= base_port <= 65535:
        raise refusal(None, '--base_port', base_port, 'a number from 1 to 65535 is wanted')
    if rank is not None and rank < 0:
        raise refusal(None, '--rank', rank, 'ranks count from 0')
    return Layout(cluster_from, _roles(roles), base_port, _hosts(hosts), rank)


def _roles(text):
    roles = {}
    for item in filter(None, (item.strip() for item in text.split(','))):
        role, _, count = item.partition(':')

        def refused(problem):
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


def _hosts(text):
    hosts = tuple(host.strip() for host in text.split(',')) if text.strip() else ()
    for host in hosts:
        problem = addresses.problem(host)
        if problem and addresses.problem(f'{host}:1'):
            problem = problem.replace('"host:port"', '"host" or "host:port"')
            raise refusal(None, '--hosts', text, f'"{host}" {problem}')
    return hosts


def host_of(host):
    """The host of an entry of --hosts."""
    return host if addresses.problem(host) else host.rpartition(':')[0]


def numbered(source, hosts, base_port, place=lambda host: host):
    """An address for each rank: 'host:port' as it stands, a host alone with the next port that no
    other rank has at the same place, from `base_port` up.

    `place` gives what names a machine, for hosts that have several names. Raises ResolverError.
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


def cluster_of(ranks, layout):
    """(Cluster, Task) of what a resolver found; (Cluster(), None) for a lone task that trains.

    Raises ResolverError where --roles and the ranks do not make up the same number.
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
