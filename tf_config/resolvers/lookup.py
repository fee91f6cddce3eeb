"""Finds the addresses of nodes by their names: asks the resolver of this machine, then Slurm. Ends in bounded time."""

import ipaddress
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence

# The names of nodes -> what `of_nodes` returns. Tests give another function.
NodeLookup = Callable[[Sequence[str]], Mapping[str, tuple[str, str]]]

RESOLVER_SECS = 10
_AT_A_TIME = 16  # names. Every task of a cluster asks for all of them, and name servers are shared
SCONTROL_SECS = 10


def of_nodes(nodes: Sequence[str]) -> dict[str, tuple[str, str]]:
    """The host to connect to, and the IP address that distinguishes machines, of each node.

    If the name of a node resolves, it is the host, so that all tasks write the same cluster. Else the host is the
    address of the node in Slurm's configuration. Nodes without either are left out.
    """
    numbers = _numbers(nodes)
    places = {node: (node, numbers[node]) for node in nodes if node in numbers}
    unknown = [node for node in nodes if node not in places]
    hosts = in_slurm(_scontrol(unknown)) if unknown else {}
    numbers = _numbers([host for host in hosts.values() if not _number(host)])
    for node in unknown:
        host = hosts.get(node)
        if not host:
            continue
        number = _number(host)
        if number or host in numbers:
            places[node] = (number or host, number or numbers[host])
    return places


def in_slurm(text: str) -> dict[str, str]:
    """The NodeAddr of each node in the output of `scontrol show node -o`."""
    pairs = (dict(re.findall(r'\b(NodeName|NodeAddr)=(\S+)', line)) for line in text.splitlines())
    return {pair['NodeName']: pair['NodeAddr'] for pair in pairs if len(pair) == 2}


def _scontrol(nodes: Iterable[str]) -> str:
    try:
        return subprocess.run(
            ['scontrol', 'show', 'node', '-o', ','.join(nodes)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors='replace',
            timeout=SCONTROL_SECS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ''


def _number(host: str) -> str | None:
    """An IP address in its usual spelling, IPv6 in brackets; None if `host` is a name."""
    try:
        address = ipaddress.ip_address(host.strip('[]'))
    except ValueError:
        return None
    return f'[{address}]' if address.version == 6 else str(address)


def _numbers(hosts: Sequence[str]) -> dict[str, str]:
    """The IP address of each host that resolves within RESOLVER_SECS."""
    numbers: dict[str, str] = {}
    waiting, lock = list(dict.fromkeys(reversed(hosts))), threading.Lock()

    def resolve() -> None:
        while True:
            with lock:
                if not waiting:
                    return
                host = waiting.pop()
            try:
                family, _, _, _, place = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
            except (OSError, UnicodeError):
                continue
            numbers[host] = f'[{place[0]}]' if family == socket.AF_INET6 else str(place[0])

    # getaddrinfo has no time limit, so threads that hang in it are left behind.
    threads = [threading.Thread(target=resolve, daemon=True) for _ in range(min(len(waiting), _AT_A_TIME))]
    deadline = time.monotonic() + RESOLVER_SECS
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    with lock:
        waiting.clear()  # the threads that are left behind ask for no more names
    return dict(numbers)
