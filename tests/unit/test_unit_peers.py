"""watch.peers: servers of every kind on loopback, and a watch with a probe and a clock of its own."""

import contextlib
import socket
import threading
import time

import pytest

from estimator_trainer.watch import peers

SETTINGS = b'\0\0\0\x04\0\0\0\0\0'
PING = b'\0\0\x08\x06\0\0\0\0\0' + bytes(8)
HTTP_1 = b'HTTP/1.1 400 Bad Request\r\n\r\n'
NO_TIME = 0.1


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


@pytest.mark.parametrize('sends, close, yes', [
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
], ids=['greets', 'greets and closes', 'greets in two parts', 'greets with a setting', 'says nothing',
        'closes', 'half a header', 'half a header and closes', 'another frame', 'another protocol'])
def test_who_answers(sends, close, yes):
    with server(*sends, close=close) as (address, heard):
        assert peers.answers(address, 5 if yes or close else NO_TIME) == yes
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
    began = time.monotonic()
    assert not peers.answers(f'127.0.0.1:{listening.getsockname()[1]}', NO_TIME)
    assert time.monotonic() - began < 0.3
    drips.set()
    thread.join(5)
    listening.close()


def closed_port():
    with socket.create_server(('127.0.0.1', 0)) as listening:
        return f'127.0.0.1:{listening.getsockname()[1]}'


def full_backlog():
    """A port whose process accepts nothing, as one that is frozen."""
    listening = socket.create_server(('127.0.0.1', 0), backlog=0)
    return listening, f'127.0.0.1:{listening.getsockname()[1]}'


def test_nobody_there():
    address = closed_port()
    assert not peers.answers(address)
    assert peers.refuses(address) and peers.refusing([address]) == {address}


def test_a_port_that_is_taken_refuses_nobody():
    with server(close=False) as (address, _):
        assert not peers.refuses(address)
    assert not peers.refuses('a..b:1')


@pytest.mark.parametrize('host', ['a..b', 'x' * 64])
def test_a_name_that_is_none(host):
    assert not peers.answers(f'{host}:1')


def test_a_process_that_accepts_nothing():
    listening, address = full_backlog()
    with listening:
        for _ in range(3):  # past the backlog connections are not even taken
            assert not peers.answers(address, 0.05)


@pytest.mark.skipif(not socket.has_ipv6, reason='no IPv6 here')
def test_ipv6():
    try:
        with server(SETTINGS, close=False, family=socket.AF_INET6) as (address, _):
            assert address.startswith('[::1]:') and peers.answers(address)
    except OSError:
        pytest.skip('no IPv6 loopback here')


def test_all_are_asked_at_once():
    with contextlib.ExitStack() as stack:
        there = [stack.enter_context(server(SETTINGS))[0] for _ in range(3)]
        away = [closed_port()]
        assert peers.answering([*there, *away]) == set(there)
    assert peers.answering([]) == set()


JOIN, LOST, START = 60, 30, 1000


class Watch:
    """A PeerWatch of a and b whose peers answer as told, from time START on."""

    def __init__(self, **kwargs):
        self.there, self.closed, self.asked = set(), set(), []
        self.watch = peers.PeerWatch({'worker:1': 'a:1', 'worker:2': 'b:1'}, JOIN, LOST, probe=self._probe,
                                     closed=lambda addresses: self.closed & set(addresses), now=START, **kwargs)

    def _probe(self, addresses):
        self.asked.append(addresses)
        return self.there & set(addresses)

    def look(self, secs, *there):
        self.there = set(there)
        gone = self.watch.look(lambda: START + secs)
        return gone and (gone.name, gone.address, gone.ever_seen, gone.secs)


BOTH = ('a:1', 'b:1')


@pytest.mark.parametrize('looks, gone', [
    ([(0,), (59.9,)], None),
    ([(0,), (60,)], ('worker:1', 'a:1', False, 60)),
    ([(0, 'a:1'), (20, 'a:1'), (60, 'a:1')], ('worker:2', 'b:1', False, 60)),
    ([(59.9, *BOTH), (60, *BOTH), (89, *BOTH)], None),
    ([(0, *BOTH), (10, *BOTH), (39.9, 'a:1')], None),
    ([(0, *BOTH), (10, *BOTH), (40, 'a:1')], ('worker:2', 'b:1', True, 30)),
    ([(0, *BOTH), (29, 'a:1'), (35, *BOTH), (64, 'a:1')], None),  # back in time
    ([(0, 'a:1'), (59, 'b:1')], ('worker:1', 'a:1', True, 59)),
], ids=['has not come yet', 'never came', 'the other never came', 'came late', 'silent', 'lost', 'came back',
        'first one lost'])
def test_when_a_peer_is_gone(looks, gone):
    watch = Watch()
    results = [watch.look(*look) for look in looks]
    assert results == [None] * (len(looks) - 1) + [gone]


@pytest.mark.parametrize('looks, gone', [
    ([(0,), (60,)], ('worker:1', 'a:1', False, 60)),
    ([(0, 'b:1'), (70,)], ('worker:1', 'a:1', False, 70)),
    ([(0, 'b:1'), (60, 'b:1'), (80,)], None),
    ([(0, *BOTH), (500, 'b:1')], None),
])
def test_any_is_enough(looks, gone):
    watch = Watch(any_is_enough=True)
    results = [watch.look(*look) for look in looks]
    assert results == [None] * (len(looks) - 1) + [gone]


@pytest.mark.parametrize('looks, gone', [
    ([(0, '', BOTH), (5, 'b:1', BOTH), (8.9, 'b:1', BOTH)], None),
    ([(0, '', BOTH), (5, 'b:1', BOTH), (9, 'b:1', BOTH)], ('worker:2', 'b:1', True, 9)),
    ([(0, '', BOTH), (5, 'b:1', BOTH), (7, '', BOTH), (9, 'b:1', BOTH)], None),  # its machine was silent between
    ([(0, '', BOTH), (5, '', BOTH), (20, '', BOTH)], None),
    ([(0, 'b:1', ()), (30, 'b:1', ())], None),  # it has not come yet
], ids=['not long enough', 'long enough', 'not all the time', 'silent', 'never came'])
def test_a_port_that_is_closed_again(looks, gone):
    watch = Watch()
    results = []
    for number, (secs, closed, there) in enumerate(looks):
        watch.closed = {closed}
        results.append(watch.look(secs, *(there if not number else {'a:1'} & set(there))))
    assert results == [None] * (len(looks) - 1) + [gone]


def test_a_parameter_server_waits_for_workers_to_come_back():
    watch = Watch(any_is_enough=True)
    watch.closed = set(BOTH)
    assert [watch.look(0, *BOTH), watch.look(5), watch.look(29)] == [None] * 3


def test_without_peers_nobody_is_asked():
    assert peers.PeerWatch({}, 0, 0, probe=lambda addresses: 1 / 0).look() is None


def test_who_is_missing_now():
    watch = Watch()
    watch.look(0, *BOTH)
    watch.there = {'a:1'}
    missing, = watch.watch.missing_now()
    assert (missing.name, missing.address, missing.ever_seen) == ('worker:2', 'b:1', True)


def test_two_names_of_one_address_both_answer():
    watch = peers.PeerWatch({'x': 'a:1', 'y': 'a:1'}, JOIN, LOST, probe=set, now=START)
    assert watch.look(lambda: START + JOIN) is None
