"""Two tasks, each in a network of its own, on two ports of this machine. They serve an echo in place of TensorFlow."""

import contextlib
import os
import pathlib
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time

import pytest

import tf_config
from estimator_trainer import exit_codes
from estimator_trainer.secure import channel, run_key
from estimator_trainer.this_process import isolate
from tests.secure.echo_tasks import ENVIRON, SECS, EchoTask

NOBODY = 65534


def problem():
    try:
        isolate.kinds_that_work()
    except OSError as error:
        return str(error)


pytestmark = pytest.mark.skipif(problem() is not None, reason=f'a network namespace: {problem()}')


def wait_for_the_end_of(pids):
    deadline = time.monotonic() + SECS
    while any(pathlib.Path(f'/proc/{pid}').exists() for pid in pids):
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.fixture
def cluster():
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(('127.0.0.1', 0))) for _ in range(3)]
        ports = [each.getsockname()[1] for each in sockets]
    return tf_config.Cluster(worker=tuple(f'127.0.0.1:{port}' for port in ports))


@pytest.fixture
def key_file(tmp_path):
    run_key.write(str(tmp_path / 'key'))
    return tmp_path / 'key'


@pytest.fixture
def started(cluster):
    """(name, key_file, …) -> a task that has started."""
    with contextlib.ExitStack() as stack:
        yield lambda name, *args, **kwargs: stack.enter_context(EchoTask(name, cluster, *args, **kwargs)).start()


def place(task):
    host, _, port = task.address.rpartition(':')
    return host, int(port)


def test_tasks_reach_each_other_and_nobody_else_reaches_them(started, key_file):
    one, other = (started(f'worker:{index}', key_file, 'a') for index in (0, 1))
    assert [task.first['problem'] for task in (one, other)] == ['', '']
    assert len({task.first['net'] for task in (one, other)} | {os.readlink('/proc/self/ns/net')}) == 3
    assert one.call('worker:1') == other.call('worker:0') == 'hello'
    text = 'x' * 1_000_000
    assert one.call('worker:1', text) == text

    other.lines.clear()
    with socket.create_connection(place(other), 60) as stranger:  # without TLS
        stranger.sendall(b'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
        stranger.settimeout(60)
        assert stranger.recv(100)[:2] == b'\x15\x03'
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(place(other), 60) as raw, context.wrap_socket(raw) as stranger:  # without a key
        with contextlib.suppress(OSError):
            stranger.sendall(b'x')
            assert stranger.recv(100) == b''
    others = channel.client_context(run_key.RunKey.new().certify('worker:0', run_key.name_of_attempt('a')))
    others.check_hostname, others.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(place(other), 60) as raw, others.wrap_socket(raw) as stranger:  # with another key
        with contextlib.suppress(OSError):
            stranger.sendall(b'x')
            assert stranger.recv(100) == b''
    assert one.call('worker:1', 'again') == 'again'
    assert [line for line in other.lines if line.get('got') != 5] == []  # it has seen none of that
    assert any('refused 127.0.0.1: no TLS' in line for line in other.errors), other.errors


def test_another_key_and_another_attempt_are_refused_and_named(started, key_file, tmp_path):
    run_key.write(str(tmp_path / 'other'))
    one = started('worker:0', key_file, 'new')
    wrong = started('worker:1', tmp_path / 'other', 'new')
    old = started('worker:2', key_file, 'old')
    assert one.call('worker:1') == wrong.call('worker:0') == 'OTHER_KEY'
    assert one.call('worker:2') == old.call('worker:0') == 'OTHER_ATTEMPT'
    assert any("another run's key" in line for line in one.errors), one.errors
    assert [line for task in (one, wrong, old) for line in task.lines] == []


def test_who_is_not_there_is_told_apart(started, key_file):
    one, other = (started(f'worker:{index}', key_file, 'a') for index in (0, 1))
    assert one.call('worker:2') == 'NOBODY_LISTENS'
    assert one.call('worker:1') == 'hello'
    other.order('deaf', deaf=1)
    assert one.call('worker:1') == 'NOBODY_LISTENS'


def test_without_an_engine_the_chief_names_the_attempt_and_an_old_task_is_refused(started, key_file):
    worker = started('worker:1', key_file)
    assert worker.call('worker:0') == 'NOBODY_LISTENS'
    chief = started('worker:0', key_file)
    worker.calls_until('hello', 'worker:0')
    assert chief.call('worker:1') == 'hello'
    third = started('worker:2', key_file)
    third.calls_until('hello', 'worker:1')
    chief.process.kill()
    chief.process.wait(SECS)
    new_chief = started('worker:0', key_file)
    assert worker.call('worker:0') == new_chief.call('worker:1') == 'OTHER_ATTEMPT'


def test_the_task_and_its_companion_end_together(started, key_file):
    one, other = (started(f'worker:{index}', key_file, 'a') for index in (0, 1))
    (companion,) = [pid for pid in one.children() if b'companion' in pathlib.Path(f'/proc/{pid}/cmdline').read_bytes()]
    assert one.order('ended', alive=1) is False
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):  # an engine sends them to all processes of a task
        os.kill(companion, signum)
    assert other.call('worker:0') == 'hello'
    os.kill(companion, signal.SIGKILL)
    deadline = time.monotonic() + SECS
    while not one.order('ended', alive=1):
        assert time.monotonic() < deadline
    assert other.call('worker:0') == 'NOBODY_LISTENS'

    children = other.children()
    assert len(children) == 2
    other.process.kill()
    wait_for_the_end_of(children)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(place(other), 60)


