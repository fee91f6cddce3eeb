"""Node names -> addresses, by the resolver of this machine, else by Slurm. Always bounded in time."""

import ipaddress
import re
import socket
import subprocess
import threading

RESOLVER_SECS = 10
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
            ['scontrol', 'show', 'node', '-o', ','.join(nodes)], stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors='replace', timeout=SCONTROL_SECS, check=False).stdout
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
    found = {}

    def resolve():
        for host in hosts:
            try:
                family, _, _, _, place = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)[0]
            except (OSError, UnicodeError):
                continue
            found[host] = f'[{place[0]}]' if family == socket.AF_INET6 else place[0]

    # getaddrinfo knows no time limit: a thread that hangs in it is left behind.
    thread = threading.Thread(target=resolve, daemon=True)
    thread.start()
    thread.join(RESOLVER_SECS)
    return dict(found)
