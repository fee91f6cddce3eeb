"""data.remote: which objects a URL names, and what the cache keeps, fetches and removes. The store is in memory."""

import os
import subprocess
import sys
import threading
import types

import pytest

obstore = pytest.importorskip('obstore')

from estimator_trainer.data.files import listing  # noqa: E402
from estimator_trainer.data.remote import bounded_folder, paths, patience, threads, whole_copies  # noqa: E402
from estimator_trainer.data.remote.cache import Cache, entry_of  # noqa: E402
from estimator_trainer.errors import DatasetError, DatasetUnavailable, UsageError  # noqa: E402
from estimator_trainer.run_dir import removal  # noqa: E402
from tests.storage import memory_store  # noqa: E402
from tests.storage.memory_store import BUCKET  # noqa: E402

CONTENT = {f'data/part-{number}': bytes([number]) * 1000 for number in range(8)}
BOUND_SECS = 120


@pytest.fixture
def remote(monkeypatch):
    others = {'data/sub/part-9': b'', 'data/.hidden': b'', 'data/odd[1]': b''}
    return memory_store.install(monkeypatch, {**CONTENT, **others})


def ranges(remote):
    """(name, start, end) of what has been read."""
    return [call[1:4] for call in remote.calls if call[0] == 'read_range']


def names(pattern):
    return [path.name for path in paths.expand(pattern, '--train_files')]


def test_globs_mean_what_they_mean_for_files(remote):
    assert names(f'{BUCKET}/data/part-*') == sorted(CONTENT)
    assert names(f'{BUCKET}/data/part-[12]') == ['data/part-1', 'data/part-2']
    assert names(f'{BUCKET}/**/part-[89]') == ['data/sub/part-9']
    assert names(f'{BUCKET}/*/part-3') == ['data/part-3'] == names(f'{BUCKET}/data/part-3')
    assert 'data/.hidden' not in names(f'{BUCKET}/data/*') and names(f'{BUCKET}/data/.h*') == ['data/.hidden']
    assert names(f'{BUCKET}/data/odd[1]') == ['data/odd[1]']


def test_a_glob_passes_over_no_folder_of_data(remote):
    remote.put('spark/y.parquet', b'')
    remote.put('spark/x.parquet/part-0.parquet', b'')
    with pytest.raises(
        DatasetError, match=r'^s3://bucket/spark/x.parquet is a folder; name its files, such as .*t/\*$'
    ):
        listing.expand(f'{BUCKET}/spark/*.parquet')
    assert len(listing.expand(f'{BUCKET}/spark/**/*.parquet')) == 2
    assert listing.expand(f'{BUCKET}/spark/y*') == [f'{BUCKET}/spark/y.parquet']
    assert listing.expand(f'{BUCKET}/data/*')  # `sub` says of no data
    with pytest.raises(DatasetError, match='s3://bucket/data/sub is a folder'):
        listing.expand(f'{BUCKET}/data/su*')


def test_listing_takes_urls_and_names_their_mistakes(remote, tmp_path):
    found = listing.expand(f'{BUCKET}/data/part-2, {BUCKET}/data/part-*')
    assert found == [f'{BUCKET}/{name}' for name in sorted(CONTENT)] and listing.stamp(found[0]).size == 1000
    with pytest.raises(
        DatasetError, match=r"no file matches 's3://bucket/data/none-\*' \(of 11 below s3://bucket/data"
    ):
        listing.expand(f'{BUCKET}/data/none-*')
    with pytest.raises(DatasetError, match=r'is a folder; name its files, such as s3://bucket/data/\*'):
        listing.expand(f'{BUCKET}/data')
    with pytest.raises(UsageError, match='--eval_files=hdfs://.*hdfs:// is not known'):
        listing.expand('hdfs://host/data', '--eval_files')
    (tmp_path / 'here').touch()
    with pytest.raises(DatasetError, match='of this machine or of a store, not of both'):
        listing.expand([f'{BUCKET}/data/part-1', f'{tmp_path}/here'])


@pytest.fixture
def found(remote):
    return paths.expand(f'{BUCKET}/data/part-*', '--train_files')


def read(path):
    with open(path, 'rb') as file:
        return file.read()


