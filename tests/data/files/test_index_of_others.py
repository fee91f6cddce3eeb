"""data.files.index beside files of the user that have names like an index: they stay as they are."""

import os
import time

import numpy as np
import pytest

from estimator_trainer.data.files import index

ROWS = b'a\n1\n2\n'


@pytest.fixture
def path(tmp_path):
    path = tmp_path / 'data' / 'x.csv'
    path.parent.mkdir()
    path.write_bytes(ROWS)
    return str(path)


def load(path, folder=None):
    (starts,) = index.load_all([path], 'csv', True, folder)
    return starts.tolist()


def place(path):
    return os.path.join(os.path.dirname(path), '.x.csv.index')


def npz(path, **arrays):
    with open(path, 'wb') as file:
        np.savez_compressed(file, **arrays)


FOREIGN = {
    'notes': lambda path: open(path, 'w').write('my own notes'),
    'an empty file': lambda path: open(path, 'w').close(),
    'other arrays': lambda path: npz(path, words=np.arange(3)),
    'a member of another name': lambda path: npz(path, offsets=np.arange(3)),
    'a folder': os.mkdir,
    'a link that leads nowhere': lambda path: os.symlink('/nowhere', path),
    'a link': lambda path: os.symlink('x.csv', path),
}


def state(path):
    if os.path.islink(path):
        return os.readlink(path)
    return os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read()


@pytest.mark.parametrize('make', FOREIGN.values(), ids=FOREIGN)
def test_a_file_of_the_user_stays_and_the_index_is_kept_in_the_folder_of_the_run(path, tmp_path, monkeypatch, make):
    make(place(path))
    before, folder = state(place(path)), str(tmp_path / 'run' / 'index')
    assert load(path) == [2, 4, 6]  # kept nowhere
    assert load(path, folder) == [2, 4, 6] and len(os.listdir(folder)) == 1
    monkeypatch.setattr(index, 'make', None)
    assert load(path, folder) == [2, 4, 6]
    assert state(place(path)) == before
    assert sorted(os.listdir(os.path.dirname(path))) == ['.x.csv.index', 'x.csv']
    assert open(path, 'rb').read() == ROWS


def test_a_damaged_index_and_one_of_another_file_are_replaced(path):
    load(path)
    whole = open(place(path), 'rb').read()
    with open(place(path), 'wb') as file:
        file.write(whole[:60])
    load(path)
    assert open(place(path), 'rb').read()[:60] == whole[:60] and index.load(path, 'csv', True, None) is not None
    with open(path, 'ab') as file:
        file.write(b'3\n')
    assert load(path) == [2, 4, 6, 8] == index.load(path, 'csv', True, None).tolist()


def test_only_what_a_killed_process_has_left_is_removed_after_a_day(path):
    load(path)
    an_index = open(place(path), 'rb').read()
    os.unlink(place(path))
    left = {'.0123abcd.estimator_trainer': b'', '.4711': an_index, '.89abcdef': an_index[:50]}
    stay = {
        '.20240101': b'a backup',
        '.4712': b'',
        '.bak': an_index,
        '.deadbeef': b'notes',
        '.x.estimator_trainer': b'',
    }
    fresh = {'.0123abce.estimator_trainer': b'', '.4713': an_index}
    for ending, data in {**left, **stay, **fresh}.items():
        with open(place(path) + ending, 'wb') as file:
            file.write(data)
        if ending not in fresh:
            os.utime(place(path) + ending, (0, 0))
    os.symlink('x.csv', place(path) + '.4714')
    os.utime(place(path) + '.4714', (0, 0), follow_symlinks=False)
    load(path)
    there = {name.removeprefix('.x.csv.index') for name in os.listdir(os.path.dirname(path))} - {'x.csv', ''}
    assert there == {*stay, *fresh, '.4714'}


def test_what_a_killed_process_has_left_in_the_folder_of_the_run_is_removed_after_a_day(path, tmp_path):
    folder = tmp_path / 'run' / 'index'
    folder.mkdir(parents=True)
    start = '0123456789abcdef-y.csv.index'
    stay = {start, f'{start}.bak', f'{start}.0123abcd', 'y.csv.index.0123abcd.estimator_trainer'}
    for name in (f'{start}.0123abcd.estimator_trainer', *stay):
        (folder / name).touch()
        os.utime(folder / name, (0, 0))
    fresh = f'{start}.0123abce.estimator_trainer'
    (folder / fresh).touch()
    load(path, str(folder))
    assert set(os.listdir(folder)) == {*stay, fresh}


def test_an_index_that_is_being_written_is_one_that_may_be_removed_later(path, monkeypatch):
    names = []
    monkeypatch.setattr(np, 'savez_compressed', lambda file, **arrays: names.append(file.name))
    index.write(place(path), of=np.arange(2))
    with open(names[0], 'wb'):
        pass
    assert not index._Left().covers(names[0])
    os.utime(names[0], (time.time() - 2 * 86400,) * 2)
    assert index._Left().covers(names[0])
