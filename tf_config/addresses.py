"""Addresses of tasks as text: 'host:port', an IPv6 host in brackets. Nothing is resolved."""

import ipaddress
import itertools
import re

_HOST = re.compile(r'[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+(%[A-Za-z0-9._-]+)?\]')
_LOOPBACK = re.compile(r'localhost|127(\.\d+){3}|\[::1\]', re.IGNORECASE)


def problem(address):
    """What is wrong with an address, or None."""
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


def machine(host):
    """One name for a host however it is spelled: every loopback address is the same machine,
    because TensorFlow's server listens on all interfaces, whatever host TF_CONFIG names."""
    return 'localhost' if _LOOPBACK.fullmatch(host) else host.lower()


def place(address):
    """(machine, port) of a valid address: what two tasks may not share."""
    host, _, port = address.rpartition(':')
    return machine(host), int(port)


def host_in(text):
    """The host that a wrong address seems to mean, or None."""
    text = text.partition('://')[2] or text
    text = text.partition('/')[0]
    host = text.rpartition(':')[0]
    return next((h for h in (text, host, f'[{host}]') if _HOST.fullmatch(h)), None)


class TakenPlaces:
    """The places of a cluster's tasks that are taken, of which each has one of its own."""

    def __init__(self, addresses=()):
        self._taken = set(map(place, addresses))
        self._tried = {}  # (machine, first port) -> the port from which on ports may be free

    def take(self, address):
        """Takes the place of a valid address. Whether it was free."""
        size = len(self._taken)
        self._taken.add(place(address))
        return len(self._taken) > size

    def unused(self, host, port=2222, on=None):
        """Takes the first free place of `host` from `port` up. Returns its address, whose port may
        pass 65535: `problem` finds it.

        Thousands of tasks may ask for places of one host, so no search begins anew.

        Args:
            on: the host's machine, where it goes by several names; by default `host` names it.
        """
        name = machine(on or host)
        first = self._tried.get((name, port), port)
        free = next(p for p in itertools.count(first) if (name, p) not in self._taken)
        self._taken.add((name, free))
        self._tried[name, port] = free + 1
        return f'{host}:{free}'


def is_public(address):
    """Whether a valid address names its host by a number that the internet routes.

    A name is not resolved, so it is never public here, and a number that is not public may still be
    reached by strangers: this finds the worst mistakes, and no more.
    """
    host = address.rpartition(':')[0].removeprefix('[').removesuffix(']')
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return False
    number = getattr(number, 'ipv4_mapped', None) or number
    return number.is_global and not number.is_multicast


def public_addresses(cluster):
    """The addresses of a cluster that are public, in task order."""
    return tuple(filter(is_public, map(cluster.address, cluster.tasks)))
