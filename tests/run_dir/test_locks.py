"""run_dir.locks and run_dir.files: what is ours is locked and written, and what is not stays as it is."""

import math
import os
import signal
import subprocess
import sys
import types

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import files, locks, metrics_log, ownership, protocol
from estimator_trainer.supervisor.processes import ports

FOREIGN = 'the only copy of a thesis\n'


def taken(path):
    with locks.Lock(path) as lock:
        return lock.take()


def test_one_at_a_time(tmp_path):
    with locks.Lock(tmp_path / 'lock') as lock:
        assert lock.take() and not taken(tmp_path / 'lock')
        assert lock.take()  # it is ours already
    assert taken(tmp_path / 'lock')


def test_who_has_it(tmp_path):
    with locks.Lock(tmp_path / 'lock') as lock, locks.Lock(tmp_path / 'lock') as other:
        assert other.holder() == locks.Holder()
        lock.take()
        holder = other.holder()
    assert (holder.pid, holder.machine, holder.boot) == (str(os.getpid()), os.uname().nodename, locks.boot_id())
    assert holder.is_on_this_machine and str(holder) == f'process {os.getpid()}'


@pytest.mark.parametrize(
    'text, shown',
    [
        ('12', 'process 12'),
        ('12\n', 'process 12'),
        ('12 node7 other-boot', 'process 12 on node7'),
        ('', 'process ?'),
        ('\0\0\0', 'process ?'),
    ],
)  # of earlier versions; of a machine that went down
def test_what_an_earlier_holder_left(tmp_path, text, shown):
    (tmp_path / 'lock').write_text(text)
    with locks.Lock(tmp_path / 'lock') as lock:
        assert str(lock.holder()) == shown
        assert lock.take() and lock.holder().pid == str(os.getpid())


@pytest.mark.parametrize('content', [FOREIGN, '12 34 56 78', '12\n13\n', 'x', '{"pid": 1}', '12' + ' ' * 600 + 'x'])
def test_foreign_content_stays(tmp_path, content):
    (tmp_path / 'lock').write_text(content)
    with pytest.raises(locks.NotALock, match=f'{tmp_path}/lock should be a lock file, but holds something else'):
        locks.Lock(tmp_path / 'lock')
    assert (tmp_path / 'lock').read_text() == content


def test_content_that_comes_while_it_is_waited_for_stays(tmp_path):
    with locks.Lock(tmp_path / 'lock') as lock:
        (tmp_path / 'lock').write_text(FOREIGN)
        with pytest.raises(locks.NotALock):
            lock.take()
    assert (tmp_path / 'lock').read_text() == FOREIGN


@pytest.mark.parametrize('target', ['there', 'missing'])
def test_a_symbolic_link_is_not_followed(tmp_path, target):
    (tmp_path / 'there').touch()
    (tmp_path / 'lock').symlink_to(tmp_path / target)
    with pytest.raises(locks.NotALock, match='is a symbolic link.*remove it'):
        locks.Lock(tmp_path / 'lock')
    assert (tmp_path / 'there').read_text() == '' and not (tmp_path / 'missing').exists()


def test_a_pipe_is_no_lock(tmp_path):
    os.mkfifo(tmp_path / 'lock')
    with pytest.raises(locks.NotALock, match='is not a regular file'):
        locks.Lock(tmp_path / 'lock')


def test_nothing_stays_open_after_a_refusal(tmp_path):
    (tmp_path / 'lock').write_text(FOREIGN)
    before = os.listdir('/proc/self/fd')
    with pytest.raises(locks.NotALock):
        locks.Lock(tmp_path / 'lock')
    assert os.listdir('/proc/self/fd') == before


class Clock:
    """Time that passes in the pauses of `wait`; `at` does something at a second."""

    def __init__(self, at=()):
        self.now, self._at = 0.0, dict(at)

    def __call__(self):
        return self.now

    def sleep(self, secs):
        self.now += secs
        for second in [second for second in self._at if second <= self.now]:
            self._at.pop(second)()


def test_it_is_waited_for_as_long_as_it_is_held_and_said_at_growing_intervals(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, 'POLL_SECS', 0.125)  # adds up exactly
    said = []
    with locks.Lock(tmp_path / 'lock') as holder, locks.Lock(tmp_path / 'lock') as lock:
        holder.take()
        clock = Clock({3601: holder.close})
        lock.wait(locks.patience(math.inf), lambda holder, secs, bound: said.append(secs), clock, clock.sleep)
    assert said == [0, 10, 20, 40, 80, 160, 320, 640, 1240, 1840, 2440, 3040]
    assert 3601 <= clock.now < 3602


@pytest.mark.parametrize('boot, secs', [(None, 5), ('other', 40)])
def test_patience_depends_on_the_machine(tmp_path, boot, secs):
    with locks.Lock(tmp_path / 'lock') as holder, locks.Lock(tmp_path / 'lock') as lock:
        holder.take()
        if boot:
            (tmp_path / 'lock').write_text(f'7 node7 {boot}')
        clock = Clock()
        with pytest.raises(locks.Held) as caught:
            lock.wait(locks.patience(5, 40), clock=clock, sleep=clock.sleep)
    assert secs <= clock.now < secs + 1 and caught.value.holder.is_on_this_machine == (boot is None)


