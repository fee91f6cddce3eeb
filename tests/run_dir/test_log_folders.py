"""The folders of logs: numbered, kept while in use, the oldest removed and nothing else."""

import os
import signal
import subprocess
import sys

import pytest

from estimator_trainer.run_dir import log_folders


@pytest.fixture
def made(tmp_path):
    """Five attempts with logs, in tmp_path."""
    folders = [log_folders.new(str(tmp_path)) for _ in range(5)]
    for folder in folders:
        for name in (
            'worker-0.out',
            'worker-0.err',
            'worker-0.err.1',
            'worker-0.error.json',
            'evaluator-0.2.err',
            'evaluator-0.2.error.json',
            'worker-1.error.json.123.tmp',
            '.lock',
        ):
            (folder / name).write_text('x')
    return folders


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_attempts_are_numbered_after_the_last(tmp_path):
    parent = str(tmp_path / 'model' / 'logs')
    assert [log_folders.new(parent).name for _ in range(2)] == ['attempt-1', 'attempt-2']
    (tmp_path / 'model' / 'logs' / 'attempt-10').mkdir()
    assert log_folders.new(parent).name == 'attempt-11'


def test_a_folder_of_others_that_has_our_names_stays(made, tmp_path):
    (made[0] / '.estimator_trainer').unlink()  # nothing says that it is ours: such as one that a user has made
    assert log_folders.remove_old(made[-1], 1) == ['attempt-2', 'attempt-3', 'attempt-4']
    assert names(tmp_path) == ['attempt-1', 'attempt-5'] and len(names(made[0])) == 8


def test_the_newest_are_kept(made, tmp_path):
    assert log_folders.remove_old(made[-1], 2) == ['attempt-1', 'attempt-2', 'attempt-3']
    assert names(tmp_path) == ['attempt-4', 'attempt-5']
    assert len(names(made[-1])) == 9
    assert log_folders.remove_old(made[-1], 2) == []


@pytest.mark.parametrize('keep', [0, 5, 99])
def test_all_are_kept(made, tmp_path, keep):
    assert log_folders.remove_old(made[-1], keep) == []
    assert len(names(tmp_path)) == 5


def test_what_is_not_ours_stays(made, tmp_path):
    """A note, a folder, a link under one of our names, a link in place of an attempt, a file of the name of one."""
    outside = tmp_path / 'outside'
    outside.mkdir()
    (outside / 'worker-0.err').write_text('theirs')
    (made[0] / 'notes.txt').write_text('mine')
    (made[1] / 'worker-9.out').symlink_to(outside / 'worker-0.err')
    (made[1] / 'worker-8.err').mkdir()
    for path in made[2].iterdir():
        path.unlink()
    made[2].rmdir()
    made[2].symlink_to(outside)
    (tmp_path / 'attempt-0').write_text('mine')
    log_folders.remove_old(made[-1], 1)
    assert names(made[0]) == ['.estimator_trainer', 'notes.txt']
    assert names(made[1]) == ['.estimator_trainer', 'worker-8.err', 'worker-9.out']
    assert made[2].is_symlink() and (outside / 'worker-0.err').read_text() == 'theirs'
    assert names(tmp_path) == [f'attempt-{number}' for number in (0, 1, 2, 3, 5)] + ['outside']


def test_the_folder_of_a_living_supervisor_stays(made):
    """Of another process: until that one is dead, however it dies."""
    program = f"""
import pathlib, sys
from estimator_trainer.run_dir import log_folders
with log_folders.in_use(pathlib.Path({str(made[0])!r})):
    print(flush=True)
    sys.stdin.read()
"""
    with subprocess.Popen(
        [sys.executable, '-c', program],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, 'PYTHONPATH': os.getcwd()},
    ) as other:
        assert other.stdout.readline() == b'\n'
        assert log_folders.remove_old(made[-1], 1) == ['attempt-2', 'attempt-3', 'attempt-4']
        assert len(names(made[0])) == 9
        other.send_signal(signal.SIGKILL)
    assert log_folders.remove_old(made[-1], 1) == ['attempt-1']


def test_a_folder_that_cannot_be_locked_is_used_all_the_same(tmp_path):
    with log_folders.in_use(tmp_path / 'no_such'):
        pass
    (tmp_path / '.lock').symlink_to(tmp_path / 'elsewhere')
    with log_folders.in_use(tmp_path):
        assert not (tmp_path / 'elsewhere').exists()


def test_the_lives_of_a_task_within_an_attempt(made):
    log_folders.remove_life(made[0], 'evaluator:0', 2)
    log_folders.remove_life(made[0], 'worker:0', 1)
    assert names(made[0]) == ['.estimator_trainer', '.lock', 'worker-1.error.json.123.tmp']


def test_files_of_a_task(tmp_path):
    assert log_folders.path_of(tmp_path, 'worker:1', 'err') == tmp_path / 'worker-1.err'
    assert log_folders.path_of(tmp_path, 'evaluator:0', 'err', 2) == tmp_path / 'evaluator-0.2.err'


def test_tail(tmp_path):
    path = tmp_path / 'log'
    path.write_bytes(b''.join(b'%d\n' % i for i in range(100)) + b'\xff')
    assert log_folders.tail(path, 3) == ['98', '99', '\ufffd']
    assert log_folders.tail(tmp_path / 'none') == []


def test_the_tail_goes_over_both_halves(tmp_path):
    path = tmp_path / 'log'
    path.write_bytes(b'3\n4\n')
    log_folders.older_of(path).write_bytes(b'1\n2\n')
    assert log_folders.tail(path, 3) == ['2', '3', '4']
    assert log_folders.tail(path, 2) == ['3', '4']
