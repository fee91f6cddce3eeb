"""A mirror against a store in memory that fails, loses answers, and is left by senders that are killed."""

import itertools

import pytest

pytest.importorskip('obstore')

from estimator_trainer.storage import lease, names, store  # noqa: E402
from tests.storage.machines import Killed, Machine, Watched, train  # noqa: E402


@pytest.fixture
def remote():
    return Watched()


def test_the_store_holds_what_the_folder_holds(tmp_path, remote):
    machine = Machine(tmp_path, remote).start()
    train(machine)
    assert remote.contents() == machine.files()
    assert not any(remote.wrong)
    sent = machine.mirror.sent_bytes
    machine.push()
    assert machine.mirror.sent_bytes == sent  # equal content is not sent again


@pytest.mark.parametrize('answer_is_lost', [False, True])
@pytest.mark.parametrize(
    'fault, another_machine',
    [
        (store.StoreUnavailable('no answer'), False),
        pytest.param(Killed(), False, marks=pytest.mark.slow),
        (Killed(), True),
    ],
)
def test_a_fault_at_any_operation_costs_nothing_but_time(tmp_path, fault, answer_is_lost, another_machine):
    for at in itertools.count():
        remote = Watched()
        machine = Machine(tmp_path / f'{at}', remote).start()
        remote.count = itertools.count()
        remote.at, remote.error, remote.answer_is_lost = at, fault, answer_is_lost
        try:
            train(machine)
        except (store.StoreUnavailable, Killed):
            remote.at = None
        else:
            break
        if another_machine:
            machine.lease.release()
            machine = Machine(tmp_path / f'{at}-other', remote).start()
            named = remote.contents().get(names.POINTER)
            assert named is None or machine.files()[names.POINTER] == named
        elif isinstance(fault, Killed):
            machine = Machine(tmp_path / f'{at}', remote).start()
        train(machine, start=10)  # what was begun is gone on with
        assert not any(remote.wrong), (at, [text for text in remote.wrong if text])
        expected = machine.files()
        found = remote.contents()
        assert {name: found.get(name) for name in expected} == expected, at
        assert not [name for name in found if name not in expected and names.checkpoint_of(name) is None], at
    assert at > 25


def test_who_was_frozen_cannot_write_over_its_successor(tmp_path, remote):
    first = Machine(tmp_path / 'one', remote).start()
    first.save(10, 'first')
    first.push()
    first.now = 1000  # longer than the span: another trainer may be there
    remote.delete(names.LEASE)
    second = Machine(tmp_path / 'two', remote).start()
    assert second.files()[names.POINTER] == 'model.ckpt-10'
    second.save(20, 'second')
    second.push()
    first.save(30, 'late')
    with pytest.raises(lease.LeaseLost):
        first.push()
    assert remote.contents()[names.POINTER] == 'model.ckpt-20'


def test_who_was_frozen_within_a_write_does_not_write_over_its_successor_either(tmp_path, remote):
    first = Machine(tmp_path / 'one', remote).start()
    first.save(10, 'first')
    first.push()
    remote.delete(names.LEASE)
    second = Machine(tmp_path / 'two', remote).start()
    second.save(20, 'second')
    second.push()
    first.save(20, 'late')  # its lease has not run out yet, by its own clock
    with pytest.raises(lease.LeaseLost):
        first.push()
    assert remote.contents()['model.ckpt-20.index'] == 'second'


def test_the_next_start_on_the_same_machine_sends_what_was_left(tmp_path, remote):
    machine = Machine(tmp_path, remote).start()
    machine.save(10, 'first')
    machine.push()
    machine.save(20, 'left')
    again = Machine(tmp_path, remote).start()
    again.push()
    assert remote.contents()['model.ckpt-20.index'] == 'left'


def test_a_checkpoint_that_was_thinned_out_here_does_not_come_back(tmp_path, remote):
    machine = Machine(tmp_path, remote).start()
    machine.save(10, 'first')
    machine.push()
    machine.save(20, 'second')
    for path in machine.run.glob('model.ckpt-10.*'):
        path.unlink()
    Machine(tmp_path, remote).start().push()
    assert {names.checkpoint_of(name) for name in remote.contents()} == {None, 'model.ckpt-20'}


def test_what_another_machine_has_trained_replaces_the_scratch_folder(tmp_path, remote):
    machine = Machine(tmp_path / 'one', remote).start()
    machine.save(10, 'first')
    machine.push()
    machine.save(30, 'never sent')
    machine.lease.release()
    other = Machine(tmp_path / 'two', remote).start()
    other.save(20, 'second')
    other.push()
    other.lease.release()
    assert Machine(tmp_path / 'one', remote).start().files() == {
        name: text for name, text in other.files().items() if not name.startswith('model.ckpt-10')
    }


def test_a_checkpoint_whose_evaluation_is_owed_is_fetched_too(tmp_path, remote):
    machine = Machine(tmp_path / 'one', remote).start()
    machine.save(10, 'first')
    machine.save(20, 'second')
    machine.save(30, 'third')
    machine.write('eval/last.json', '{"checkpoint": "model.ckpt-10", "done": false}')
    machine.push()
    machine.lease.release()
    files = Machine(tmp_path / 'two', remote).start().files()
    assert {names.checkpoint_of(name) for name in files} == {None, 'model.ckpt-10', 'model.ckpt-30'}


def test_files_of_others_stay(tmp_path, remote):
    remote.write('notes.txt', b'mine', None)
    remote.write('events.out.tfevents.1', b'old', None)
    machine = Machine(tmp_path, remote).start()
    train(machine)
    found = remote.contents()
    assert (found['notes.txt'], found['events.out.tfevents.1']) == ('mine', 'old')


def test_files_of_the_job_come_back_on_another_machine_and_those_of_others_stay(tmp_path, remote):
    machine = Machine(tmp_path / 'one', remote).start()
    machine.save(10, 'first')
    files = [
        *('checkpoint_notes.json', 'words.index', 'weights.index', 'weights.data-00000-of-00001', 'best-3.index'),
        *('best-3.data-00000-of-00001', 'export/tflite/1700/model.tflite', 'checkpoints/best.h5'),
    ]
    for name in files:
        machine.write(name, name.partition('.')[0])
    machine.push()
    machine.lease.release()
    remote.write('notes.index', b'of somebody', None)
    for other in ('two', 'three'):
        machine = Machine(tmp_path / other, remote).start()
        assert machine.files().keys() >= set(files)
        machine.push()
        machine.lease.release()
    assert remote.contents().keys() >= {*files, 'notes.index'}
    assert not any(remote.wrong)


def test_somebody_elses_object_with_the_name_of_an_index_stays_where_the_run_has_not_fetched_it(tmp_path, remote):
    machine = Machine(tmp_path, remote).start()
    for name in ('words.index', 'model.ckpt-7.meta'):
        remote.write(name, b'of somebody', None)
    machine.mirror.look()
    train(machine)
    assert remote.contents().keys() >= {'words.index', 'model.ckpt-7.meta'}