ORPHAN = """
import os, signal, sys, time
from estimator_trainer.run_dir import locks, ownership
lock = locks.Lock(sys.argv[1])
assert lock.take()
{fork}
os.kill(os.getpid(), signal.SIGKILL)
"""
FORKS = {
    'os.fork': 'child = os.fork()\nif not child: time.sleep(600)\nprint(child, flush=True)',
    'multiprocessing': "import multiprocessing\nchild = multiprocessing.get_context('fork').Process("
    'target=time.sleep, args=(600,))\nchild.start()\nprint(child.pid, flush=True)',
    'a thread': 'import threading\ndef fork():\n  global child\n  child = os.fork()\n'
    '  if not child: time.sleep(600)\nthread = threading.Thread(target=fork)\nthread.start()\n'
    'thread.join()\nprint(child, flush=True)',
}


@pytest.mark.parametrize('how', FORKS)
def test_an_orphan_does_not_hold_what_its_parent_held(tmp_path, how):
    process = subprocess.Popen(
        [sys.executable, '-c', ORPHAN.format(fork=FORKS[how]), str(tmp_path / 'lock')],
        stdout=subprocess.PIPE,
        text=True,
    )
    orphan = int(process.stdout.readline())
    try:
        assert process.wait(30) == -signal.SIGKILL
        with locks.Lock(tmp_path / 'lock') as lock:
            lock.wait(locks.patience(10, 10))  # until the child has run its first instruction
        os.kill(orphan, 0)
    finally:
        os.kill(orphan, signal.SIGKILL)
        process.stdout.close()


def test_a_child_that_gives_up_its_copy_leaves_the_lock_to_the_parent(tmp_path):
    with locks.Lock(tmp_path / 'lock') as lock:
        lock.take()
        child = os.fork()
        if child == 0:
            os._exit(10 + taken(tmp_path / 'lock'))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 10
        assert not taken(tmp_path / 'lock')


# The others that use them


def test_a_supervisors_lock_that_is_a_link(tmp_path):
    (tmp_path / 'theirs').write_text(FOREIGN)
    (tmp_path / '.cluster.lock').symlink_to('theirs')
    with pytest.raises(UsageError, match='.cluster.lock should be a lock file, but is a symbolic link'):
        with ownership.supervise(str(tmp_path)):
            pass
    assert (tmp_path / 'theirs').read_text() == FOREIGN


def test_a_ports_lock_that_is_a_link(tmp_path, monkeypatch):
    monkeypatch.setattr(ports.tempfile, 'gettempdir', lambda: str(tmp_path))
    folder = ports.lock_folder()
    port = next(ports.candidates(ports.ephemeral_range(), os.getpid() * 16))
    (folder / f'{port}.lock').symlink_to(tmp_path / 'theirs')
    with pytest.raises(ports.NoPorts, match=f'{port}.lock should be a lock file, but is a symbolic link'):
        ports.claim(1)
    assert not (tmp_path / 'theirs').exists()


def test_json_is_not_written_through_a_link(tmp_path):
    (tmp_path / 'theirs').write_text(FOREIGN)
    path = tmp_path / 'training.json'
    for link in (path, tmp_path / f'training.json.{os.getpid()}.tmp'):
        link.symlink_to('theirs')
    protocol.write_json(str(path), {'step': 1})
    assert protocol.read_json(str(path)) == {'step': 1} and not path.is_symlink()
    assert (tmp_path / 'theirs').read_text() == FOREIGN
    assert sorted(os.listdir(tmp_path)) == ['theirs', 'training.json']


def test_what_a_killed_process_of_the_same_number_left_is_no_obstacle(tmp_path):
    (tmp_path / f'training.json.{os.getpid()}.tmp').write_text('{')
    protocol.write_json(str(tmp_path / 'training.json'), {})
    assert os.listdir(tmp_path) == ['training.json']


def test_metrics_are_not_appended_through_a_link(tmp_path):
    (tmp_path / 'theirs').write_text(FOREIGN)
    (tmp_path / 'metrics.jsonl').symlink_to('theirs')
    with pytest.raises(OSError, match='is a symbolic link.*remove it.*metrics.jsonl'):
        metrics_log.MetricsLog(str(tmp_path / 'metrics.jsonl')).write('train', 1, {'loss': 1})
    assert (tmp_path / 'theirs').read_text() == FOREIGN


def test_bytes_are_appended(tmp_path):
    for text in (b'a\n', b'b\n'):
        with files.append(str(tmp_path / 'log')) as file:
            file.write(text)
    assert (tmp_path / 'log').read_bytes() == b'a\nb\n'


@pytest.mark.parametrize('machine', ['node 7', 'knöten', ''])
def test_a_machine_of_any_name_leaves_a_line_that_counts_as_ours(tmp_path, monkeypatch, machine):
    monkeypatch.setattr(os, 'uname', lambda: types.SimpleNamespace(nodename=machine))
    assert taken(tmp_path / 'lock') and taken(tmp_path / 'lock')
