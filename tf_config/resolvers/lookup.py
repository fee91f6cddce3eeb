"""Node names -> addresses, by the resolver of this machine, else by Slurm. Always bounded in time."""

import ipaddress
import re
import socket
import subprocess
import threading
import time

RESOLVER_SECS = 10
_AT_A_TIME = 16  # names: every task of a cluster asks for all of them, and name servers are shared
SCONTROL_SECS = 10


def of_nodes(nodes):
    """{name: (host, number)}: what to connect to, and the number that tells machines apart.

    A name that resolves stays, so that all tasks write the same cluster. One that does not is replaced
    by the node's address in Slurm's configuration. Names of which nothing is known are left out.
    """
    numbers = _numbers(nodes)
    found = {node: (node, numbers[node]) for node in nodes if node in numbers}
    unknown = [node for node in nodes if node not in found]
    hosts = in_slurm(_scontrol(unknown)) if unknown else {}
    numbers = _numbers([host for host in hosts.values() if not _number(host)])
    for node in unknown:
        host = hosts.get(node)
        number = _number(host) if host else None
        if number or host in numbers:
            found[node] = (number or host, number or numbers[host])
    return found


def in_slurm(text):
    """{node: NodeAddr} of what `scontrol show node -o` prints."""
    pairs = (dict(re.findall(r'\b(NodeName|NodeAddr)=(\S+)', line)) for line in text.splitlines())
    return {pair['NodeName']: pair['NodeAddr'] for pair in pairs if len(pair) == 2}


def _scontrol(nodes):
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


def _number(host):
    """A number as an address wants it, an IPv6 one in brackets; None where `host` is a name."""
    try:
        address = ipaddress.ip_address(host.strip('[]'))
    except ValueError:
        return None
    return f'[{address}]' if address.version == 6 else str(address)


def _numbers(hosts):
    """{host: number} of those that resolve in time."""
    found, left, lock = {}, list(dict.fromkeys(reversed(hosts))), threading.Lock()

    def resolve():
        while True:
            with lock:
                if not left:
                    return
                host = left.pop()
            try:
                family, _, _, _, place = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
            except (OSError, UnicodeError):
                continue
            found[host] = f'[{place[0]}]' if family == socket.AF_INET6 else place[0]

    # getaddrinfo knows no time limit: threads that hang in it are left behind.
    threads = [threading.Thread(target=resolve, daemon=True) for _ in range(min(len(left), _AT_A_TIME))]
    deadline = time.monotonic() + RESOLVER_SECS
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    with lock:
        left.clear()  # what has not been asked is not asked any more
    return dict(found)