def held_bytes(cache):
    return sum(
        os.path.getsize(os.path.join(folder, name))
        for folder, _, files in os.walk(cache.folder.path)
        for name in files
        if os.path.basename(folder) not in ('locks', 'in_use')
    )


def test_a_copy_is_fetched_once_and_has_the_stamp_of_its_object(remote, found, tmp_path):
    copies = whole_copies.copies(found, Cache(str(tmp_path), 10**6))
    assert [read(path) for path in copies] == list(CONTENT.values())
    assert [listing.stamp(path) for path in copies] == [listing.stamp(path) for path in found]
    assert whole_copies.copies(found, Cache(str(tmp_path), 10**6)) == copies
    assert len(ranges(remote)) == len(CONTENT)


def test_blocks_are_kept_within_the_bound_and_the_last_used_stay(remote, found, tmp_path):
    cache = Cache(str(tmp_path), 3000)
    for number, path in enumerate(found):
        assert cache.read(path, 100, 900) == bytes([number]) * 800
        cache.read(found[0], 100, 900)
        assert held_bytes(cache) <= 3000
    reads = len(ranges(remote))
    assert reads == len(CONTENT)
    cache.read(found[-1], 100, 900)
    assert len(ranges(remote)) == reads
    cache.read(found[1], 100, 900)
    assert len(ranges(remote)) == reads + 1


def test_a_block_is_never_taken_for_an_object_of_such_a_name(remote, tmp_path):
    remote.put('data/4-8', b'0123456789')
    (path,) = paths.expand(f'{BUCKET}/data/4-8', '--train_files')
    cache = Cache(str(tmp_path), 10**6)
    assert (cache.read(path, 4, 8), cache.read(path, 0, 4)) == (b'4567', b'0123')
    assert read(cache.copy(path)) == b'0123456789'


def test_a_folder_that_another_process_removes_is_made_again(remote, found, tmp_path, monkeypatch):
    cache = Cache(str(tmp_path), 10**6)
    made, removed = cache.folder.made, []

    def removing(name):
        path = made(name)
        if entry_of(found[0]) in path and len(removed) < 2:
            os.rmdir(path)  # it is empty: that process has removed the last file in it
            removed.append(path)
        return path

    monkeypatch.setattr(cache.folder, 'made', removing)
    assert read(cache.copy(found[0])) == CONTENT['data/part-0'] and len(removed) == 2


