"""What can be seen in the store is a whole run after each operation of each push."""

import itertools
import random

import pytest

from estimator_trainer.storage import names, send_order
from tests.storage.whole import problem


class Run:
    """A local run of which each file's digest says which save it is of."""

    def __init__(self):
        self.files, self.newest, self.saves = {}, None, itertools.count()

    def save(self, step, shards=2, keep=2):
        at = f'model.ckpt-{step}'
        save = f'save {next(self.saves)}'
        for name in [name for name in self.files if names.checkpoint_of(name) == at]:
            del self.files[name]
        if names.step_of(self.files.get('eval/last.json', '')) > step:  # the run has gone back
            del self.files['eval/last.json']
        for number in range(shards):
            self.files[f'{at}.data-{number:05}-of-{shards:05}'] = save
        self.files |= {f'{at}.index': save, f'{at}.meta': save, 'metrics.jsonl': save, 'config.json': 'config'}
        self.newest = at
        steps = sorted({names.step_of(unit) for unit in map(names.checkpoint_of, self.files) if unit})
        for old in [old for old in steps[:-keep] if old != step]:
            for name in [name for name in self.files if name.startswith(f'model.ckpt-{old}.')]:
                del self.files[name]

    def evaluate(self, best):
        save = f'save {next(self.saves)}'
        if best:
            for name in [name for name in self.files if name.startswith('export/')]:
                del self.files[name]
            at = f'export/best/17{next(self.saves)}'
            self.files |= {f'{at}/saved_model.pb': save, f'{at}/variables/variables.index': save}
            self.files |= {f'{at}/variables/variables.data-00000-of-00001': save, 'export/best/best.json': at}
        self.files |= {'eval/last.json': self.newest, 'eval/metrics.jsonl': save}

    def local(self):
        pointer = {} if self.newest is None else {names.POINTER: self.newest}
        twin = {} if self.newest is None else {send_order.twin_pointer(self.newest): names.twin_of(self.newest)}
        return {**self.files, **pointer, **twin}


def push(run, remote, known=None, stop_after=None, named_before=None) -> None:
    """Sends a run; `known` is what the sender knows of the store. Checks every prefix."""
    named_before = set() if named_before is None else named_before
    local = run.local()
    known = remote if known is None else known
    ops = send_order.plan(local, known, run.newest, remote.get(names.POINTER))
    for op in ops[:stop_after]:
        if op.source is None:
            del remote[op.name]
        else:
            remote[op.name] = local[op.source]
        named_before.add(remote.get(names.POINTER, ''))
        assert problem(remote, named_before) is None, (op, ops)


def test_data_then_index_then_checkpoint():
    run = Run()
    run.save(10, shards=1)
    ops = [op.name for op in send_order.plan(run.local(), {}, run.newest, None)]
    assert ops[-4:] == ['model.ckpt-10.data-00000-of-00001', 'model.ckpt-10.meta', 'model.ckpt-10.index', 'checkpoint']


def test_equal_content_is_not_sent_again():
    run, remote = Run(), {}
    run.save(10)
    push(run, remote)
    assert send_order.plan(run.local(), remote, run.newest, run.newest) == []


def test_what_is_gone_here_goes_there_index_first():
    run, remote = Run(), {}
    run.save(10, shards=1)
    push(run, remote)
    run.save(20, shards=1, keep=1)
    deleted = [op.name for op in send_order.plan(run.local(), remote, run.newest, 'model.ckpt-10') if op.source is None]
    assert deleted == ['model.ckpt-10.index', 'model.ckpt-10.data-00000-of-00001', 'model.ckpt-10.meta']


def test_the_named_checkpoint_that_was_saved_again_goes_under_another_name_first():
    run, remote = Run(), {}
    run.save(10)
    push(run, remote)
    run.save(10)
    ops = send_order.plan(run.local(), remote, run.newest, run.newest)
    assert ops.index(('checkpoint', send_order.twin_pointer('model.ckpt-10'))) < ops.index(
        ('model.ckpt-10.index', None)
    )
    push(run, remote)
    assert remote == {
        name: digest for name, digest in run.local().items() if name != send_order.twin_pointer(run.newest)
    }


@pytest.mark.parametrize('seed', range(150))
def test_every_prefix_of_every_push_is_a_whole_run(seed):
    """Saves, evaluations, saves of an old step, senders that are killed, and senders that do not know what was
    sent last."""
    chance, run, remote = random.Random(seed), Run(), {}
    step, named_before = 0, set()
    for _ in range(8):
        step = max(1, step + chance.choice((10, 10, 0, -10)))
        run.save(step, shards=chance.choice((1, 2)) if step > 30 else 2, keep=3)
        if chance.random() < 0.6:
            run.evaluate(best=chance.random() < 0.5)
        known = {name: chance.choice((digest, digest, None)) for name, digest in remote.items()}
        push(run, remote, known, chance.choice((None, chance.randrange(20))), named_before)
    push(run, remote, None, None, named_before)
    local = run.local()
    del local[send_order.twin_pointer(run.newest)]
    assert remote == local


def test_checkpoints_of_another_machine_go_as_those_here_would():
    run = Run()
    run.save(50, shards=1)
    old = {f'model.ckpt-{n}.{part}': None for n in (20, 30, 40) for part in ('index', 'data-00000-of-00001')}
    orphan = {'model.ckpt-45.data-00000-of-00001': None}
    ops = send_order.plan(run.local(), {**old, **orphan}, run.newest, 'model.ckpt-40', foreign={*old, *orphan}, keep=3)
    assert [op.name for op in ops if op.source is None] == [
        *('model.ckpt-20.index', 'model.ckpt-20.data-00000-of-00001', 'model.ckpt-45.data-00000-of-00001')
    ]


