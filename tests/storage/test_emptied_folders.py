"""What others remove from the scratch folder, and what the file system does not show, stays in the store."""

import errno
import os
import shutil

import pytest

pytest.importorskip('obstore')

from estimator_trainer.storage.share import Share  # noqa: E402
from tests.storage.machines import Machine, Watched, train  # noqa: E402


@pytest.fixture
def remote():
    return Watched()


def test_an_emptied_scratch_folder_empties_nothing(tmp_path, remote):
    machine = Machine(tmp_path, remote).start()
    train(machine)
    before = remote.contents()
    for path in machine.run.rglob('*'):
        if path.is_file():
            path.unlink()
    machine = Machine(tmp_path, remote).start()
    machine.push()
    assert remote.contents() == before


@pytest.mark.parametrize('is_made_again', [False, True])
@pytest.mark.parametrize('has_checkpoint', [False, True])
def test_a_scratch_folder_that_is_emptied_while_the_run_goes_on_empties_nothing(
    tmp_path, remote, is_made_again, has_checkpoint
):
    """As by a cleaner of caches. The next line of metrics.jsonl makes the folder again."""
    machine = Machine(tmp_path, remote).start()
    if has_checkpoint:
        train(machine)
    else:
        machine.write('config.json', 'first')
        machine.write('metrics.jsonl', 'first')
        machine.push()
    before = remote.contents()
    shutil.rmtree(machine.run)
    if is_made_again:
        machine.write('metrics.jsonl', 'one line')
    for _ in range(2):
        with pytest.raises(OSError, match='the scratch folder was emptied while the run went on: config.json is gone'):
            machine.push()
    assert remote.contents() == before
    machine.run.mkdir(exist_ok=True)
    Machine(tmp_path, remote).start().push()  # the next start knows that the folder was emptied, too
    assert remote.contents() == before


def test_what_a_cleaner_of_old_files_removes_stays_in_the_store(tmp_path, remote):
    machine = Machine(tmp_path, remote).start()
    machine.save(10, 'first')
    machine.save(20, 'second')
    machine.push()
    before = remote.contents()
    for path in (machine.run / 'config.json', *machine.run.glob('model.ckpt-10.*')):
        path.unlink()
    with pytest.raises(OSError, match='was emptied while the run went on'):
        machine.push()
    Machine(tmp_path, remote).start().push()
    assert remote.contents() == before and remote.contents().keys() > {'model.ckpt-10.index', 'config.json'}


def test_the_last_export_that_a_cleaner_removes_stays_in_the_store(tmp_path, remote):
    machine = Machine(tmp_path, remote).start()
    train(machine)
    machine.push()
    before = remote.contents()
    exports = {name for name in before if name.startswith('export/')}
    for path in machine.run.glob('export/best/**/*'):
        if path.is_file():
            path.unlink()
    machine.push()
    assert remote.contents() == before and len(exports) == 3
    machine.export(3)  # a better one
    machine.push()
    assert {name for name in remote.contents() if name.startswith('export/')} == {
        *('export/best/3/variables', 'export/best/3/saved_model.pb', 'export/best/best.json')
    }


def test_events_that_a_cleaner_removes_stay_in_the_store(tmp_path, remote):
    machine = Machine(tmp_path, remote).start()
    train(machine)
    for name in ('events.out.tfevents.1.vm', 'eval/events.out.tfevents.2.vm', 'notes.txt'):
        machine.write(name, 'old')
    machine.push()
    for name in ('events.out.tfevents.1.vm', 'eval/events.out.tfevents.2.vm', 'notes.txt'):
        (machine.run / name).unlink()
    machine.push()
    assert 'notes.txt' not in remote.contents()
    assert remote.contents().keys() > {'events.out.tfevents.1.vm', 'eval/events.out.tfevents.2.vm'}


def test_a_file_that_the_file_system_does_not_show_stays_in_the_store(tmp_path, remote, monkeypatch):
    machine = Machine(tmp_path, remote).start()
    train(machine)
    machine.write('notes.txt', 'mine')
    machine.push()

    def failing(function):
        def instead(path, *args, **kwargs):
            if str(path).endswith('notes.txt'):
                raise OSError(errno.EIO, os.strerror(errno.EIO), path)
            return function(path, *args, **kwargs)

        return instead

    with monkeypatch.context() as patched:
        for name in ('stat', 'lstat'):
            patched.setattr(os, name, failing(getattr(os, name)))
        with pytest.raises(OSError, match='Input/output error'):
            machine.push()
    assert 'notes.txt' in remote.contents()


def test_a_scratch_folder_that_is_emptied_while_it_is_sent_loses_no_other_file_in_the_store(tmp_path, remote):
    machine = Machine(tmp_path, remote).start()
    train(machine)
    machine.write('notes.txt', 'mine')
    machine.push()
    before = remote.contents().keys()
    (machine.run / 'notes.txt').unlink()  # as by the cleaner, which goes on meanwhile
    machine.write('metrics.jsonl', 'another line')
    put = machine.mirror._put

    def put_and_empty(name, content):
        put(name, content)
        shutil.rmtree(machine.run)

    machine.mirror._put = put_and_empty
    with pytest.raises(OSError, match='was emptied while the run went on'):
        machine.push()
    assert remote.contents().keys() == before


def test_an_evaluators_folder_that_is_emptied_while_the_run_goes_on_empties_nothing(tmp_path, remote):
    machine = Machine(tmp_path, remote, Share('evaluator:0', 'evaluator', True)).start()
    for name in ('eval/last.json', 'eval/metrics.jsonl', 'export/best/1/saved_model.pb'):
        machine.write(name, 'first')
    machine.push()
    before = remote.contents()
    shutil.rmtree(machine.run)
    with pytest.raises(OSError, match='was emptied while the run went on: eval/last.json'):
        machine.push()
    assert remote.contents() == before
