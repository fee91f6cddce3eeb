"""The scratch folder of a machine that was started again, maybe because it had lost its power."""

import json

import pytest

pytest.importorskip('obstore')

from estimator_trainer.run_dir import file_names, locks  # noqa: E402
from estimator_trainer.storage import after_boot, fetch, names, scratch_state  # noqa: E402
from estimator_trainer.storage.share import Share  # noqa: E402
from tests.storage.machines import URL, Killed, Machine, Watched, is_of_one_save  # noqa: E402

DATA, INDEX = 'model.ckpt-{}.data-00000-of-00001', 'model.ckpt-{}.index'
ZEROS = '\0' * 5


@pytest.fixture
def remote():
    return Watched()


@pytest.fixture
def boot(monkeypatch):
    """Starts the machine again."""
    boots = iter(range(9))

    def start_again():
        number = next(boots)
        monkeypatch.setattr(locks, 'boot_id', lambda: f'boot {number}')

    monkeypatch.setattr(after_boot, 'is_of_one_save', is_of_one_save)
    start_again()
    return start_again


@pytest.fixture
def machine(tmp_path, remote, boot):
    """Two checkpoints, an export and a log, all of which were sent."""
    made = Machine(tmp_path, remote).start()
    made.save(10, 'ten')
    made.save(20, 'twenty')
    made.export(1)
    made.write('export/best/best.json', '{"saved_model": "1"}')
    made.write('config.json', '{}')
    made.write('events.out.tfevents.1.vm', 'events')
    made.push()
    return made


def torn(machine, name):
    machine.write(name, ZEROS)


SENT = [DATA.format(20), INDEX.format(10), 'metrics.jsonl', 'config.json', 'export/best/1/variables', 'checkpoint']


@pytest.mark.parametrize(
    'name', [*SENT, 'model.ckpt-20.meta', 'export/best/best.json', 'events.out.tfevents.1.vm'], ids=str
)
def test_what_the_machine_has_torn_is_fetched_again(machine, remote, boot, caplog, name):
    before = remote.contents()
    torn(machine, name)
    boot()
    machine.start().push()
    assert remote.contents() == before
    assert machine.files().items() >= before.items()
    said = 'this machine was started again and may have torn 1 file(s), such as ' in caplog.text
    assert said or name.startswith('model.ckpt-')  # a damaged checkpoint is set aside and fetched whole


def test_all_of_it_torn_at_once(machine, remote, boot):
    before = remote.contents()
    for name in SENT:
        torn(machine, name)
    boot()
    machine.start().push()
    assert remote.contents() == before


def test_what_was_written_after_the_last_time_is_sent(machine, remote, boot, caplog):
    """A checkpoint that is whole, a log that has grown, and JSON: nobody else has them."""
    machine.save(30, 'thirty')
    machine.write('config.json', '{"new": 1}')
    machine.write('metrics.jsonl', 'twenty' + 'thirty')
    machine.write('notes.txt', 'mine')
    boot()
    machine.start().push()
    found = remote.contents()
    assert (found['checkpoint'], found[DATA.format(30)]) == ('model.ckpt-30', 'thirty')
    assert (found['config.json'], found['metrics.jsonl']) == ('{"new": 1}', 'twentythirty')
    assert found['notes.txt'] == 'mine' and 'WARNING' not in caplog.text


@pytest.mark.parametrize('is_whole', [True, False])
def test_a_newer_checkpoint_whose_name_is_torn_is_gone_on_from_if_it_is_whole(machine, remote, boot, is_whole):
    machine.save(30, 'thirty')
    torn(machine, 'checkpoint')
    if not is_whole:
        torn(machine, DATA.format(30))
    boot()
    machine.start().push()
    newest = 'model.ckpt-30' if is_whole else 'model.ckpt-20'
    listed = file_names.pointer((machine.run / 'checkpoint').read_text()).listed
    assert not is_whole or listed == tuple(f'model.ckpt-{step}' for step in (30, 10, 20, 30))
    assert machine.files()['checkpoint'] == newest == remote.contents()['checkpoint']
    assert (machine.run / 'damaged' / INDEX.format(30)).exists() is not is_whole
    assert remote.contents()[DATA.format(20)] == 'twenty' and (INDEX.format(30) in remote.contents()) is is_whole


def test_a_name_of_an_older_checkpoint_than_the_stores_is_not_believed(machine, remote, boot):
    """The file system has forgotten the last moments before its end."""
    machine.write('checkpoint', 'model_checkpoint_path: "model.ckpt-10"\n')
    for path in machine.run.glob('model.ckpt-20.*'):
        path.unlink()
    before = remote.contents()
    boot()
    machine.start().push()
    assert remote.contents() == before and machine.files()['checkpoint'] == 'model.ckpt-20'


def test_a_kill_while_it_is_fetched_again_leaves_the_rest_to_the_next_start(machine, remote, boot, monkeypatch):
    before, chunks = remote.contents(), remote.chunks
    for name in SENT:
        torn(machine, name)
    boot()
    fetched = []

    def killed(name):
        fetched.append(name)
        if len(fetched) % 2 == 0:
            raise Killed
        return chunks(name)

    monkeypatch.setattr(remote, 'chunks', killed)
    for _ in range(20):
        try:
            fetch.fetch(remote, str(machine.run), scratch_state.ScratchState(machine.scratch, URL), Share(), True)
            break
        except Killed:
            continue
    machine.start().push()
    assert remote.contents() == before and len(fetched) > len(SENT)


def test_a_machine_that_was_not_started_again_trusts_its_files(machine, remote):
    machine.write('graph.pbtxt', 'new')
    machine.push()
    machine.write('graph.pbtxt', 'newer')
    machine.start().push()
    assert remote.contents()['graph.pbtxt'] == 'newer'


def test_the_state_of_an_earlier_version_says_nothing_of_the_machine(machine, tmp_path, boot, caplog):
    path = tmp_path / scratch_state.NAME
    known = json.loads(path.read_text())
    assert known.pop('boot') == locks.boot_id()
    path.write_text(json.dumps(known))
    assert scratch_state.ScratchState(str(tmp_path), URL).boot == ''
    machine.write('metrics.jsonl', 'mine')
    boot()
    machine.start()
    assert 'was started again' not in caplog.text and machine.files()['metrics.jsonl'] == 'mine'


def test_a_checkpoint_of_the_job_that_is_torn_is_fetched_again(machine, remote, boot):
    for part in ('data-00000-of-00001', 'index'):
        machine.write(f'embedding.{part}', 'words')
    machine.push()
    before = remote.contents()
    assert names.checkpoint_of('embedding.index') and 'embedding.index' in before
    torn(machine, 'embedding.index')
    boot()
    machine.start().push()
    assert remote.contents() == before
