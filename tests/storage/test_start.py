"""The start of a run in a store, up to its child, with a store in memory: what ends it at any moment loses nothing."""

import errno
import fcntl
import itertools
import json
import os
import signal
import threading

import pytest

pytest.importorskip('obstore')

from estimator_trainer import exit_codes  # noqa: E402
from estimator_trainer.config import trainer_config  # noqa: E402
from estimator_trainer.run_dir import locks, protocol  # noqa: E402
from estimator_trainer.storage import child, connection, lease, names, scratch_state, share, signals, store, stored_run  # noqa: E402
from tests.storage.memory_store import URL, MemoryStore  # noqa: E402

SAVE = scratch_state.ScratchState.save


class Killed(BaseException):
    """The process is gone."""


def lease_of(remote):
    return json.loads(remote.read(names.LEASE)[0])


@pytest.fixture
def remote(monkeypatch):
    made = MemoryStore()
    monkeypatch.setattr(connection, 'connect', lambda url, environ: made)
    monkeypatch.setattr(child, 'run', lambda *args: exit_codes.OK)
    monkeypatch.setattr(signals, 'LEAVE_SECS', 0)
    return made


def start(scratch):
    given = trainer_config.parse(['trainer', f'--model_dir={URL}', '--epochs=1', f'--scratch_dir={scratch}'])
    return stored_run.run([], given, {})


def begun(scratch, remote):
    """A run whose last file was not sent."""
    remote.fault = lambda operation, name, is_done: None
    remote.remove(*remote.list())
    remote.put('notes.txt', b'sent')
    assert start(scratch) == exit_codes.OK
    (scratch / 'run' / 'unsent.txt').write_text('hours of work')


def somebody_else_trains(remote):
    other = lease.Lease(remote, 30, share.Share())
    other.acquire(lease_of(remote)['token'])
    remote.put('notes.txt', b'of another machine')
    other.release()


def kills(monkeypatch, remote, at):
    """The process is killed at moment number `at` of the next start, which may never come. Its moments are before and
    after each operation of the store, and each time that it has written what it knows."""
    moments = itertools.count()

    def moment():
        if next(moments) == at:
            raise Killed

    def save(self):
        moment()
        SAVE(self)
        moment()

    remote.fault = lambda operation, name, is_done: operation in ('list', 'read', 'write') and moment()
    monkeypatch.setattr(scratch_state.ScratchState, 'save', save)


@pytest.mark.parametrize('of_another', [False, True])
def test_a_start_that_is_killed_at_any_moment_loses_nothing(tmp_path, monkeypatch, remote, of_another):
    monkeypatch.setattr(child, 'give_back', lambda mine: None)  # a process that is killed does not
    monkeypatch.setattr(lease.Lease, 'wait', lambda *args: pytest.fail('waits for itself'))
    for first in itertools.count():
        for second in itertools.count(first % 5, 5):  # all of them for each five
            scratch = tmp_path / f'{first}-{second}'
            begun(scratch, remote)
            if of_another:
                somebody_else_trains(remote)
            codes = []
            for at in (first, second):
                kills(monkeypatch, remote, at)
                try:
                    codes.append(start(scratch))
                except Killed:
                    codes.append(None)
            kills(monkeypatch, remote, at=-1)
            assert start(scratch) == exit_codes.OK
            found = {path.name: path.read_text() for path in (scratch / 'run').iterdir()}
            expected = {'notes.txt': 'sent', 'unsent.txt': 'hours of work'}
            assert found == ({'notes.txt': 'of another machine'} if of_another else expected), (first, second)
            if codes[1] == exit_codes.OK:
                break
        if codes[0] == exit_codes.OK:
            break
    assert first > 10


def test_a_lease_that_the_store_writes_late_is_still_ours(tmp_path):
    known = scratch_state.ScratchState(str(tmp_path), URL)
    known.hold('first')
    for token in ('second', 'third'):  # to neither of which an answer came
        scratch_state.ScratchState(str(tmp_path), URL).claim(token, 'first')
    scratch_state.ScratchState(str(tmp_path), URL).claim('fourth', 'of another')
    found = scratch_state.ScratchState(str(tmp_path), URL)
    assert [found.continues(each) for each in ('first', 'second', 'third', 'fourth', None)] == [
        *[True] * 3,
        False,
        False,
    ]
    found.hold('third')
    assert scratch_state.ScratchState(str(tmp_path), URL).tokens == ['third']


@pytest.mark.parametrize('boot, ended', [('this', ['token']), ('', ['token']), ('another', [])])
def test_only_on_the_same_machine_it_is_known_that_a_process_has_ended(tmp_path, monkeypatch, boot, ended):
    """Two machines that share a scratch folder by a network file system may both have its lock."""
    monkeypatch.setattr(locks, 'boot_id', lambda: 'this')
    known = scratch_state.ScratchState(str(tmp_path), URL)
    known.boot = boot
    known.hold('token')
    found = scratch_state.ScratchState(str(tmp_path), URL)
    assert (found.ended, found.tokens) == (ended, ['token'])


def ends(kind):
    def ends():
        if kind == 'away':
            raise store.StoreUnavailable('no answer')
        if kind == 'refused':
            raise store.StoreRefused('no permission')
        os.kill(os.getpid(), kind)
        threading.Event().wait()  # the store hangs

    return ends