def test_without_a_whole_checkpoint_here_the_one_there_stays():
    there = {'model.ckpt-10.index': 'a', 'model.ckpt-10.data-00000-of-00001': 'a', 'checkpoint': 'model.ckpt-10'}
    assert send_order.plan({}, there, None, 'model.ckpt-10') == []


def test_other_tasks_hear_of_a_start_before_anything_else_is_sent():
    run = Run()
    run.save(10)
    run.evaluate(best=True)
    run.files[names.START] = 'start'
    ops = [op.name for op in send_order.plan(run.local(), {}, run.newest, None)]
    assert ops[ops.index(names.POINTER) + 1] == names.START


OF_THE_JOB = (
    *('checkpoint_notes.json', 'checkpoints/best.h5', 'checkpoint.txt', 'words.index', 'faiss-20.index', 'vocab.meta'),
    *('export/tflite/1700/model.tflite', 'export/tflite/1700/labels/a.txt', 'export/readme.txt'),
)


@pytest.mark.parametrize('name', OF_THE_JOB)
def test_what_only_looks_like_a_part_of_something_is_sent_and_deleted_like_any_file(name):
    run = Run()
    run.save(10)
    run.files[name] = 'of the job'
    remote = {}
    push(run, remote)
    assert remote[name] == 'of the job'
    del run.files[name]
    push(run, remote)
    assert name not in remote


@pytest.mark.parametrize('keep', [0, 3])
@pytest.mark.parametrize(
    'name',
    [
        *filter(names.checkpoint_of, OF_THE_JOB),
        'model.ckpt-7.index',
        'model.ckpt-7.meta',
        'ckpt-7.data-00000-of-00001',
        'w.data-00000-of-00001',
    ],
)
def test_an_object_that_is_no_checkpoint_of_a_run_is_not_deleted(name, keep):
    run = Run()
    run.save(10, shards=1)
    for local, newest in ((run.local(), run.newest), ({}, None)):
        ops = send_order.plan(local, {name: None}, newest, None, foreign=[name], keep=keep)
        assert send_order.Op(name, None) not in ops


@pytest.mark.parametrize('checkpoint', ['weights', 'best-3'])
def test_the_jobs_own_checkpoints_are_of_one_save_as_well(checkpoint):
    run, remote = Run(), {}
    run.save(10)
    index, data = f'{checkpoint}.index', f'{checkpoint}.data-00000-of-00001'
    for save in ('one', 'two'):
        run.files |= {index: save, data: save}
        push(run, remote)
        assert remote[index] == remote[data] == save
    ops = send_order.plan({**run.local(), index: 'three', data: 'three'}, remote, run.newest, run.newest)
    assert ops == [(index, None), (data, data), (index, index)]
    del run.files[data], run.files[index]
    push(run, remote)
    assert not names.with_data(remote) - {'model.ckpt-10'} and index not in remote


def test_a_checkpoint_whose_data_are_gone_here_loses_its_index_there_first():
    run, remote = Run(), {}
    run.save(10, shards=1)
    run.save(20, shards=1)
    push(run, remote)
    del run.files['model.ckpt-10.data-00000-of-00001']
    ops = send_order.plan(run.local(), remote, run.newest, run.newest)
    assert ops == [('model.ckpt-10.index', None), ('model.ckpt-10.data-00000-of-00001', None)]


def test_a_folder_of_an_export_that_is_being_removed_loses_its_saved_model_first_and_before_it_what_names_it():
    run, remote = Run(), {}
    run.save(10)
    run.evaluate(best=True)
    push(run, remote)
    [model] = [name for name in run.files if name.endswith('/saved_model.pb')]
    del run.files[model], run.files['export/best/best.json']
    ops = send_order.plan(run.local(), remote, run.newest, run.newest)
    assert ops == [('export/best/best.json', None), (model, None)]
    push(run, remote)


@pytest.mark.parametrize('seed', range(100))
def test_every_prefix_is_a_whole_run_among_files_of_the_job(seed):
    chance, run, remote, named_before = random.Random(seed), Run(), {}, set()
    parts = [
        f'{unit}.{part}'
        for unit in ('weights', 'best-3')
        for part in ('index', 'meta', 'data-00000-of-00002', 'data-00001-of-00002')
    ]
    for number in range(8):
        run.save(10 * (number + 1) if chance.random() < 0.7 else max(10, 10 * number), keep=3)
        if chance.random() < 0.5:
            run.evaluate(best=chance.random() < 0.5)
        for name in OF_THE_JOB:
            if chance.random() < 0.4:
                run.files.pop(name, None)
            elif chance.random() < 0.5:
                run.files[name] = f'file {number}'
        for unit in ('weights', 'best-3'):  # whole, or gone
            files = dict.fromkeys([name for name in parts if name.startswith(unit)], f'{unit} {number}')
            run.files = {name: digest for name, digest in run.files.items() if name not in files}
            run.files |= files if chance.random() < 0.6 else {}
        known = {name: chance.choice((digest, digest, None)) for name, digest in remote.items()}
        push(run, remote, known, chance.choice((None, chance.randrange(20))), named_before)
    push(run, remote, None, None, named_before)
    local = run.local()
    del local[send_order.twin_pointer(run.newest)]
    assert remote == local
