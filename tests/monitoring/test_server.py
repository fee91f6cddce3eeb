"""The server, against clients that behave and clients that do not. No Prometheus, no run."""

import http.client
import os
import socket
import threading

import pytest

from estimator_trainer.monitoring import port, server
from estimator_trainer.this_process import forks

pytest.importorskip('prometheus_client', reason='prometheus-client is not installed')

TEXT = b'estimator_trainer_step 5\n'
BOUND_SECS = 120


class Served:
    """A server under test, and how often it made its text."""

    def __init__(self, text=lambda: TEXT):
        self._text, self.made = text, 0
        self.listener = port.listen('0')
        self.address = self.listener.getsockname()
        self.server = server.Server(self.listener, self._make, 'text/plain; version=0')

    def _make(self):
        self.made += 1
        return self._text()

    def __enter__(self):
        self.server.__enter__()
        return self

    def __exit__(self, *exc_info):
        self.server.__exit__(*exc_info)

    def connect(self):
        return socket.create_connection(self.address, timeout=BOUND_SECS)

    def get(self, path='/metrics', method='GET'):
        """(status, content type, body)"""
        connection = http.client.HTTPConnection(*self.address, timeout=BOUND_SECS)
        connection.request(method, path)
        answer = connection.getresponse()
        body = answer.read()
        connection.close()
        return answer.status, answer.headers['Content-Type'], body


def threads():
    return [thread for thread in threading.enumerate() if thread.name == 'metrics']


def test_answers_and_the_end():
    with Served() as served:
        assert served.get() == (200, 'text/plain; version=0', TEXT)
        assert served.get('/metrics?x=1')[0] == 200
        assert served.get('/')[0] == 404 and b'/metrics' in served.get('/')[2]
        assert served.get(method='POST')[0] == 405
        assert len(threads()) == 1
    assert threads() == []
    with pytest.raises(ConnectionRefusedError):
        served.connect()


def test_nothing_is_read_before_a_client_asks_nor_for_each_of_many(monkeypatch):
    monkeypatch.setattr(server, 'FRESH_SECS', 1000)
    with Served() as served:
        with served.connect():
            pass
        assert served.made == 0
        for _ in range(5):
            served.get()
        assert served.made == 1


def test_a_text_that_cannot_be_made_is_an_answer():
    def broken():
        raise OSError('the disk is gone')

    with Served(broken) as served:
        for _ in range(2):
            assert served.get()[::2] == (500, b'OSError: the disk is gone\n')


def test_a_hundred_silent_clients_keep_nobody_out(monkeypatch):
    monkeypatch.setattr(server, 'REQUEST_SECS', 1000)
    with Served() as served:
        silent = [served.connect() for _ in range(100)]
        assert served.get()[0] == 200
        assert silent[0].recv(1) == b''  # the oldest ones were closed
        assert len(threads()) == 1
        assert len(served.server._open) <= server.MOST_CONNECTIONS
    for client in silent:
        client.close()


def test_slow_readers_hold_up_neither_others_nor_the_end(monkeypatch):
    monkeypatch.setattr(server, 'REQUEST_SECS', 1000)
    text = b'x' * (16 << 20)  # more than the buffers of a connection hold
    with Served(lambda: text) as served:
        slow = served.connect()
        slow.sendall(b'GET /metrics HTTP/1.1\r\n\r\n')
        assert slow.recv(1) == b'H'
        assert len(served.get()[2]) == len(text)
    assert threads() == []
    slow.close()


@pytest.mark.parametrize('said', [b'', b'GET /metrics HT', b'GET /' + b'x' * 100_000])
def test_a_request_that_does_not_come_to_its_end(monkeypatch, said):
    monkeypatch.setattr(server, 'REQUEST_SECS', 0.2)
    with Served() as served, served.connect() as client:
        client.sendall(said)
        try:
            assert client.recv(1) == b''
        except ConnectionResetError:  # it was closed before it had been read to its end
            pass
        assert served.get()[0] == 200


def test_a_text_that_takes_long_does_not_hold_up_the_end(monkeypatch):
    monkeypatch.setattr(server, 'END_SECS', 0.05)
    asked, goes_on = threading.Event(), threading.Event()

    def slow():
        asked.set()
        goes_on.wait(BOUND_SECS)
        return TEXT

    with Served(slow) as served, served.connect() as client:
        client.sendall(b'GET /metrics HTTP/1.1\r\n\r\n')
        assert asked.wait(BOUND_SECS)
        (thread,) = threads()
    assert thread.is_alive()  # the end did not wait for it
    goes_on.set()
    thread.join(BOUND_SECS)
    assert not thread.is_alive()


def test_a_forked_child_does_not_hold_the_port():
    ours, theirs = socket.socketpair()
    with ours, Served() as served:
        served.get()
        child = os.fork()
        if child == 0:
            ours.close()
            theirs.send(b'x')  # what a child gives up, it gives up before this
            theirs.recv(1)
            os._exit(0)
        theirs.close()
        served.server.__exit__()
        assert ours.recv(1) == b'x'
        with port.listen(str(served.address[1])) as again:
            forks.forget(again.close)
    os.waitpid(child, 0)