ENDS = [
    ('away', exit_codes.FILES_AWAY),
    ('refused', exit_codes.CANNOT_WRITE),
    (signal.SIGTERM, exit_codes.TERMINATED),
    (signal.SIGHUP, exit_codes.TERMINATED),
    (signal.SIGINT, exit_codes.INTERRUPTED),
]


@pytest.mark.parametrize('kind, code', ENDS)
def test_what_ends_the_start_gives_the_lease_back(tmp_path, remote, kind, code):
    remote.fault = lambda operation, name, is_done: operation == 'list' and ends(kind)()
    assert start(tmp_path) == code
    assert lease_of(remote)['released']


@pytest.mark.parametrize('kind, code', ENDS)
def test_a_lease_whose_answer_has_not_come_is_given_back(tmp_path, remote, kind, code):
    once = iter([True])
    remote.fault = lambda *moment: moment == ('write', names.LEASE, True) and next(once, False) and ends(kind)()
    assert start(tmp_path) == code
    assert lease_of(remote)['released']


def test_a_signal_ends_the_wait_for_another_trainer_and_leaves_its_lease(tmp_path, remote, monkeypatch):
    lease.Lease(remote, 600, share.Share()).acquire()
    before = lease_of(remote)
    monkeypatch.setattr(lease.Lease, 'wait', lambda *args: ends(signal.SIGTERM)())
    assert start(tmp_path) == exit_codes.TERMINATED
    assert lease_of(remote) == before


def test_a_store_that_hangs_at_once_does_not_hold_up_a_signal(tmp_path, remote, monkeypatch):
    monkeypatch.setattr(connection, 'connect', lambda url, environ: ends(signal.SIGINT)())
    assert start(tmp_path) == exit_codes.INTERRUPTED
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_folder_stays_held_while_something_that_was_given_up_may_write_there(tmp_path, remote):
    remote.fault = lambda operation, name, is_done: operation == 'list' and ends(signal.SIGTERM)()
    assert start(tmp_path) == exit_codes.TERMINATED
    with open(tmp_path / '.lock', 'rb') as file, pytest.raises(BlockingIOError):
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_folder_that_cannot_be_written_is_named(tmp_path, remote, monkeypatch, capsys):
    def full(*args):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(stored_run.fetch, 'fetch', full)
    assert start(tmp_path) == exit_codes.CANNOT_WRITE
    assert f'--scratch_dir={tmp_path}: [Errno 28] No space left on device' in capsys.readouterr().err
    assert lease_of(remote)['released']


def test_a_folder_that_may_come_back_and_one_that_another_machine_has(tmp_path, remote, monkeypatch, capsys):
    def away(*args):
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr(stored_run.fetch, 'fetch', away)
    assert start(tmp_path) == exit_codes.FILES_AWAY

    def taken(*args, **kwargs):
        raise stored_run.ownership.TakenElsewhere(f'{URL}: process 7 on node-2 trains there')

    monkeypatch.setattr(stored_run.ownership, 'take', taken)
    assert start(tmp_path) == exit_codes.MODEL_DIR_TAKEN
    assert 'process 7 on node-2 trains there' in capsys.readouterr().err


def test_a_sent_json_that_the_machine_has_torn_is_named(tmp_path, remote, capsys):
    (tmp_path / 'mine' / 'run').mkdir(parents=True)
    (tmp_path / 'mine' / 'run' / 'config.json').write_text('{}')
    (tmp_path / 'mine' / 'sent.json').write_bytes(b'\0\0')
    assert start(tmp_path / 'mine') == exit_codes.USAGE
    assert 'sent.json is damaged' in capsys.readouterr().err
    assert (tmp_path / 'mine' / 'sent.json').exists()


@pytest.mark.parametrize('number', [errno.EIO, errno.ESTALE, errno.EACCES])
def test_a_sent_json_that_cannot_be_read_now_is_not_damaged(tmp_path, remote, monkeypatch, capsys, number):
    begun(tmp_path, remote)

    def fails(path):
        raise OSError(number, os.strerror(number), path)

    with monkeypatch.context() as patched:
        patched.setattr(protocol, 'read_object', fails)
        assert start(tmp_path) not in (exit_codes.OK, exit_codes.USAGE)
    said = capsys.readouterr().err
    assert os.strerror(number) in said and 'damaged' not in said
    assert start(tmp_path) == exit_codes.OK and (tmp_path / 'run' / 'unsent.txt').read_text() == 'hours of work'


@pytest.mark.parametrize('name', ['run/thesis.tex', 'sending/words.index', 'sending/deep/file', 'sent.json', 'run'])
def test_files_of_others_in_the_folder_stay(tmp_path, remote, name, capsys):
    mine = tmp_path / 'mine' / name
    mine.parent.mkdir(parents=True)
    mine.write_text('{"letters": 2}')
    assert start(tmp_path / 'mine') in (exit_codes.USAGE, exit_codes.CANNOT_WRITE)
    assert mine.read_text() == '{"letters": 2}' and f'--scratch_dir={tmp_path}/mine' in capsys.readouterr().err
