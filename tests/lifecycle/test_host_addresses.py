"""lifecycle.probes: who is asked for an address when, by a name server and a clock of the test's."""

import socket
import threading

import pytest

from estimator_trainer.lifecycle.probes import Addresses
from tests.processes import until


class NameServer:
    """Resolves names to 127.0.0.1 and remembers who was asked for. `away`: it answers nothing until it is back."""

    def __init__(self):
        self.asked, self.back, self.fails = [], threading.Event(), False
        self.back.set()

    def __call__(self, host, port, **kwargs):
        self.asked.append(host)
        assert self.back.wait(30)
        if self.fails:
            raise socket.gaierror(socket.EAI_AGAIN, 'Temporary failure in name resolution')
        return [(socket.AF_INET, None, None, '', ('127.0.0.1', port))]


class Time:
    def __init__(self):
        self.now = 0

    def __call__(self):
        return self.now


def names():
    server, clock = NameServer(), Time()
    return server, clock, Addresses(server, clock)


def test_a_name_is_resolved_in_the_background_and_once():
    server, _, known = names()
    server.back.clear()
    assert known.lookup('a:1') == known.lookup('a:1') == []
    server.back.set()
    until(lambda: known.lookup('a:1'))
    assert known.lookup('a:1') == [(socket.AF_INET, ('127.0.0.1', 1))]
    assert [known.lookup('a:1') for _ in range(5)] and server.asked == ['a']


def test_an_address_needs_no_name_server():
    server, _, known = names()
    assert known.lookup('127.0.0.1:7') == [(socket.AF_INET, ('127.0.0.1', 7))]
    known.renew('127.0.0.1:7')
    assert server.asked == []


def test_a_name_server_that_is_away_takes_nothing_back_and_is_not_asked_all_the_time():
    server, clock, known = names()
    known.lookup('a:1')
    until(lambda: known.lookup('a:1'))
    server.fails, before = True, known.lookup('a:1')
    for clock.now in range(1, 21):
        known.renew('a:1')
        until(lambda: known._threads == 0)
    assert known.lookup('a:1') == before and server.asked == ['a'] * 5  # at 0, 5, 10, 15 and 20 s


def test_few_threads_wait_for_a_name_server():
    server, _, known = names()
    server.back.clear()
    for number in range(50):
        assert known.lookup(f'host{number}:1') == []
    assert sum(thread.name == 'names' for thread in threading.enumerate()) <= 4
    server.back.set()
    until(lambda: all(known.lookup(f'host{number}:1') for number in range(50)))
    until(lambda: 'names' not in {thread.name for thread in threading.enumerate()})


@pytest.mark.parametrize('name', ['a..b:1', f'{"x" * 64}:1', 'a', 'a:b'])
def test_a_name_that_is_none(name):
    known = Addresses()
    assert known.lookup(name) == []
    until(lambda: known._threads == 0)
    assert known.lookup(name) == []


def test_without_threads_a_name_is_asked_for_later(monkeypatch):
    server, clock, known = names()

    def none_left(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, 'start', none_left)
        assert known.lookup('a:1') == []
    clock.now = 5
    known.lookup('a:1')
    until(lambda: known.lookup('a:1'))
