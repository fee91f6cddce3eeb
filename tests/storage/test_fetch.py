"""Store -> scratch folder: what others have written below the run, and folders without room; a store in memory."""

import collections
import itertools
import os
import re

import pytest

pytest.importorskip('obstore')

from estimator_trainer.errors import UsageError  # noqa: E402
from estimator_trainer.storage import fetch, names, scratch_state, share  # noqa: E402
from tests.storage.machines import URL, Killed, Machine, Watched  # noqa: E402


@pytest.fixture
def remote():
    return Watched()


def others_write(remote, name, content):
    """Without the lease of this run."""
    found = remote.head(name)
    remote.write(name, content, found and found.version)


def test_what_others_have_written_is_fetched_again(tmp_path, remote):
    remote.write('track/run.json', b'old', None)
    machine = Machine(tmp_path, remote).start()
    machine.push()
    others_write(remote, 'track/run.json', b'new')
    machine.start().push()
    assert remote.contents()['track/run.json'] == 'new' == (machine.run / 'track/run.json').read_text()


def test_what_was_written_here_as_well_is_ours(tmp_path, remote):
    remote.write('track/run.json', b'old', None)
    machine = Machine(tmp_path, remote).start()
    others_write(remote, 'track/run.json', b'new')
    machine.write('track/run.json', 'mine')
    machine.start().push()
    assert remote.contents()['track/run.json'] == 'mine'


@pytest.mark.parametrize('at', range(3))
def test_a_kill_between_learning_of_it_and_fetching_it_changes_nothing(tmp_path, remote, monkeypatch, at):
    written = [f'track/{number}.json' for number in range(3)]
    for name in written:
        remote.write(name, b'old', None)
    machine = Machine(tmp_path, remote).start()
    for name in written:
        others_write(remote, name, b'new')
    chunks, count = remote.chunks, itertools.count()

    def killed(name):
        if next(count) == at:
            raise Killed
        return chunks(name)

    monkeypatch.setattr(remote, 'chunks', killed)
    with pytest.raises(Killed):
        fetch.fetch(
            remote, str(machine.run), scratch_state.ScratchState(machine.scratch, URL), share.Share(), continues=True
        )
    monkeypatch.setattr(remote, 'chunks', chunks)
    machine.start().push()
    assert {name: remote.contents()[name] for name in written} == dict.fromkeys(written, 'new')


def test_a_checkpoint_here_is_better_than_one_that_a_frozen_trainer_has_written_late(tmp_path, remote):
    machine = Machine(tmp_path, remote).start()
    machine.save(10, 'good')
    machine.push()
    others_write(remote, 'model.ckpt-10.data-00000-of-00001', b'late')
    machine.start().push()
    data = [text for name, text in remote.contents().items() if '.data-' in name]
    assert 'late' not in data and 'good' in data


def test_a_checkpoint_that_was_never_sent_is_kept_aside_where_somebody_else_has_trained(tmp_path, remote, caplog):
    one, two = Machine(tmp_path / 'one', remote), Machine(tmp_path / 'two', remote)
    one.start().save(10, 'ten')
    one.push()
    one.save(20, 'unsent')
    one.lease.release()
    two.start().save(30, 'thirty')
    two.push()
    two.lease.release()
    one.start()
    (aside,) = (tmp_path / 'one').glob('run.unsent-*')
    assert (aside / 'model.ckpt-20.data-00000-of-00001').read_text() == 'unsent'
    assert 'does not have model.ckpt-20, which this machine has; it is kept in' in caplog.text
    assert (one.run / 'model.ckpt-30.index').exists() and not (one.run / 'model.ckpt-20.index').exists()
    one.save(40, 'forty')  # and what was sent and thinned out since is nothing to keep
    one.push()
    one.lease.release()
    two.start()
    for step in (50, 60, 70, 80):
        two.save(step, str(step))
        two.push()
    two.lease.release()
    one.start()
    assert list((tmp_path / 'one').glob('run.unsent-*')) == [aside]


def test_what_was_sent_is_kept_aside_where_the_store_was_emptied(tmp_path, remote):
    machine = Machine(tmp_path, remote).start()
    machine.save(10, 'ten')
    machine.push()
    for name in [*remote.contents(), names.LEASE]:
        remote.delete(name)
    machine.start()
    (aside,) = tmp_path.glob('run.unsent-*')
    assert (aside / 'model.ckpt-10.index').exists() and not (machine.run / 'model.ckpt-10.index').exists()


