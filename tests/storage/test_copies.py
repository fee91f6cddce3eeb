"""Copies of a run in a store in memory, which changes while it is fetched."""

import itertools
import json
import os
import shutil
import threading
import time
from unittest import mock

import pytest

pytest.importorskip('obstore')

from estimator_trainer.errors import UsageError  # noqa: E402
from estimator_trainer.run_dir import locks, metrics_log  # noqa: E402
from estimator_trainer.storage import copies, needs, store  # noqa: E402
from tests.storage.memory_store import MemoryStore  # noqa: E402


def put(remote, contents):
    """Another machine writes objects: name -> text."""
    for name, content in contents.items():
        remote.put(name, content)


def save(remote, step, text='x'):
    """Another machine saves a checkpoint."""
    for part in ('data-00000-of-00001', 'index'):
        remote.put(f'model.ckpt-{step}.{part}', f'{text}{step}')
    remote.put('checkpoint', f'model_checkpoint_path: "model.ckpt-{step}"\n')


def remove(remote, step):
    remote.remove(f'model.ckpt-{step}.index', f'model.ckpt-{step}.data-00000-of-00001')


def before_open(remote, name, change):
    """Calls change() once, before an object is opened for the first time."""
    once = iter([True])
    remote.fault = lambda *moment: moment == ('open', name, False) and next(once, False) and change()


@pytest.fixture
def remote():
    return MemoryStore()


@pytest.fixture
def copy(remote, tmp_path):
    def make(need):
        made = copies.Copy(remote, str(tmp_path), need, lambda text: None)
        made.refresh()
        stack.append(made)
        return made

    stack = []
    yield make
    for made in stack:
        made.close()


def contents(folder):
    return {path.name: path.read_text() for path in sorted(folder.iterdir())}


def test_what_is_not_needed_is_a_hole_or_not_there(remote, copy, tmp_path):
    save(remote, 3)
    lines = ''.join(json.dumps({'step': step}) + '\n' for step in range(20_000))
    put(remote, {'metrics.jsonl': lines, 'config.json': '{}', 'logs/a': 'log', 'events.out.tfevents.1.vm': 'events'})
    copy(needs.of_status)
    assert sorted(os.listdir(tmp_path)) == ['checkpoint', 'config.json', 'metrics.jsonl']
    assert (tmp_path / 'metrics.jsonl').stat().st_size == len(lines)
    assert metrics_log.tail(str(tmp_path / 'metrics.jsonl'))[-1] == {'step': 19_999}
    copies.Copy(remote, str(tmp_path), needs.of_report, print).refresh()
    assert (tmp_path / 'metrics.jsonl').read_text() == lines
    assert (tmp_path / 'events.out.tfevents.1.vm').read_bytes() == bytes(6)
    assert (tmp_path / 'model.ckpt-3.data-00000-of-00001').read_bytes() == bytes(2)
    assert (tmp_path / 'model.ckpt-3.index').read_text() == 'x3'
    assert abs((tmp_path / 'model.ckpt-3.index').stat().st_mtime - time.time()) < 600


@pytest.mark.parametrize('size', [30_000, 100_000, 300_000])
def test_a_line_that_is_longer_than_what_is_fetched_is_fetched_whole(remote, copy, tmp_path, size):
    lines = [{'step': step, 'of_classes': 'x' * size} for step in range(5)]
    put(remote, {'eval/metrics.jsonl': ''.join(json.dumps(line) + '\n' for line in lines)})
    copy(needs.of_status)
    tail = metrics_log.tail(str(tmp_path / 'eval' / 'metrics.jsonl'))
    assert tail and tail == lines[-len(tail) :]


def test_a_file_without_a_line_is_fetched_once_more_and_no_further_than_its_beginning(remote, copy):
    put(remote, {'metrics.jsonl': 'x' * (metrics_log.TAIL_BYTES + 100)})
    copy(needs.of_status)
    assert remote.called('open') == ['metrics.jsonl'] * 2


@pytest.mark.parametrize('part', ['index', 'data-00000-of-00001'])
def test_a_checkpoint_that_goes_meanwhile_is_replaced_by_the_newer_one(remote, copy, tmp_path, part):
    save(remote, 1)

    def change():
        save(remote, 2)
        remove(remote, 1)

    before_open(remote, f'model.ckpt-1.{part}', change)
    copy(needs.of_newest_checkpoint)
    assert contents(tmp_path) == {
        'checkpoint': 'model_checkpoint_path: "model.ckpt-2"\n',
        'model.ckpt-2.data-00000-of-00001': 'x2',
        'model.ckpt-2.index': 'x2',
    }


