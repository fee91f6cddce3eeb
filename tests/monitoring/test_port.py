"""--metrics_port: what the flag may say, and the socket that it opens."""

import importlib.util
import os
import socket

import pytest

from estimator_trainer import main
from estimator_trainer.errors import UsageError
from estimator_trainer.monitoring import port
from estimator_trainer.supervisor import cluster_command

pytest.importorskip('prometheus_client', reason='prometheus-client is not installed')


@pytest.mark.parametrize(
    'text, address',
    [
        ('9400', '127.0.0.1:9400'),
        ('0', '127.0.0.1:0'),
        ('0.0.0.0:9400', '0.0.0.0:9400'),
        ('node-1:80', 'node-1:80'),
        ('[::1]:9400', '[::1]:9400'),
    ],
)
def test_addresses(text, address):
    assert str(port.parse(text)) == address


@pytest.mark.parametrize('text', ['http', '-1', '65536', ':9400', 'host:', 'host:x', '9400 ', '²'])
def test_what_is_no_address(text):
    with pytest.raises(UsageError, match='--metrics_port=.*give a port such as 9400'):
        port.parse(text)


def test_the_system_may_choose_the_port_and_children_do_not_get_it():
    with port.listen('0') as listener:
        host, number = listener.getsockname()
        assert number > 0 and port.url(listener) == f'http://127.0.0.1:{number}/metrics'
        assert not listener.get_inheritable()


def test_a_host_that_is_none():
    with pytest.raises(UsageError, match='cannot listen at host.invalid:1'):
        port.listen('host.invalid:1')


@pytest.mark.parametrize('host', ['a' * 64, 'a..b', f'a.{"b" * 64}.c'])
def test_a_host_that_cannot_be(host):
    with pytest.raises(UsageError, match=f'--metrics_port={host}:1: {host} cannot be the name of a host'):
        port.listen(f'{host}:1')


@pytest.fixture
def taken():
    with socket.create_server(('127.0.0.1', 0)) as other:
        yield other.getsockname()[1]


def run_alone(flags):
    return main.main(['trainer', *flags])


def run_cluster(flags):
    return cluster_command.main(['--isolate=off', '--', *flags])


@pytest.mark.parametrize('run', [run_alone, run_cluster])
def test_a_port_that_is_taken_ends_a_run_before_it_begins(tmp_path, capsys, taken, run):
    assert run([f'--model_dir={tmp_path}/run', '--max_steps=1', f'--metrics_port={taken}']) == 64
    said = capsys.readouterr().err
    assert f'--metrics_port={taken}: cannot listen at 127.0.0.1:{taken}: Address already in use; give another' in said
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize('run', [run_alone, run_cluster])
def test_so_does_a_package_that_is_missing(tmp_path, capsys, monkeypatch, run):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: name != 'prometheus_client' and found(name) or None)
    assert run([f'--model_dir={tmp_path}/run', '--max_steps=1', '--metrics_port=0']) == 64
    assert 'pip install "estimator-trainer[metrics]"' in capsys.readouterr().err
    assert os.listdir(tmp_path) == []
