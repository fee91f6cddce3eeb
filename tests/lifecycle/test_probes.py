"""lifecycle.probes: servers of every kind on loopback."""

import contextlib
import gc
import os
import resource
import selectors
import socket
import threading
import time

import pytest

from estimator_trainer.lifecycle import probes
from estimator_trainer.lifecycle.probes import Answer
from estimator_trainer.secure.refusals import Refusal
from tests.lifecycle.test_host_addresses import names
from tests.processes import until

SETTINGS = b'\0\0\0\x04\0\0\0\0\0'
PING = b'\0\0\x08\x06\0\0\0\0\0' + bytes(8)
HTTP_1 = b'HTTP/1.1 400 Bad Request\r\n\r\n'
NO_TIME = 0.1
GREETS, REFUSES, SILENT = Answer.GREETS, Answer.REFUSES, Answer.SILENT


def asked(*addresses, secs=5.0):
    """The Answer of each address, whose names are resolved first."""
    found = probes.ask({address: sockaddrs(address) for address in addresses}, secs)
    return [found[address][0] for address in addresses]


def sockaddrs(address):
    host, _, port = address.rpartition(':')
    found = socket.getaddrinfo(host.strip('[]'), int(port), type=socket.SOCK_STREAM)
    return [(family, sockaddr) for family, _, _, _, sockaddr in found]


@contextlib.contextmanager
def server(*sends, close=True, family=socket.AF_INET):
    """A server that sends each client these bytes, one write each. Yields its address and what it heard.

    close=False: it then says nothing more and leaves the connection open.
    """
    listening = socket.socket(family)
    listening.bind(('::1' if family == socket.AF_INET6 else '127.0.0.1', 0))
    listening.listen()
    heard, clients = [], []

    def serve():
        with contextlib.suppress(OSError):
            while True:
                client = listening.accept()[0]
                clients.append(client)
                heard.append(client.recv(100))
                for part in sends:
                    client.sendall(part)
                if close:
                    client.close()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    host = '[::1]' if family == socket.AF_INET6 else 'localhost'
    try:
        yield f'{host}:{listening.getsockname()[1]}', heard
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(5)
        for client in clients:
            client.close()
        assert not thread.is_alive()


