"""What a job may leave in its model_dir that is no file of a run: what a snapshot and a mirror make of it."""

import itertools
import logging
import os
import socket

import pytest

pytest.importorskip('obstore')

from estimator_trainer.storage import names, snapshot, store  # noqa: E402
from estimator_trainer.storage.share import Share  # noqa: E402
from tests.storage.machines import Machine, Watched  # noqa: E402
from tests.storage.test_mirror import remote  # noqa: E402, F401

LARGE = 'x' * (2 << 20)


@pytest.fixture
def run(tmp_path, monkeypatch):
    folder = tmp_path / 'run'
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def reader(tmp_path, run):
    return snapshot.SnapshotTaker(str(run), str(tmp_path / 'sending'), Share())


def make_socket():
    with socket.socket(socket.AF_UNIX) as made:
        made.bind('odd')


@pytest.mark.parametrize(
    'make, why',
    [
        (lambda: os.mkfifo('odd'), "'odd' is not sent: it is no regular file"),
        (lambda: os.mkfifo('model.ckpt-5.index'), "'model.ckpt-5.index' is not sent"),
        (make_socket, "'odd' is not sent: it is no regular file"),
        (lambda: os.symlink('nowhere', 'odd'), "'odd' is not sent: it is no regular file"),
        (lambda: os.symlink('/', 'odd'), "'odd' is not sent: it is a link to a folder"),
        (lambda: open('a\tb', 'w').close(), "'a\\tb' is not sent: its name has a control character"),
        (lambda: open(b'\xe4', 'w').close(), "'\\udce4' is not sent: its name is not UTF-8"),
        (lambda: os.mkdir(b'\xe4') or open(b'\xe4/x', 'w').close(), "'\\udce4' is not sent: its name is not UTF-8"),
    ],
)
def test_what_no_store_can_hold_is_left_out_with_one_warning(reader, run, caplog, make, why):
    caplog.set_level(logging.INFO, 'estimator_trainer')
    make()
    (run / 'notes.txt').write_text('text')
    for _ in range(2):
        assert reader.take().contents.keys() == {'notes.txt'}
    [line] = [record.getMessage() for record in caplog.records]
    assert why in line


def test_a_link_to_a_file_is_a_file(reader, run, tmp_path):
    (tmp_path / 'target').write_bytes(b'content')
    os.symlink('../target', run / 'link')
    [content] = reader.take().contents.values()
    assert content.data == b'content'


def test_a_folder_that_cannot_be_read_is_not_taken_for_an_empty_one(reader, run, monkeypatch):
    (run / 'logs').mkdir()
    (run / 'logs' / 'a.txt').write_text('text')
    scandir = os.scandir

    def failing(path):
        if str(path).endswith('logs'):
            raise OSError(5, 'Input/output error', path)
        return scandir(path)

    monkeypatch.setattr(os, 'scandir', failing)
    with pytest.raises(OSError, match='Input/output error'):
        reader.take()


@pytest.mark.parametrize(
    'name, why', [('läuf.txt', None), ('a/b c', None), ('a\n', 'control'), ('\udce4', 'UTF-8'), ('y/' * 500, 'bytes')]
)
def test_names_that_objects_can_have(name, why):
    found = names.why_unfit(name)
    assert found is None if why is None else why in found


def test_a_file_that_changes_while_it_is_sent_is_left_out_and_the_others_are_sent(tmp_path, remote, monkeypatch):  # noqa: F811
    machine = Machine(tmp_path, remote).start()
    machine.write('before', LARGE)
    machine.write('zz', 'text')
    chunks, count = snapshot.Local.chunks, itertools.count()

    def changing(content):
        if content.path.endswith('before'):
            machine.write('before', str(next(count)) + LARGE)
        return chunks(content)

    monkeypatch.setattr(snapshot.Local, 'chunks', changing)
    for _ in range(2):
        assert machine.push()
        assert machine.mirror.unsteady == ['before']
        assert remote.contents().keys() == {'zz'}
    monkeypatch.undo()
    machine.push()
    assert machine.mirror.unsteady == [] and remote.contents().keys() == {'before', 'zz'}


