"""Names of nodes -> addresses, with the resolver replaced, and a program that is called scontrol."""

import socket
import threading

import pytest

from tf_config.resolvers import lookup

SCONTROL = (
    'NodeName=n1 Arch=x86_64 NodeAddr=10.77.0.1 NodeHostName=localhost Port=26821 Version=22.05.8\n'
    'NodeName=n2 Arch=x86_64 NodeAddr=fd00::2 NodeHostName=localhost Port=26822\n'
    'NodeName=n3 NodeAddr=n3 NodeHostName=n3\n'
    'NodeName=n4 NodeAddr=four.example NodeHostName=n4\n'
    'Node n9 not found\n'
)


@pytest.fixture
def network(monkeypatch, tmp_path):
    """A function that sets which names resolve; scontrol says SCONTROL. Returns a function: what scontrol was asked."""
    answer, questions, scontrol = (tmp_path / name for name in ('answer', 'questions', 'scontrol'))
    answer.write_text(SCONTROL)
    questions.touch()
    scontrol.write_text(f'#!/bin/sh\necho "$@" >> {questions}\nexec /bin/cat {answer}\n')
    scontrol.chmod(0o755)
    monkeypatch.setenv('PATH', str(tmp_path))

    def resolves(**names):
        def getaddrinfo(host, *args, **kwargs):
            if host not in names:
                raise OSError('no such name')
            family = socket.AF_INET6 if ':' in names[host] else socket.AF_INET
            return [(family, 1, 6, '', (names[host], 0))]

        monkeypatch.setattr(lookup.socket, 'getaddrinfo', getaddrinfo)
        return lambda: questions.read_text().splitlines()

    return resolves


def test_a_name_that_resolves_stays(network):
    asked = network(n1='10.0.0.1', n2='fd00::7')
    assert lookup.of_nodes(['n1', 'n2']) == {'n1': ('n1', '10.0.0.1'), 'n2': ('n2', '[fd00::7]')}
    assert asked() == []


def test_other_names_are_asked_of_slurm_at_once(network):
    asked = network(n5='10.0.0.5', **{'four.example': '10.0.0.4'})
    assert lookup.of_nodes(['n1', 'n5', 'n2', 'n3', 'n4', 'n9']) == {
        'n5': ('n5', '10.0.0.5'),
        'n1': ('10.77.0.1', '10.77.0.1'),
        'n2': ('[fd00::2]', '[fd00::2]'),
        'n4': ('four.example', '10.0.0.4'),
    }
    assert asked() == ['show node -o n1,n2,n3,n4,n9']


def test_a_resolver_that_hangs_is_left(network, monkeypatch):
    network()
    release = threading.Event()

    def getaddrinfo(*args, **kwargs):
        release.wait(60)
        raise OSError('no answer')

    monkeypatch.setattr(lookup.socket, 'getaddrinfo', getaddrinfo)
    monkeypatch.setattr(lookup, 'RESOLVER_SECS', 0.05)
    assert lookup.of_nodes(['n1']) == {'n1': ('10.77.0.1', '10.77.0.1')}
    release.set()


def test_names_are_asked_for_together(network, monkeypatch):
    """A thousand look-ups of 5 ms, one after the other, would take half of the time that there is."""
    network()
    together = threading.Barrier(16)

    def getaddrinfo(host, *args, **kwargs):
        together.wait(30)  # raises where fewer than 16 are under way
        return [(socket.AF_INET, 1, 6, '', (f'10.0.0.{host[1:]}', 0))]

    monkeypatch.setattr(lookup.socket, 'getaddrinfo', getaddrinfo)
    names = [f'n{number}' for number in range(32)]
    assert lookup.of_nodes(names) == {name: (name, f'10.0.0.{name[1:]}') for name in names}


def test_scontrol_that_hangs_or_is_missing_is_left(monkeypatch, tmp_path):
    scontrol = tmp_path / 'scontrol'
    monkeypatch.setenv('PATH', str(tmp_path))
    assert lookup._scontrol(['n1']) == ''
    scontrol.write_text('#!/bin/sh\nexec /bin/sleep 600\n')
    scontrol.chmod(0o755)
    monkeypatch.setattr(lookup, 'SCONTROL_SECS', 0.2)
    assert lookup._scontrol(['n1']) == ''
    monkeypatch.undo()
    monkeypatch.setenv('PATH', str(tmp_path))
    scontrol.write_text('#!/bin/sh\necho "$@"\n')
    assert lookup._scontrol(['n1', 'n2']) == 'show node -o n1,n2\n'
