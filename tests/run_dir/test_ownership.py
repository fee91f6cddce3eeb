"""ownership.claim: one trainer in a model_dir, and none that haunts it."""

import contextlib
import errno
import os
import pathlib
import signal
import subprocess
import sys
import threading

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import locks, ownership

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 120

HOLDER = """
import sys, time
from estimator_trainer.run_dir import ownership
with ownership.claim(sys.argv[1]):
    print('held', flush=True)
    {body}
"""


@contextlib.contextmanager
def holder(model_dir, body='time.sleep(600)'):
    """Another process that has claimed the model_dir."""
    process = subprocess.Popen(
        [sys.executable, '-c', HOLDER.format(body=body), str(model_dir)],
        cwd=ROOT,
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    timer = threading.Timer(BOUND_SECS, os.killpg, (process.pid, signal.SIGKILL))
    timer.start()
    try:
        assert process.stdout.readline() == 'held\n'
        yield process
    finally:
        timer.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def claimed(model_dir, wait_secs=0):
    with ownership.claim(str(model_dir), wait_secs, wait_secs):
        return True


def test_the_second_is_refused_and_told_who_is_there(tmp_path):
    with holder(tmp_path) as process:
        with pytest.raises(UsageError) as caught:
            claimed(tmp_path)
    assert f'--model_dir={tmp_path}: process {process.pid} trains there' in str(caught.value)


def test_one_on_another_machine_may_be_lost(tmp_path, monkeypatch, caplog):
    caplog.set_level('INFO')
    with holder(tmp_path) as process:
        monkeypatch.setattr(locks, 'boot_id', lambda: 'of_another_machine')
        with pytest.raises(ownership.TakenElsewhere) as caught:
            claimed(tmp_path, 0.2)
    assert f'process {process.pid} on {os.uname().nodename} trains there' in str(caught.value)
    assert f'remove {tmp_path}/.trainer.lock.' in str(caught.value)
    (waiting,) = caplog.messages  # said once
    assert f'process {process.pid} on' in waiting and 'at most 0.2 s' in waiting


def test_free_again_after_kill_9(tmp_path):
    with holder(tmp_path) as process:
        process.kill()
        process.wait()
        assert claimed(tmp_path)


def test_free_again_after_it(tmp_path):
    assert claimed(tmp_path) and claimed(tmp_path)
    with holder(tmp_path, 'pass') as process:
        process.wait(BOUND_SECS)
        assert claimed(tmp_path)


def test_free_again_after_an_error(tmp_path):
    with pytest.raises(ZeroDivisionError):
        with ownership.claim(str(tmp_path)):
            1 / 0
    assert claimed(tmp_path)


def test_one_that_is_about_to_end_is_waited_for(tmp_path):
    with holder(tmp_path, 'sys.stdin.read()') as process:
        leaving = threading.Timer(0.15, process.stdin.close)
        leaving.start()
        assert claimed(tmp_path, BOUND_SECS)
        leaving.join()
        process.stdin = None


def test_the_name_of_the_last_holder_stands_there(tmp_path):
    with holder(tmp_path):
        pass
    with ownership.claim(str(tmp_path)):
        assert (tmp_path / '.trainer.lock').read_text().split()[0] == str(os.getpid())
    assert os.listdir(tmp_path) == ['.trainer.lock']


def test_a_child_process_does_not_hold_it(tmp_path):
    with contextlib.ExitStack() as stack:
        with ownership.claim(str(tmp_path)):
            child = subprocess.Popen([sys.executable, '-c', 'input()'], stdin=subprocess.PIPE)
            stack.callback(child.wait)
            stack.callback(child.kill)
        assert child.poll() is None and claimed(tmp_path)


def test_other_folders_are_free(tmp_path):
    with ownership.claim(str(tmp_path / 'a')):
        assert claimed(tmp_path / 'b')


def test_the_folder_is_made(tmp_path):
    assert claimed(tmp_path / 'deep' / 'er')


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / 'file').touch()
    with pytest.raises(UsageError, match='name another folder'):
        claimed(tmp_path / 'file')
    with pytest.raises(UsageError, match='name another folder'):
        claimed(tmp_path / 'file' / 'folder')


def test_a_machine_that_does_not_say_which_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr(locks.pathlib, 'Path', lambda path: tmp_path / 'no_such')
    with ownership.claim(str(tmp_path)):
        assert (tmp_path / '.trainer.lock').read_text().split() == [str(os.getpid()), os.uname().nodename, '?']


def test_a_file_system_without_locks(tmp_path, monkeypatch):
    def flock(file, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(locks.fcntl, 'flock', flock)
    with pytest.raises(UsageError, match='No locks available.*name a folder on a file system that has locks'):
        claimed(tmp_path)


def test_a_lock_that_cannot_be_opened(tmp_path):
    (tmp_path / '.trainer.lock').mkdir()
    with pytest.raises(UsageError, match='Is a directory'):
        claimed(tmp_path)


def test_a_lock_file_that_somebody_else_put_there(tmp_path):
    (tmp_path / 'theirs').write_text('of value')
    (tmp_path / '.trainer.lock').symlink_to(tmp_path / 'theirs')
    with pytest.raises(UsageError, match=f'{tmp_path}/.trainer.lock should be a lock file, but is a symbolic link'):
        claimed(tmp_path)
    assert (tmp_path / 'theirs').read_text() == 'of value'


def test_a_model_dir_is_made_and_has_one_supervisor(tmp_path):
    folder = str(tmp_path / 'new' / 'model')
    with ownership.supervise(folder):
        with pytest.raises(UsageError, match=r'another run_local_cluster.sh \(pid \d+\)'):
            with ownership.supervise(folder):
                pass
    with ownership.supervise(folder):
        pass


def test_a_model_dir_that_cannot_be_supervised_is_a_usage_error(tmp_path):
    (tmp_path / 'file').touch()
    with pytest.raises(UsageError, match='--model_dir=.*file/model: .*; give a folder'):
        with ownership.supervise(str(tmp_path / 'file' / 'model')):
            pass


def test_somebody_who_asks_whether_it_is_supervised_stops_nobody(tmp_path, monkeypatch):
    """Whoever asks has the lock for a moment."""
    answers, take = iter([False]), locks.Lock.take
    monkeypatch.setattr(locks.Lock, 'take', lambda self: next(answers, None) is None and take(self))
    with ownership.supervise(str(tmp_path)):
        assert next(answers, 'asked again') == 'asked again'


@pytest.mark.skipif(os.getuid() != 0, reason='only root may become another user')
@pytest.mark.parametrize('take', [ownership.claim, ownership.supervise])
def test_a_lock_file_of_another_user_is_named(tmp_path, take):
    """In a folder that both may write."""
    folder = tmp_path / 'shared'
    folder.mkdir()
    for parent in (folder, *folder.parents):
        parent.chmod(parent.stat().st_mode | 0o11) if parent != folder else parent.chmod(0o777)
    with take(str(folder)):
        pass
    (lock,) = folder.iterdir()
    lock.chmod(0o644)
    os.seteuid(65534)
    try:
        with (
            pytest.raises(
                UsageError, match=f'{lock.name} is of another user .Permission denied.. Have it made writable'
            ),
            take(str(folder)),
        ):
            pass
    finally:
        os.seteuid(0)
