"""data.remote: what the folder of the cache removes, and what stays in it. The store is in memory."""

import os
import types

import pytest

obstore = pytest.importorskip('obstore')

from estimator_trainer.data.remote import bounded_folder, paths, whole_copies  # noqa: E402
from estimator_trainer.data.remote.cache import Cache, entry_of  # noqa: E402
from estimator_trainer.errors import DatasetError  # noqa: E402
from estimator_trainer.run_dir import removal  # noqa: E402
from tests.data.remote.test_cache import CONTENT, held_bytes, ranges, read  # noqa: E402
from tests.storage import memory_store  # noqa: E402
from tests.storage.memory_store import BUCKET  # noqa: E402


@pytest.fixture
def remote(monkeypatch):
    return memory_store.install(monkeypatch, dict(CONTENT))


@pytest.fixture
def found(remote):
    return paths.expand(f'{BUCKET}/data/part-*', '--train_files')


def test_a_disk_without_room_is_named(remote, found, tmp_path, monkeypatch):
    monkeypatch.setattr(whole_copies.shutil, 'disk_usage', lambda folder: types.SimpleNamespace(free=10))
    with pytest.raises(DatasetError, match='0 MB are free; lower --data_cache_mib, or name another folder'):
        whole_copies.copies(found, Cache(str(tmp_path), 10**6))


def disk_of(monkeypatch, cache, size):
    """A disk of so many bytes, of which nothing but the cache takes any."""
    monkeypatch.setattr(
        whole_copies.shutil, 'disk_usage', lambda folder: types.SimpleNamespace(free=size - held_bytes(cache))
    )


def test_what_was_used_least_recently_makes_room_on_the_disk(remote, found, tmp_path, monkeypatch):
    cache = Cache(str(tmp_path), 10**6)
    old = [cache.copy(path) for path in found[:4]]
    for number, path in enumerate(old):
        os.utime(path, (number, os.stat(path).st_mtime))
    disk_of(monkeypatch, cache, 5500)  # 1,500 bytes are free
    assert [read(path) for path in whole_copies.copies(found[4:7], cache)] == list(CONTENT.values())[4:7]
    assert [os.path.exists(path) for path in old] == [False, False, True, True]


def test_what_another_process_has_written_need_not_be_free(remote, found, tmp_path):
    """What is left of a process that was killed does not count, and goes when the file is fetched."""
    cache = Cache(str(tmp_path), 10**6)
    path = cache.path_of(entry_of(found[0]), os.path.basename(found[0]))
    unfinished = cache.path_of(entry_of(found[0]), f'.{os.path.basename(found[0])}.0a1b2c3d.part')
    os.makedirs(os.path.dirname(unfinished))
    with open(unfinished, 'wb') as file:
        file.write(bytes(4096))
        os.fsync(file.fileno())
    assert cache.folder.written(path) == 0
    with Cache(str(tmp_path), 10**6).folder.alone(path):
        assert cache.folder.written(path) == os.stat(unfinished).st_blocks * 512
    assert read(cache.copy(found[0])) == next(iter(CONTENT.values())) and not os.path.exists(unfinished)


def test_nothing_is_removed_where_that_makes_no_room(remote, found, tmp_path, monkeypatch):
    cache, other = Cache(str(tmp_path), 10**6), Cache(str(tmp_path), 10**6)
    old = [cache.copy(path) for path in found[:3]]
    other.folder.hold({entry_of(found[0]): 1000, entry_of(found[1]): 1000})
    disk_of(monkeypatch, cache, 4000)
    with pytest.raises(DatasetError, match='0 MB are free; lower --data_cache_mib'):
        whole_copies.copies(found[4:7], cache)
    assert all(map(os.path.exists, old))


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob('*') if path.is_file())


def test_files_of_others_in_the_folder_stay(remote, found, tmp_path):
    mine = ['thesis/chapter1.tex', 'in_use/list', '0123456789abcdef/notes.txt', 'note.index', 'half.part']
    for name in mine:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(5000))  # more than the cache may hold
        os.utime(tmp_path / name, (0, 0))
    cache = Cache(str(tmp_path), 3000)
    cache.folder.hold({entry_of(found[0]): 1000})
    for path in found:
        assert read(cache.copy(path)) == CONTENT[path.name]
    own = tmp_path / bounded_folder.OWN
    assert held_bytes(cache) <= 3000 + 200 and cache.folder.path == str(own)
    assert [name for name in files_below(tmp_path) if not name.startswith(own.name)] == sorted(mine)
    assert Cache(str(tmp_path), 3000).folder.path == str(own)  # the next process finds it


def test_files_that_others_put_into_the_folder_later_stay(remote, found, tmp_path):
    Cache(str(tmp_path), 3000).copy(found[0])
    (tmp_path / 'thesis').mkdir()
    for name in ('thesis/chapter1.tex', 'letter', 'in_use/letter'):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(bytes(5000))
    cache = Cache(str(tmp_path), 3000)
    assert cache.folder.path == str(tmp_path)
    for path in found:
        cache.copy(path)
    assert {'thesis/chapter1.tex', 'letter', 'in_use/letter'} <= set(files_below(tmp_path))


def test_the_folder_of_an_earlier_version_is_used_further(remote, found, tmp_path):
    old = Cache(str(tmp_path), 10**6).copy(found[0])
    os.unlink(tmp_path / removal.MARK)
    assert Cache(str(tmp_path), 10**6).copy(found[0]) == old and len(ranges(remote)) == 1
