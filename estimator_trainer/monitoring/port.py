"""--metrics_port: the flag, and the socket that listens there. Imports neither TensorFlow nor prometheus-client."""

import importlib.util
import os
import socket
from typing import NamedTuple

from estimator_trainer.errors import UsageError
from estimator_trainer.this_process import forks

LOOPBACK = '127.0.0.1'


class Address(NamedTuple):
    host: str
    port: int  # 0: the system chooses

    def __str__(self) -> str:
        return f'[{self.host}]:{self.port}' if ':' in self.host else f'{self.host}:{self.port}'


def parse(text: str) -> Address:
    """What the flag says: PORT on loopback, or HOST:PORT.

    Raises:
        UsageError: it is neither.
    """
    host, colon, port = text.rpartition(':')
    if not (port.isascii() and port.isdecimal() and int(port) < 2**16) or (colon and not host):
        raise UsageError(
            f'--metrics_port={text}: give a port such as 9400, 0 for one that is free, or HOST:PORT to listen at '
            'another address than loopback.'
        )
    return Address(host.removeprefix('[').removesuffix(']') or LOOPBACK, int(port))


def listen(text: str) -> socket.socket:
    """A socket that listens where the flag says. No child process keeps it.

    Raises:
        UsageError: prometheus-client is missing, or the address cannot be listened at.
    """
    address = parse(text)
    if importlib.util.find_spec('prometheus_client') is None:
        raise UsageError(
            f'--metrics_port={text}: needs prometheus-client, which is not installed; '
            'pip install "estimator-trainer[metrics]"'
        )
    try:
        family, *_, where = socket.getaddrinfo(*address, type=socket.SOCK_STREAM)[0]
        with forks.none_meanwhile():
            listener = socket.create_server(where[:2], family=family)
            forks.in_child(listener.close)
    except UnicodeError:
        raise UsageError(
            f'--metrics_port={text}: {address.host} cannot be the name of a host: a part between dots is empty, too '
            'long or of other letters; give HOST:PORT of this machine.'
        ) from None
    except OSError as error:
        number = error.errno or 0  # of a host without an address: below 0
        why = os.strerror(number) if number > 0 else error.strerror
        raise UsageError(
            f'--metrics_port={text}: cannot listen at {address}: {why}; give another port, or 0 for one that is free.'
        ) from None
    return listener


def url(listener: socket.socket) -> str:
    return f'http://{Address(*listener.getsockname()[:2])}/metrics'