def test_a_child_of_a_killed_task_does_not_keep_its_companion_which_says_nothing(started, key_file):
    one = started('worker:0', key_file, 'a')
    companions = one.children()
    child = one.order('forked', fork=1)
    try:
        one.process.kill()
        one.reader.join(SECS)  # until nobody can write to stderr
        assert one.errors == []
        wait_for_the_end_of(companions)
    finally:
        os.kill(child, signal.SIGKILL)


def test_no_process_shows_the_key(started, key_file):
    one = started('worker:0', key_file, 'a')
    secret = [line for line in key_file.read_text().splitlines() if line and '-----' not in line]
    for pid in (one.process.pid, *one.children()):
        for name in ('cmdline', 'environ'):
            shown = pathlib.Path(f'/proc/{pid}/{name}').read_bytes().decode(errors='replace')
            assert not any(line in shown for line in secret)
            assert 'PRIVATE KEY' not in shown
    assert 'ESTIMATOR_TRAINER_SECURE' not in pathlib.Path(f'/proc/{one.children()[0]}/environ').read_text()


def test_a_taken_port_is_named(started, cluster, key_file):
    host, _, port = cluster.worker[0].rpartition(':')
    with socket.create_server(('', int(port))):
        task = started('worker:0', key_file, 'a')
    assert task.first == {
        'problem': f"this task's port is taken by another process: {cluster.worker[0]}",
        'code': exit_codes.PORT_TAKEN,
    }


def test_a_key_that_cannot_be_used_is_named(started, key_file):
    key_file.chmod(0o644)
    task = started('worker:0', key_file, 'a')
    assert 'others may read the key of the run' in task.first['problem']
    assert task.first['code'] == exit_codes.USAGE


def test_a_cluster_of_thousands_of_tasks(key_file):
    cluster = tf_config.Cluster(worker=tuple(f'127.0.0.1:{port}' for port in range(20000, 24000)))
    with EchoTask('worker:0', cluster, key_file, 'a').start() as task:
        assert task.first['problem'] == ''


def python_of_everybody():
    """An interpreter that an ordinary user can run; None: there is none, as where this one is in root's home."""
    for python in (sys.executable, '/usr/bin/python3'):
        with contextlib.suppress(OSError):
            tried = subprocess.run(
                [python, '-c', 'import estimator_trainer.secure.companion'],
                env=ENVIRON,
                user=NOBODY,
                group=NOBODY,
                extra_groups=[],
                timeout=SECS,
            )
            if tried.returncode == 0:
                return python


@pytest.mark.skipif(os.geteuid() != 0, reason='only root can become another user')
def test_an_ordinary_user(started):
    python = python_of_everybody()
    if python is None:
        pytest.skip('an ordinary user cannot run this Python')
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        key_file = pathlib.Path(folder, 'key')
        run_key.write(str(key_file))
        os.chown(key_file, 0, NOBODY)  # as Kubernetes mounts a Secret
        os.chmod(key_file, 0o640)
        one, other = (started(f'worker:{index}', key_file, 'a', NOBODY, python) for index in (0, 1))
        if 'unshare' in one.first['problem'] or '/proc/self' in one.first['problem']:
            pytest.skip(one.first['problem'])
        assert one.first['problem'] == ''
        assert one.call('worker:1') == other.call('worker:0') == 'hello'