def test_what_comes_of_a_checkpoint_that_has_gone_is_removed(remote, copy, tmp_path, monkeypatch):
    save(remote, 1)
    gone, index = threading.Event(), remote.open('model.ckpt-1.index')

    def change():
        save(remote, 2)
        remove(remote, 1)
        gone.set()

    def late():
        assert gone.wait(20)
        yield from index[1]

    def open_object(name, part=None):
        if name == 'model.ckpt-1.index':
            return index[0], late()
        if name.startswith('model.ckpt-1.'):
            change()
        return store.Store.open(remote, name, part)

    monkeypatch.setattr(remote, 'open', open_object)
    copy(needs.of_newest_checkpoint)
    assert set(contents(tmp_path)) == {'checkpoint', 'model.ckpt-2.data-00000-of-00001', 'model.ckpt-2.index'}


def test_a_checkpoint_that_is_saved_again_is_of_one_save(remote, copy, tmp_path):
    save(remote, 1)
    before_open(remote, 'model.ckpt-1.data-00000-of-00001', lambda: save(remote, 1, 'again'))
    copy(needs.of_newest_checkpoint)
    assert set(contents(tmp_path).values()) == {'model_checkpoint_path: "model.ckpt-1"\n', 'again1'}


def test_a_file_that_changes_while_it_is_fetched_is_fetched_anew(remote, copy, tmp_path, monkeypatch):
    put(remote, {'config.json': 'old and long'})

    def open_object(name, part=None):
        monkeypatch.undo()
        return remote.open(name, part)[0], begun()

    def begun():
        yield b'old'
        put(remote, {'config.json': 'new'})
        raise store.ObjectChanged('config.json')

    monkeypatch.setattr(remote, 'open', open_object)
    copy(needs.of_status)
    assert contents(tmp_path) == {'config.json': 'new'}


def test_what_changes_for_ever_is_given_up(remote, copy):
    save(remote, 0)
    steps = itertools.count(1)

    def change():
        step = next(steps)
        save(remote, step)
        remove(remote, step - 1)
        before_open(remote, f'model.ckpt-{step}.index', change)

    before_open(remote, 'model.ckpt-0.index', change)
    with pytest.raises(store.StoreUnavailable, match='always gone'):
        copy(needs.of_newest_checkpoint)


def test_a_refresh_fetches_what_has_changed(remote, copy, tmp_path):
    put(remote, {'config.json': '{}', 'training.json': 'old', 'status.json': 'gone'})
    made = copy(needs.of_status)
    remote.calls.clear()
    put(remote, {'training.json': 'new'})
    remote.delete('status.json')
    made.refresh()
    assert remote.called('open') == ['training.json']
    assert contents(tmp_path) == {'config.json': '{}', 'training.json': 'new'}


@pytest.mark.parametrize(
    'lease, status, held',
    [
        ({'span_secs': 30}, {}, [True, False]),
        ({'span_secs': 30}, {'state': 'training', 'time': 100}, [True, True]),
        ({'span_secs': 30}, {'state': 'training', 'time': 20}, [True, False]),  # of a supervisor before
        ({'span_secs': 30}, {'state': 'done', 'time': 100}, [True, False]),
        ({'span_secs': 30, 'released': True}, {}, [False, False]),
        ({'span_secs': -1}, {}, [False, False]),  # as old as that
    ],
)
def test_the_lease_of_a_run_holds_its_locks(remote, copy, tmp_path, lease, status, held):
    put(
        remote,
        {'.trainer.lease': json.dumps(lease), 'status.json': json.dumps(status), 'training.json': '{"time": 100}'},
    )
    made = copy(needs.of_status)
    paths = [tmp_path / '.trainer.lock', tmp_path / '.cluster.lock']
    assert [locks.is_held(path) for path in paths] == held
    remote.delete('.trainer.lease')
    made.refresh()
    assert not any(map(locks.is_held, paths))


def test_what_a_tool_writes_is_sent_on_the_condition_that_it_is_the_only_one(remote, copy, tmp_path):
    put(remote, {'config.json': '{}', 'track/a.json': 'old'})
    made = copy(needs.of_tracking)
    remote.calls.clear()
    (tmp_path / 'track' / 'a.json').write_text('new')
    (tmp_path / 'track' / '.a.lock').write_text('1')
    (tmp_path / 'track' / 'b.json').write_text('b')
    made.send_changes()
    made.send_changes()
    assert sorted(remote.list()) == ['config.json', 'track/a.json', 'track/b.json']
    assert remote.read('track/a.json')[0] == b'new'
    made.refresh()
    assert not remote.called('open')
    put(remote, {'track/a.json': 'of another'})
    (tmp_path / 'track' / 'a.json').write_text('newer')
    with pytest.raises(store.Conflict):
        made.send_changes()


def test_too_little_room_is_said_before_anything_is_fetched(remote, copy, monkeypatch):
    save(remote, 1)
    monkeypatch.setattr(shutil, 'disk_usage', lambda folder: mock.Mock(free=3))
    with pytest.raises(UsageError, match='set TMPDIR'):
        copy(needs.of_newest_checkpoint)
    assert not remote.called('open')
