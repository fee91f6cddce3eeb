"""Copies of a run in a store in memory, which changes while it is fetched."""

import itertools
import json
import os
import shutil
import threading
import time
from unittest import mock

import pytest

obstore = pytest.importorskip('obstore')

from estimator_trainer.errors import UsageError  # noqa: E402
from estimator_trainer.run_dir import locks, metrics_log  # noqa: E402
from estimator_trainer.storage import copies, needs, store  # noqa: E402

URL = 's3://bucket/run'


class Changing(store.Store):
    """A store in memory. Before the object `at` is opened for the first time, `change` is called."""

    def __init__(self):
        super().__init__(obstore.store.MemoryStore(), URL)
        self.at, self.change, self.opened = '', lambda: None, []

    def open(self, name, part=None):
        if name == self.at:
            self.at = ''
            self.change()
        self.opened.append(name)
        return super().open(name, part)

    def put(self, **contents):
        for name, content in contents.items():
            obstore.put(self._objects, name.replace('__', '/'), content.encode())

    def save(self, step, text='x'):
        for part in ('data-00000-of-00001', 'index'):
            obstore.put(self._objects, f'model.ckpt-{step}.{part}', f'{text}{step}'.encode())
        obstore.put(self._objects, 'checkpoint', f'model_checkpoint_path: "model.ckpt-{step}"\n'.encode())

    def remove(self, step):
        for part in ('index', 'data-00000-of-00001'):
            self.delete(f'model.ckpt-{step}.{part}')


@pytest.fixture
def remote():
    return Changing()


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
    remote.save(3)
    lines = ''.join(json.dumps({'step': step}) + '\n' for step in range(20_000))
    remote.put(**{'metrics.jsonl': lines, 'config.json': '{}', 'logs__a': 'log', 'events.out.tfevents.1.vm': 'events'})
    copy(needs.of_status)
    assert sorted(os.listdir(tmp_path)) == ['config.json', 'metrics.jsonl']
    assert (tmp_path / 'metrics.jsonl').stat().st_size == len(lines)
    assert metrics_log.tail(str(tmp_path / 'metrics.jsonl'))[-1] == {'step': 19_999}
    copies.Copy(remote, str(tmp_path), needs.of_report, print).refresh()
    assert (tmp_path / 'metrics.jsonl').read_text() == lines
    assert (tmp_path / 'events.out.tfevents.1.vm').read_bytes() == bytes(6)
    assert (tmp_path / 'model.ckpt-3.data-00000-of-00001').read_bytes() == bytes(2)
    assert (tmp_path / 'model.ckpt-3.index').read_text() == 'x3'
    assert abs((tmp_path / 'model.ckpt-3.index').stat().st_mtime - time.time()) < 600


@pytest.mark.parametrize('part', ['index', 'data-00000-of-00001'])
def test_a_checkpoint_that_goes_meanwhile_is_replaced_by_the_newer_one(remote, copy, tmp_path, part):
    remote.save(1)

    def change():
        remote.save(2)
        remote.remove(1)

    remote.at, remote.change = f'model.ckpt-1.{part}', change
    copy(needs.of_newest_checkpoint)
    assert contents(tmp_path) == {
        'checkpoint': 'model_checkpoint_path: "model.ckpt-2"\n',
        'model.ckpt-2.data-00000-of-00001': 'x2',
        'model.ckpt-2.index': 'x2',
    }


def test_what_comes_of_a_checkpoint_that_has_gone_is_removed(remote, copy, tmp_path, monkeypatch):
    remote.save(1)
    gone, index = threading.Event(), remote.open('model.ckpt-1.index')

    def change():
        remote.save(2)
        remote.remove(1)
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
    remote.save(1)
    remote.at, remote.change = 'model.ckpt-1.data-00000-of-00001', lambda: remote.save(1, 'again')
    copy(needs.of_newest_checkpoint)
    assert set(contents(tmp_path).values()) == {'model_checkpoint_path: "model.ckpt-1"\n', 'again1'}


def test_a_file_that_changes_while_it_is_fetched_is_fetched_anew(remote, copy, tmp_path, monkeypatch):
    remote.put(**{'config.json': 'old and long'})

    def open_object(name, part=None):
        monkeypatch.undo()
        return remote.open(name, part)[0], begun()

    def begun():
        yield b'old'
        remote.put(**{'config.json': 'new'})
        raise store.ObjectChanged('config.json')

    monkeypatch.setattr(remote, 'open', open_object)
    copy(needs.of_status)
    assert contents(tmp_path) == {'config.json': 'new'}


def test_what_changes_for_ever_is_given_up(remote, copy):
    remote.save(0)
    steps = itertools.count(1)

    def change():
        step = next(steps)
        remote.save(step)
        remote.remove(step - 1)
        remote.at = f'model.ckpt-{step}.index'

    remote.at, remote.change = 'model.ckpt-0.index', change
    with pytest.raises(store.StoreUnavailable, match='always gone'):
        copy(needs.of_newest_checkpoint)


def test_a_refresh_fetches_what_has_changed(remote, copy, tmp_path):
    remote.put(**{'config.json': '{}', 'training.json': 'old', 'status.json': 'gone'})
    made = copy(needs.of_status)
    remote.opened.clear()
    remote.put(**{'training.json': 'new'})
    remote.delete('status.json')
    made.refresh()
    assert remote.opened == ['training.json']
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
    remote.put(
        **{'.trainer.lease': json.dumps(lease), 'status.json': json.dumps(status), 'training.json': '{"time": 100}'}
    )
    made = copy(needs.of_status)
    paths = [tmp_path / '.trainer.lock', tmp_path / '.cluster.lock']
    assert [locks.is_held(path) for path in paths] == held
    remote.delete('.trainer.lease')
    made.refresh()
    assert not any(map(locks.is_held, paths))


def test_what_a_tool_writes_is_sent_on_the_condition_that_it_is_the_only_one(remote, copy, tmp_path):
    remote.put(**{'config.json': '{}', 'track__a.json': 'old'})
    made = copy(needs.of_tracking)
    remote.opened.clear()
    (tmp_path / 'track' / 'a.json').write_text('new')
    (tmp_path / 'track' / '.a.lock').write_text('1')
    (tmp_path / 'track' / 'b.json').write_text('b')
    made.send_changes()
    made.send_changes()
    assert sorted(remote.list()) == ['config.json', 'track/a.json', 'track/b.json']
    assert remote.read('track/a.json')[0] == b'new'
    made.refresh()
    assert not remote.opened
    remote.put(**{'track__a.json': 'of another'})
    (tmp_path / 'track' / 'a.json').write_text('newer')
    with pytest.raises(store.Conflict):
        made.send_changes()


def test_too_little_room_is_said_before_anything_is_fetched(remote, copy, monkeypatch):
    remote.save(1)
    monkeypatch.setattr(shutil, 'disk_usage', lambda folder: mock.Mock(free=3))
    with pytest.raises(UsageError, match='set TMPDIR'):
        copy(needs.of_newest_checkpoint)
    assert not remote.opened
