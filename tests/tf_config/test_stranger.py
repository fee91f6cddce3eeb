"""`python -m tf_config probe` tells apart what a stranger can meet at a port."""

import contextlib
import socket
import threading

import pytest

from estimator_trainer.secure import run_key
from tests.secure import peers
from tf_config import __main__ as command
from tf_config import stranger
from tf_config.stranger import Seen


@contextlib.contextmanager
def server(greeting, times=2):
    """Says `greeting` to each client, whatever it says."""
    with socket.create_server(('127.0.0.1', 0)) as listener:

        def serve():
            for _ in range(times):
                connection, _ = listener.accept()
                with connection:
                    connection.recv(1 << 16)
                    connection.sendall(greeting)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()
        thread.join(60)


def test_a_task_with_secure(capsys):
    with peers.ServedDoor(run_key.RunKey.new().certify('worker:0', peers.ATTEMPT)) as served:
        assert stranger.look(*served.address, 60) is Seen.WANTS_CERTIFICATE
        host, port = served.address
        assert command.main(['probe', f'{host}:{port}']) == 0
    said = f'{host}:{port}: a TLS server that wants a certificate: nobody without the key of the run gets through\n'
    assert capsys.readouterr().out == said


@pytest.mark.parametrize('number', range(20))
def test_the_alert_of_a_server_that_closes_is_never_lost(number):
    with peers.ServedDoor(run_key.RunKey.new().certify('worker:0', peers.ATTEMPT)) as served:
        assert stranger.look(*served.address, 60) is Seen.WANTS_CERTIFICATE


def test_plain_grpc(capsys):
    with server(b'\0\0\x18\4\0\0\0\0\0' + bytes(24)) as (host, port):
        assert command.main(['probe', f'{host}:{port}']) == 1
    assert 'can run any graph' in capsys.readouterr().out


def test_something_else():
    with server(b'SSH-2.0-OpenSSH\r\n') as address:
        assert stranger.look(*address, 60) is Seen.OTHER


def test_nobody(capsys):
    with socket.create_server(('127.0.0.1', 0)) as listener:
        host, port = listener.getsockname()
    assert command.main(['probe', f'{host}:{port}']) == 0
    assert capsys.readouterr().out == f'{host}:{port}: closed: nobody listens\n'


@pytest.mark.parametrize('argv', [['probe'], ['probe', 'host'], ['probe', 'host:99999'], ['probe', 'a:1', '--file=x']])
def test_a_bad_address_is_a_usage_error(argv):
    with pytest.raises(SystemExit) as left:
        command.main(argv)
    assert left.value.code == command.BAD_USAGE
