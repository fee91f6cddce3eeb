"""Strangers at the door: each is closed within its bound, few lines are said, and a task of the run gets through."""

import contextlib
import socket
import ssl
import struct
import threading

import pytest

from estimator_trainer.secure import channel, door, run_key
from tests.secure import peers

KEY = run_key.RunKey.new()
MINE = KEY.certify('worker:1', peers.ATTEMPT)
SETTINGS = b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + b'\0\0\0\4\0\0\0\0\0'


@pytest.fixture
def served():
    with peers.ServedDoor(KEY.certify('worker:0', peers.ATTEMPT)) as served:
        yield served


def gets_through(served):
    with peers.call(served.address, MINE) as connection:
        connection.sendall(b'hello')
        return connection.recv(5) == b'hello'


def rest_of(stranger):
    """What the door has said to it; it has closed the connection then."""
    data = b''
    try:
        while more := stranger.recv(1 << 16):
            data += more
    except ConnectionResetError:
        pass
    return data


@pytest.mark.parametrize(
    'said',
    [SETTINGS, b'GET / HTTP/1.1\r\n\r\n', b'\0' * 600, b'\x16\x03\x01\xff\xff' + b'x' * 500, b'SSH-2.0-OpenSSH\r\n'],
)
def test_garbage_is_closed_at_once(served, said):
    with socket.create_connection(served.address, 60) as stranger:
        stranger.settimeout(60)
        stranger.sendall(said)
        with contextlib.suppress(OSError):  # it may be closed already
            stranger.shutdown(socket.SHUT_WR)
        assert rest_of(stranger)[:2] in (b'', b'\x15\x03')  # nothing, or an alert of TLS
    assert served.admitted.empty()
    assert gets_through(served)


def test_plain_grpc_is_told_that_this_is_tls(served):
    with socket.create_connection(served.address, 60) as stranger:
        stranger.settimeout(60)
        stranger.sendall(SETTINGS)
        assert rest_of(stranger)[:2] == b'\x15\x03'
    assert served.lines == ['refused 127.0.0.1: no TLS']


def test_a_port_scan_is_nothing(served):
    for _ in range(50):
        scan = socket.create_connection(served.address, 60)
        scan.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
        scan.close()
    assert gets_through(served)
    assert len(served.lines) <= 1


def test_strangers_who_say_nothing_keep_nobody_out(served):
    silent = [socket.create_connection(served.address, 60) for _ in range(2 * door.HALF_OPEN)]
    assert gets_through(served)
    assert served.door.half_open <= door.HALF_OPEN
    for stranger in silent:
        stranger.close()
    assert gets_through(served)


def test_a_silent_one_is_closed_after_the_bound():
    now, lines = [0.0], []
    with socket.create_server(('127.0.0.1', 0)) as listener:
        listener.setblocking(False)
        context = channel.server_context(KEY.certify('worker:0', peers.ATTEMPT))
        entrance = door.Door(listener, lambda: context, lambda *args: None, door.Notices(lines.append), lambda: now[0])
        with socket.create_connection(listener.getsockname(), 60) as stranger:
            entrance.look()
            stranger.sendall(b'\x16\x03\x01')  # the beginning of a handshake
            now[0] = door.HANDSHAKE_SECS - 0.1
            entrance.look(0.01)
            assert entrance.half_open == 1
            now[0] = door.HANDSHAKE_SECS + 0.1
            entrance.look(0.01)
            assert entrance.half_open == 0
            assert rest_of(stranger) == b''
    assert lines == ['refused 127.0.0.1: no handshake within 5 s']


def test_a_task_in_a_handshake_stays_whoever_else_comes_from_its_address(served):
    received, to_send = ssl.MemoryBIO(), ssl.MemoryBIO()
    task = channel.client_context(MINE).wrap_bio(received, to_send)
    with socket.create_connection(served.address, 60) as raw:
        with pytest.raises(ssl.SSLWantReadError):
            task.do_handshake()
        raw.sendall(to_send.read())
        received.write(raw.recv(1 << 16))  # the door has read the first message
        strangers = [socket.create_connection(served.address, 60) for _ in range(2 * door.HALF_OPEN)]
        assert rest_of(strangers[door.HALF_OPEN // 2]) == b''  # closed, though it came later than the task
        assert (
            _done(lambda: task.do_handshake() or task.read(1), raw, received, to_send) == channel.Verdict.WELCOME.value
        )
    for stranger in strangers:
        stranger.close()


def _done(step, raw, received, to_send):
    """The result of a step of TLS, for which bytes are sent and received as long as it takes."""
    while True:
        try:
            return step()
        except ssl.SSLWantReadError:
            raw.sendall(to_send.read())
            received.write(raw.recv(1 << 16))


@pytest.mark.slow
def test_ten_thousand_connections_at_once(served):
    """Four threads open them and hold all that they can. A task of the run gets through meanwhile, and afterwards."""
    held: list = []

    def flood():
        for number in range(2500):
            try:
                stranger = socket.create_connection(served.address, 60)
                if number % 2:
                    stranger.sendall(SETTINGS)
                held.append(stranger)
            except OSError:
                pass

    threads = [threading.Thread(target=flood) for _ in range(4)]
    for thread in threads:
        thread.start()
    during = [gets_through(served) for _ in range(3)]
    for thread in threads:
        thread.join()
    assert all(during)
    assert gets_through(served)
    assert served.door.half_open <= door.HALF_OPEN
    assert len(served.lines) <= 2
    for stranger in held:
        stranger.close()


def test_one_line_for_an_address_in_a_minute():
    now, lines = [0.0], []
    notices = door.Notices(lines.append, lambda: now[0])
    for _ in range(1000):
        notices.refused('10.0.0.9', 'no TLS')
    notices.refused('10.0.0.8', 'no certificate')
    assert lines == ['refused 10.0.0.9: no TLS', 'refused 10.0.0.8: no certificate']
    now[0] = 61
    notices.refused('10.0.0.9', 'no TLS')
    assert lines[2:] == ['refused 10.0.0.9: no TLS (999 more since its last line)']


def test_any_number_of_addresses_has_few_lines_and_little_memory():
    now, lines = [0.0], []
    notices = door.Notices(lines.append, lambda: now[0])
    for number in range(10_000):
        notices.refused(f'10.0.{number // 256}.{number % 256}', 'no TLS')
    assert len(lines) == 101
    assert lines[-1] == f'refused {door.OTHERS}: no TLS'
    now[0] = 61
    notices.refused('10.9.9.9', 'no TLS')
    assert lines[-1] == 'refused 10.9.9.9: no TLS'