def test_files_of_a_folder_that_becomes_a_link_are_deleted_in_the_store(tmp_path, remote):  # noqa: F811
    machine = Machine(tmp_path, remote).start()
    machine.write('plots/a.png', 'x')
    machine.write('notes.txt', 'x')
    machine.push()
    os.rename(machine.run / 'plots', tmp_path / 'elsewhere')
    os.symlink(tmp_path / 'elsewhere', machine.run / 'plots')
    machine.push()
    assert remote.contents().keys() == {'notes.txt'} and not machine.mirror.unsteady


def test_a_file_that_shrinks_while_it_is_read_stays_in_the_store(tmp_path, remote, monkeypatch):  # noqa: F811
    machine = Machine(tmp_path, remote).start()
    for name in ('a.log', 'b.log'):
        machine.write(name, LARGE)
    machine.push()
    digest = snapshot._digest

    def shrinks(file, size):
        if file.name.endswith('a.log'):
            os.truncate(file.name, size - 1)
        return digest(file, size)

    with monkeypatch.context() as patched:
        patched.setattr(snapshot, '_digest', shrinks)
        for name in ('a.log', 'b.log'):
            machine.write(name, LARGE + LARGE)
        assert machine.push() and machine.mirror.unsteady == ['a.log']
    assert remote.contents() == {'a.log': LARGE, 'b.log': LARGE + LARGE}
    machine.push()
    assert remote.contents()['a.log'] == (LARGE + LARGE)[:-1] and not machine.mirror.unsteady
    (machine.run / 'a.log').unlink()
    machine.push()
    assert remote.contents().keys() == {'b.log'}


class Picky(Watched):
    """A store that refuses to write some names."""

    refused = staticmethod(lambda name: False)

    def write(self, name, content, replaces):
        if self.refused(name):
            raise store.StoreUnavailable(name)
        return super().write(name, content, replaces)


@pytest.fixture
def picky():
    return Picky()


def advances(machine) -> bool:
    """Whether a pass that is interrupted has got further than others before."""
    before = machine.mirror.advances
    with pytest.raises(store.StoreUnavailable):
        machine.push()
    return machine.mirror.advances > before


def test_small_files_that_get_through_are_no_progress_while_checkpoints_do_not(tmp_path, picky):
    machine = Machine(tmp_path, picky).start()
    picky.refused = lambda name: '.data-' in name
    for step in range(10, 60, 10):
        machine.save(step, f'save {step}')  # metrics.jsonl has grown
        assert advances(machine) == (step == 10)
    assert picky.contents()['metrics.jsonl'] == 'save 50'
    picky.refused = lambda name: name == 'metrics.jsonl'
    machine.write('metrics.jsonl', 'more')
    assert not advances(machine)
    picky.refused = lambda name: '.data-' in name
    assert not advances(machine)  # metrics.jsonl gets through again
    picky.refused = lambda name: False
    before = machine.mirror.advances
    machine.push()
    assert machine.mirror.advances > before


def test_a_part_of_a_checkpoint_that_gets_through_at_last_is_progress(tmp_path, picky):
    machine = Machine(tmp_path, picky).start()
    machine.save(10, 'save')
    for number in range(1, 6):
        machine.write(f'model.ckpt-10.data-{number:05}-of-00006', 'save')
    os.rename(machine.run / 'model.ckpt-10.data-00000-of-00001', machine.run / 'model.ckpt-10.data-00000-of-00006')
    for number in range(6):
        picky.refused = lambda name, number=number: f'.data-{number:05}' in name
        assert advances(machine), number
        assert not advances(machine)


def test_a_newer_checkpoint_that_is_sent_is_progress_for_an_older_one_that_was_not(tmp_path, picky):
    machine = Machine(tmp_path, picky).start()
    machine.save(10, 'save')
    picky.refused = lambda name: name.startswith('model.ckpt-10.data')
    assert advances(machine)
    assert not advances(machine)
    machine.save(20, 'save')
    assert advances(machine)
    assert picky.contents()[names.POINTER] == 'model.ckpt-20'