@pytest.mark.parametrize(
    'sends, close, yes',
    [
        ([SETTINGS], False, True),
        ([SETTINGS + PING], True, True),
        ([SETTINGS[:4], SETTINGS[4:]], False, True),
        ([b'\0\0\x06\x04\0\0\0\0\0' + bytes(6)], False, True),  # one setting
        ([], False, False),
        ([], True, False),
        ([SETTINGS[:5]], False, False),
        ([SETTINGS[:5]], True, False),
        ([PING], False, False),
        ([HTTP_1], True, False),
    ],
    ids=[
        'greets',
        'greets and closes',
        'greets in two parts',
        'greets with a setting',
        'says nothing',
        'closes',
        'half a header',
        'half a header and closes',
        'another frame',
        'another protocol',
    ],
)
def test_who_answers(sends, close, yes):
    with server(*sends, close=close) as (address, heard):
        (answer,) = asked(address, secs=5 if yes or close else NO_TIME)
        assert answer is (GREETS if yes else SILENT)
        until(lambda: heard)  # a silent server may be late
        assert heard[0].startswith(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n' + SETTINGS)


def test_a_server_that_drips_has_no_more_time_than_one_that_is_silent():
    drips = threading.Event()
    listening = socket.create_server(('127.0.0.1', 0))

    def serve():
        client = listening.accept()[0]
        with client, contextlib.suppress(OSError):
            while not drips.wait(0.05):
                client.sendall(b'\0')

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert asked(f'127.0.0.1:{listening.getsockname()[1]}', secs=NO_TIME) == [SILENT]
    drips.set()
    thread.join(5)
    listening.close()


def test_this_thread_is_held_up_in_the_midst_of_a_probe(monkeypatch):
    """C code of the job holds Python's global lock, each time that the probe waits for something."""

    class HeldUp(selectors.PollSelector):
        def select(self, timeout=None):
            ready = super().select(30)  # when it goes on, what was to come has come
            time.sleep(0.3)
            return ready

    monkeypatch.setattr(selectors, 'PollSelector', HeldUp)
    with server(SETTINGS, close=False) as (address, _):
        assert asked(address, secs=0.2) == [GREETS]


def closed_port():
    with socket.create_server(('127.0.0.1', 0)) as listening:
        return f'127.0.0.1:{listening.getsockname()[1]}'


def full_backlog():
    """A port whose process accepts nothing, as one that is frozen."""
    listening = socket.create_server(('127.0.0.1', 0), backlog=0)
    return listening, f'127.0.0.1:{listening.getsockname()[1]}'


def test_nobody_there():
    assert asked(closed_port()) == [REFUSES]


def test_a_server_has_several_addresses():
    """localhost is ::1 and 127.0.0.1; a server may listen on one of them."""
    port = closed_port().rpartition(':')[2]
    with server(SETTINGS, close=False) as (address, _):
        (there,) = sockaddrs(f'127.0.0.1:{address.rpartition(":")[2]}')
        (away,) = sockaddrs(f'127.0.0.1:{port}')
        assert probes.ask({'a': [away, there]}) == {'a': (GREETS, there)}
        assert probes.ask({'a': [away, away]}) == {'a': (REFUSES, None)}
        assert probes.ask({'a': []}) == {'a': (SILENT, None)}


def test_a_process_without_descriptors_cannot_tell():
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with server(SETTINGS, close=False) as (address, _):
        found = sockaddrs(address)
        os.close(free := os.dup(0))
        resource.setrlimit(resource.RLIMIT_NOFILE, (free, hard))
        try:
            assert probes.ask({address: found}, NO_TIME)[address][0] is Answer.NOT_ASKED
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_process_that_accepts_nothing():
    listening, address = full_backlog()
    with listening:
        for _ in range(3):  # past the backlog connections are not even taken
            assert asked(address, secs=0.05) == [SILENT]


@pytest.mark.skipif(not socket.has_ipv6, reason='no IPv6 here')
def test_ipv6():
    try:
        with server(SETTINGS, close=False, family=socket.AF_INET6) as (address, _):
            assert address.startswith('[::1]:') and asked(address) == [GREETS]
    except OSError:
        pytest.skip('no IPv6 loopback here')


def test_all_are_asked_at_once_in_this_thread():
    with contextlib.ExitStack() as stack:
        there = [stack.enter_context(server(SETTINGS))[0] for _ in range(3)]
        silent = [stack.enter_context(server(close=False))[0] for _ in range(20)]
        threads = set(threading.enumerate())
        assert asked(*there, closed_port(), *silent, secs=3) == [GREETS] * 3 + [REFUSES] + [SILENT] * 20
        assert set(threading.enumerate()) <= threads


def test_probes_leave_nothing_to_the_garbage_collector():
    """A job may have switched it off."""
    with server(SETTINGS, close=False) as (address, _):
        found = {address: sockaddrs(address), 'closed': sockaddrs(closed_port())}
        probes.ask(found)
        gc.disable()
        try:
            # Other threads leave some as well, so there are three tries.
            assert any(_garbage_of(lambda: probes.ask(found)) < 20 for _ in range(3))
        finally:
            gc.enable()


def _garbage_of(function):
    """How many objects 20 calls leave to the garbage collector."""
    gc.collect()
    for _ in range(20):
        function()
    return gc.collect()


def test_a_prober_asks_the_name_server_until_the_peer_greets_and_then_no_more():
    resolves, clock, known = names()
    prober = probes.Prober(names=known)
    with server(SETTINGS, close=False) as (address, _):
        name = f'peer:{address.rpartition(":")[2]}'
        assert prober([name]) == {name: SILENT}  # it is not known yet
        until(lambda: known.lookup(name))
        assert prober([name]) == {name: GREETS}
    resolves.fails = True
    for clock.now in range(10, 60, 10):
        assert prober([name]) == {name: REFUSES}
    assert resolves.asked == ['peer']


def test_a_prober_of_peers_that_may_move_asks_again():
    resolves, clock, known = names()
    prober = probes.Prober(may_move=True, names=known)
    with server(SETTINGS, close=False) as (address, _):
        name = f'peer:{address.rpartition(":")[2]}'
        prober([name])
        until(lambda: known.lookup(name))
        assert prober([name]) == {name: GREETS}
    for clock.now in (10, 20):
        assert prober([name]) == {name: REFUSES}
        until(lambda: known._threads == 0)
    assert resolves.asked == ['peer'] * 3


@pytest.mark.parametrize(
    'refusal, answer',
    [
        (Refusal.NOBODY_LISTENS, REFUSES),
        (Refusal.SILENT, SILENT),
        (Refusal.OTHER_KEY, Answer.OTHER_KEY),
        (Refusal.OTHER_ATTEMPT, Answer.OTHER_ATTEMPT),
        (Refusal.OTHER_TASK, Answer.OTHER_TASK),
        (Refusal.NO_TLS, Answer.NO_TLS),
    ],
)
@pytest.mark.parametrize('cut', [17, 9, 1])
def test_the_companion_of_a_secured_task_says_why_there_is_no_peer(refusal, answer, cut):
    frame = refusal.frame()
    with server(frame[:cut], frame[cut:] or b'') as (address, _):
        assert asked(address) == [answer]


def test_a_task_that_is_secured_wants_tls_of_one_that_is_not():
    with server(b'\x15\x03\x03\x00\x02\x02\x28') as (address, _):
        assert asked(address) == [Answer.WANTS_TLS]


def test_a_peer_is_probed_by_another_way():
    with server(SETTINGS) as (address, _):
        address = address.replace('localhost', '127.0.0.1')  # a name would have to be asked for first
        assert probes.Prober(ways={'host:2222': address})(['host:2222']) == {'host:2222': GREETS}