def test_what_a_process_holds_stays_until_it_has_ended(remote, found, tmp_path):
    holder = (
        'import sys; from estimator_trainer.data.remote.cache import Cache\n'
        'Cache(sys.argv[1], 3000).folder.hold({sys.argv[2]: 1000}); print(flush=True); sys.stdin.read()'
    )
    cache = Cache(str(tmp_path), 3000)
    first = cache.copy(found[0])
    process = subprocess.Popen(
        [sys.executable, '-c', holder, str(tmp_path), entry_of(found[0])], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        process.stdout.readline()
        for path in found[1:]:
            cache.copy(path)
        assert os.path.exists(first)
        with pytest.raises(DatasetError, match='has no room.* runs on this machine use most of it; raise --data_cache'):
            whole_copies.copies(found[1:4], cache)
    finally:
        process.communicate(timeout=BOUND_SECS)
    for path in found[1:4]:
        Cache(str(tmp_path), 3000).copy(path)
    assert not os.path.exists(first)


def test_tasks_that_need_the_same_at_the_same_time_fetch_it_once(remote, found, tmp_path):
    caches = [Cache(str(tmp_path), 10**6) for _ in range(4)]
    readers = [threading.Thread(target=cache.read, args=(found[3], 0, 500)) for cache in caches]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(BOUND_SECS)
    assert ranges(remote) == [('data/part-3', 0, 500)]


def test_room_that_another_process_takes_while_it_writes_is_waited_for(remote, found, tmp_path, monkeypatch):
    ours, others = Cache(str(tmp_path), 1500), Cache(str(tmp_path), 1500)
    writing = others.folder.writing(others.path_of(entry_of(found[0]), 'part-0'), 1000)
    writing.__enter__()
    monkeypatch.setattr('time.sleep', lambda secs: writing.__exit__(None, None, None))  # it has finished meanwhile
    assert read(ours.copy(found[1])) == CONTENT['data/part-1']


def test_a_file_that_has_its_stamp_already_is_not_removed_before_it_has_its_name(remote, found, tmp_path, monkeypatch):
    ours, others, fsync = Cache(str(tmp_path), 1500), Cache(str(tmp_path), 1500), os.fsync

    def meanwhile(fd):  # the stamp stands for a version, not for a time
        monkeypatch.setattr('os.fsync', fsync)
        assert others.read(found[1], 0, 900) == CONTENT['data/part-1'][:900]  # wants room
        fsync(fd)

    monkeypatch.setattr('os.fsync', meanwhile)
    assert read(ours.copy(found[0])) == CONTENT['data/part-0']


def test_room_is_not_waited_for_where_nobody_will_make_it(remote, found, tmp_path, monkeypatch):
    cache = Cache(str(tmp_path), 1500)
    cache.folder.hold({entry_of(found[0]): 1000})
    cache.copy(found[0])
    monkeypatch.setattr('time.sleep', lambda secs: pytest.fail('it waits in vain'))
    with pytest.raises(DatasetError, match='has no room'):
        cache.copy(found[1])


@pytest.mark.parametrize('change', ['replaced', 'removed'])
def test_an_object_that_has_changed_is_an_error(remote, found, tmp_path, change):
    if change == 'replaced':
        remote.put(found[0].name, bytes(1000))
    else:
        remote.delete(found[0].name)
    with pytest.raises(DatasetError, match='s3://bucket/data/part-0 has changed while it was in use'):
        Cache(str(tmp_path), 10**6).read(found[0], 0, 10)


def test_a_new_version_has_an_entry_of_its_own(remote, found, tmp_path):
    old = Cache(str(tmp_path), 10**6).copy(found[0])
    remote.put(found[0].name, b'new')
    (again,) = paths.expand(found[0], '--train_files')
    assert read(Cache(str(tmp_path), 10**6).copy(again)) == b'new' and read(old) == CONTENT['data/part-0']


def test_a_disk_without_room_is_named(remote, found, tmp_path, monkeypatch):
    monkeypatch.setattr(whole_copies.shutil, 'disk_usage', lambda folder: types.SimpleNamespace(free=10))
    with pytest.raises(DatasetError, match='0 MB are free; lower --data_cache_mib, or name another folder'):
        whole_copies.copies(found, Cache(str(tmp_path), 10**6))


def test_a_file_object_reads_what_is_asked_for(remote, found, tmp_path):
    found[2].cache = Cache(str(tmp_path), 10**6)
    file = paths.RemoteFile(found[2])
    file.seek(-10, os.SEEK_END)
    assert file.read(4) == b'\2' * 4 and file.tell() == 994 and file.read() == b'\2' * 6 and file.read(1) == b''
    assert [(start, end) for _, start, end in ranges(remote)] == [(990, 994), (994, 1000)]


def test_a_process_ends_though_the_store_is_away(remote, found, tmp_path):
    program = (
        'from estimator_trainer.data.remote import patience, threads\n'
        'from estimator_trainer.storage.store import StoreUnavailable\n'
        'def ask(): raise StoreUnavailable("no answer")\n'
        'for _ in range(100): threads.submit(patience.OF_PROCESS.request, ask)'
    )
    ended = subprocess.run([sys.executable, '-c', program], timeout=BOUND_SECS, capture_output=True, text=True)
    assert (ended.returncode, ended.stdout) == (0, '') and 'Traceback' not in ended.stderr


def test_a_store_that_is_away_is_one_error(remote, found, tmp_path, monkeypatch):
    monkeypatch.setattr(patience, 'AWAY_SECS', 0)
    remote.away = True
    with pytest.raises(DatasetUnavailable, match='no answer'):
        threads.submit(Cache(str(tmp_path), 10**6).read, found[0], 0, 10).result(BOUND_SECS)


def test_needs_no_tensorflow():
    program = 'import sys, estimator_trainer.data.files.listing; sys.exit("tensorflow" in sys.modules)'
    assert subprocess.run([sys.executable, '-c', program], timeout=300).returncode == 0


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