def test_a_run_below_is_left_alone(tmp_path, remote):
    remote.write('finetune/model.ckpt-1.index', b'old', None)
    remote.write('finetune/config.json', b'old', None)
    machine = Machine(tmp_path, remote).start()
    (machine.run / 'finetune' / 'config.json').write_text('mine')
    remote.write(f'finetune/{names.LEASE}', b'{}', None)  # another run begins there
    others_write(remote, 'finetune/config.json', b'new')
    remote.write('finetune/metrics.jsonl', b'new', None)
    expected = remote.contents()
    machine.start().push()
    assert remote.contents() == expected
    (machine.run / 'finetune' / 'config.json').unlink()
    (machine.run / 'finetune' / 'model.ckpt-1.index').unlink()
    machine.push()
    machine.start().push()
    assert remote.contents() == expected


def test_a_run_below_is_not_fetched(tmp_path, remote):
    for name in ('config.json', f'a/b/{names.LEASE}', 'a/b/config.json', 'a/c.txt'):
        remote.write(name, b'content', None)
    machine = Machine(tmp_path, remote).start()
    assert {str(path.relative_to(machine.run)) for path in machine.run.rglob('*.*')} == {'config.json', 'a/c.txt'}


def test_a_folder_without_room_is_one_error(tmp_path, remote, monkeypatch):
    remote.write('notes.txt', b'x' * 2_000_000, None)
    usage = collections.namedtuple('usage', 'free')
    monkeypatch.setattr(fetch.shutil, 'disk_usage', lambda folder: usage(1_000_000))
    with pytest.raises(UsageError, match=rf'--scratch_dir={re.escape(str(tmp_path))}: 2.0 MB of .* room for 1.0 MB'):
        Machine(tmp_path, remote).start()
    assert not os.listdir(tmp_path / 'run')


def test_what_is_replaced_counts_as_room(tmp_path, remote, monkeypatch):
    def disk_usage(folder):
        return usage(3_000 - sum(path.stat().st_size for path in (tmp_path / 'run').rglob('*.txt')))

    usage = collections.namedtuple('usage', 'free')
    monkeypatch.setattr(fetch.shutil, 'disk_usage', disk_usage)
    remote.write('notes.txt', b'x' * 2_000, None)
    machine = Machine(tmp_path, remote).start()
    others_write(remote, 'notes.txt', b'y' * 2_000)
    fetch.fetch(remote, str(machine.run), machine.state, share.Share(), continues=False)
    assert (machine.run / 'notes.txt').read_bytes() == b'y' * 2_000


def test_a_disk_that_fills_up_meanwhile_keeps_nothing_unfinished(tmp_path, remote, monkeypatch):
    remote.write('notes.txt', b'content', None)

    def full(name):
        yield b'con'
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(remote, 'chunks', full)
    with pytest.raises(OSError, match='No space left'):
        Machine(tmp_path, remote).start()
    assert not os.listdir(tmp_path / 'run')


def test_what_a_killed_start_was_fetching_is_removed(tmp_path, remote):
    machine = Machine(tmp_path, remote).start()
    for name in ('track/run.json.4711.tmp', 'job.tmp', 'kept.txt'):
        (machine.run / name).parent.mkdir(exist_ok=True)
        (machine.run / name).write_text('part')
    machine.start()
    assert {path.name for path in machine.run.rglob('*.*')} == {'job.tmp', 'kept.txt'}


@pytest.mark.parametrize('text', [None, 'damaged'])
@pytest.mark.parametrize('unsent', [False, True])
def test_a_newest_checkpoint_that_was_damaged_here_is_fetched(tmp_path, remote, caplog, text, unsent):
    machine = Machine(tmp_path, remote).start()
    for step in (10, 20):
        machine.save(step, f'step {step}')
        machine.push()
    if unsent:
        machine.save(30, 'step 30')
    expected = remote.contents()
    for path in machine.run.glob('model.ckpt-*.data-*'):
        path.unlink() if text is None else path.write_text(text)
    machine.start()
    assert (machine.run / 'model.ckpt-20.data-00000-of-00001').read_text() == 'step 20'
    assert 'is damaged or not whole: fetches model.ckpt-20' in caplog.text
    machine.save(20, 'step 20')  # the trainer goes on from it
    machine.push()
    assert remote.contents().items() >= {name: text for name, text in expected.items() if '-20.' in name}.items()


def test_a_checkpoint_that_was_thinned_out_here_is_not_fetched(tmp_path, remote):
    machine = Machine(tmp_path, remote).start()
    machine.save(10, 'ten')
    machine.push()
    machine.save(20, 'unsent')
    for path in machine.run.glob('model.ckpt-10.*'):
        path.unlink()
    assert not list(machine.start().run.glob('model.ckpt-10.*'))
