"""Addresses of tasks as text: 'host:port', an IPv6 host in brackets. Nothing is resolved."""

import ipaddress
import itertools
import re
from collections.abc import Iterable

from tf_config.cluster import Cluster

_HOST = re.compile(r'[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?\]')
_LOOPBACK = re.compile(r'localhost|127(\.\d+){3}|\[::1\]', re.IGNORECASE)


def problem(address: str) -> str | None:
    """What is wrong with an address, as the end of a sentence ('has no port: …'); None if it is valid."""
    host, _, port = address.rpartition(':')
    if '://' in address:
        return 'has a scheme: "host:port" alone is wanted'
    if not port or _HOST.fullmatch(address):
        return 'has no port: "host:port" is wanted'
    if ':' in host and not host.startswith('['):
        return 'has several colons: an IPv6 host goes in brackets, "[::1]:2222"'
    if not _HOST.fullmatch(host):
        return 'has no valid host before the port: "host:port" is wanted'
    if not re.fullmatch('[0-9]{1,5}', port) or not 1 <= int(port) <= 65535:
        return 'has a bad port: a number from 1 to 65535 is wanted'
    return None


def machine(host: str) -> str:
    """A name that is the same for all spellings of a host.

    It is 'localhost' for every loopback address, because TensorFlow's server listens on all interfaces, whatever host
    TF_CONFIG names.
    """
    return 'localhost' if _LOOPBACK.fullmatch(host) else host.lower()


def place(address: str) -> tuple[str, int]:
    """The machine and the port of a valid address. No two tasks may have the same."""
    host, _, port = address.rpartition(':')
    return machine(host), int(port)


def host_in(text: str) -> str | None:
    """The host that an invalid address seems to mean, or None."""
    text = text.partition('://')[2] or text
    text = text.partition('/')[0]
    host = text.rpartition(':')[0]
    return next((h for h in (text, host, f'[{host}]') if _HOST.fullmatch(h)), None)


class TakenPlaces:
    """The places (machine and port) that the tasks of a cluster have taken.

    Args:
        addresses: valid addresses, whose places are taken from the start.
    """

    def __init__(self, addresses: Iterable[str] = ()) -> None:
        self._taken = set(map(place, addresses))
        # The next port to try, by machine and by the port at which a search begins. All ports between are taken.
        self._next_port: dict[tuple[str, int], int] = {}

    def take(self, address: str) -> bool:
        """Takes the place of a valid address, and says whether it was free."""
        size = len(self._taken)
        self._taken.add(place(address))
        return len(self._taken) > size

    def unused(self, host: str, port: int = 2222, on: str | None = None) -> str:
        """Takes the first free place of a host, and returns its address.

        Thousands of tasks may ask for places of one host, so each search continues where the last one ended.

        Args:
            host: the host of the address.
            port: the lowest port to take.
            on: the name of the host's machine, if the host has several names; by default `host`.

        Returns:
            'host:port'. The port may be above 65535, which `problem` reports.
        """
        name = machine(on or host)
        first = self._next_port.get((name, port), port)
        free = next(p for p in itertools.count(first) if (name, p) not in self._taken)
        self._taken.add((name, free))
        self._next_port[name, port] = free + 1
        return f'{host}:{free}'


def is_public(address: str) -> bool:
    """Whether the host of a valid address is an IP address that is reachable from the internet.

    A name is not resolved, so it does not count as public. Strangers may be able to reach an address that is not
    public, too: this check finds the worst mistakes only.
    """
    host = address.rpartition(':')[0].removeprefix('[').removesuffix(']')
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return False
    number = getattr(number, 'ipv4_mapped', None) or number
    return number.is_global and not number.is_multicast


def public_addresses(cluster: Cluster) -> tuple[str, ...]:
    """The public addresses of a cluster (see `is_public`), in the order of its tasks."""
    return tuple(filter(is_public, map(cluster.address, cluster.tasks)))
