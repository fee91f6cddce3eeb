"""run_dir.files: what is durable is on the disk before it has its name."""

import errno
import os

import pytest

from estimator_trainer.run_dir import files, protocol


@pytest.fixture
def moments(monkeypatch):
    """What is flushed and renamed, in its order: the names, without folders and without what a process adds."""
    seen = []

    def watched(name, path_of):
        function = getattr(os, name)

        def call(*args):
            seen.append((name, os.path.basename(path_of(*args)).partition('.')[0]))
            return function(*args)

        monkeypatch.setattr(os, name, call)

    watched('fsync', lambda descriptor: os.readlink(f'/proc/self/fd/{descriptor}'))
    watched('replace', lambda old, new: new)
    return seen


def test_a_durable_file_is_on_the_disk_before_it_has_its_name(tmp_path, moments):
    protocol.write_json(str(tmp_path / 'kept.json'), {}, durable=True)
    protocol.write_json(str(tmp_path / 'missed.json'), {})
    assert moments == [('fsync', 'kept'), ('replace', 'kept'), ('replace', 'missed')]


def test_a_tree_is_on_the_disk_from_its_leaves_on(tmp_path, moments):
    (tmp_path / 'top' / 'deep').mkdir(parents=True)
    (tmp_path / 'top' / 'deep' / 'leaf').touch()
    (tmp_path / 'top' / 'file').touch()
    (tmp_path / 'top' / 'link').symlink_to('nowhere')
    files.flush_tree(str(tmp_path / 'top'))
    assert moments == [('fsync', name) for name in ('leaf', 'deep', 'file', 'top')]


@pytest.mark.parametrize('number, is_error', [(errno.EINVAL, False), (errno.EIO, True), (errno.ENOSPC, True)])
def test_only_a_file_system_that_cannot_flush_is_excused(tmp_path, monkeypatch, number, is_error):
    def refused(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, 'fsync', refused)
    if not is_error:
        files.flush(str(tmp_path))
        return
    with pytest.raises(OSError, match=os.strerror(number)):
        protocol.write_json(str(tmp_path / 'a.json'), {}, durable=True)
    assert not os.listdir(tmp_path)
