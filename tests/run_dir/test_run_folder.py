"""RunFolder: what the files of a model_dir say, whichever of them are missing, damaged or cut short."""

import fcntl
import json
import os
import pathlib
import subprocess
import sys

import pytest

from estimator_trainer.run_dir import file_names, locks, metrics_log, training_file, written_files
from estimator_trainer.run_dir.listed_files import Log
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.run_dir.run_verdict import Holders

OBJECTS = {
    file_names.CONFIG: ('config', {'job': 'mnist', 'flags': {'seed': 1}, 'params': {'l2': 0.0}}),
    file_names.TRAINING: ('training', {'state': 'training', 'step': 7, 'generation': 'g1'}),
    file_names.STATUS: ('status', {'state': 'training'}),
    file_names.REPORT: ('report', {'exit_code': 0, 'started': 5.0, 'attempts': [{'attempt': 1}, 'x']}),
    file_names.EARLIER_STARTS: ('earlier_starts', {'earlier_starts': []}),
    file_names.STOP: ('stop', {'step': 5}),
    file_names.LAST_EVALUATION: ('last_evaluation', {'checkpoint': 'model.ckpt-7', 'done': True}),
    file_names.BEST_EXPORT: ('best', {'metric': 'accuracy'}),
}


def write(folder, name, content='') -> None:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content))


@pytest.mark.parametrize('name', ['nowhere', 'empty', 'file'])
def test_where_there_is_no_run_everything_is_empty(tmp_path, name):
    (tmp_path / 'empty').mkdir()
    (tmp_path / 'file').touch()
    run = RunFolder(str(tmp_path / name))
    assert [getattr(run, attribute) for attribute, _ in OBJECTS.values()] == [{}] * len(OBJECTS)
    assert (run.flags, run.params, run.attempts, run.training_status) == ({}, {}, [], None)
    assert (run.checkpoints, run.exports, run.logs, run.entries, run.steps) == ([], [], [], [], set())
    assert (run.named_step, run.named_time, run.has_checkpoint) == (None, None, False)
    assert (run.last_metrics, run.evaluation_lines, run.newest_evaluation, run.evaluation_folders) == ([], [], {}, [])
    assert list(run.metrics()) == [] and run.events() == [] and run.holders == Holders()
    assert run.verdict(0.0).kind == 'unknown' and run.problems == []


def test_objects(tmp_path):
    for name, (_, value) in OBJECTS.items():
        write(tmp_path, name, value)
    run = RunFolder(str(tmp_path))
    for attribute, value in OBJECTS.values():
        assert getattr(run, attribute) == value
    assert (run.flags, run.params, run.attempts) == ({'seed': 1}, {'l2': 0.0}, [{'attempt': 1}])
    assert run.training_status == training_file.TrainingStatus('training', step=7, generation='g1')
    assert run.problems == []


@pytest.mark.parametrize('name', OBJECTS)
@pytest.mark.parametrize(
    'content, words', [('{"a": ', 'it is no JSON'), ('[1]', 'it holds no object'), ('', 'it is no JSON')]
)
def test_a_damaged_object_is_empty_and_named(tmp_path, name, content, words):
    write(tmp_path, name, content)
    run = RunFolder(str(tmp_path))
    assert getattr(run, OBJECTS[name][0]) == {}
    (problem,) = run.problems
    assert problem.startswith(f'{name} is damaged: ') and words in problem


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / 'config.json').mkdir()
    run = RunFolder(str(tmp_path))
    assert (run.config, run.problems) == ({}, ['config.json cannot be read: Is a directory.'])


def test_flags_that_are_no_object(tmp_path):
    write(tmp_path, 'config.json', {'flags': 7, 'params': []})
    write(tmp_path, 'report.json', {'attempts': 'x'})
    run = RunFolder(str(tmp_path))
    assert (run.flags, run.params, run.attempts) == ({}, {}, [])


def test_a_file_is_read_once(tmp_path):
    write(tmp_path, 'training.json', {'state': 'training', 'step': 1})
    run = RunFolder(str(tmp_path))
    assert run.training['step'] == 1
    write(tmp_path, 'training.json', {'state': 'training', 'step': 2})
    assert run.training['step'] == 1 and RunFolder(str(tmp_path)).training['step'] == 2


def test_the_attempts_of_a_cluster_that_lives_are_those_of_its_status(tmp_path):
    write(tmp_path, 'status.json', {'started': 5.0, 'attempts': [{'attempt': 1}]})
    run = RunFolder(str(tmp_path))
    assert run.attempts == [{'attempt': 1}] and [start['start'] for start in run.starts] == [1]


@pytest.mark.parametrize('name', ['.trainer.lock', '.cluster.lock', 'eval/.lock'])
def test_who_holds_a_lock(tmp_path, name):
    write(tmp_path, name, '1')
    assert not RunFolder(str(tmp_path)).holders
    with open(tmp_path / name) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        holders = RunFolder(str(tmp_path)).holders
    assert (holders.trainer, holders.cluster, holders.evaluator) == (
        name == '.trainer.lock',
        name == '.cluster.lock',
        name == 'eval/.lock',
    )


def test_a_lock_that_is_held_is_life(tmp_path):
    write(tmp_path, 'training.json', {'state': 'training', 'time': 0})
    write(tmp_path, '.trainer.lock', '1')
    with open(tmp_path / '.trainer.lock') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert RunFolder(str(tmp_path)).verdict(1e9).kind == 'alive'
    assert RunFolder(str(tmp_path)).verdict(1e9).kind == 'lost'


@pytest.mark.skipif(locks.boot_id() == '?', reason='this machine does not say since when it runs')
def test_who_was_killed_on_this_machine_is_gone_at_once(tmp_path):
    write(tmp_path, 'training.json', {'state': 'training', 'time': 1000})
    assert RunFolder(str(tmp_path)).verdict(1001).kind == 'alive'
    for boot, kind in ((locks.boot_id(), 'lost'), ('another', 'alive')):
        write(tmp_path, '.trainer.lock', f'7 node {boot}')
        assert RunFolder(str(tmp_path)).verdict(1001).kind == kind
    write(tmp_path, '.trainer.lock', f'7 node {locks.boot_id()}')
    with open(tmp_path / '.trainer.lock') as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert RunFolder(str(tmp_path)).verdict(1001).kind == 'alive'


def test_a_pipe_in_place_of_a_lock_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / '.trainer.lock')
    assert not RunFolder(str(tmp_path)).holders


def test_a_folder_that_cannot_be_listed(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, 'Permission denied', path)

    monkeypatch.setattr(os, 'listdir', refuse)
    run = RunFolder(str(tmp_path))
    assert run.has_checkpoint and run.steps == set()
    with pytest.raises(PermissionError):
        assert run.checkpoints


def test_what_was_measured(tmp_path):
    write(
        tmp_path, 'eval/metrics.jsonl', '{"loss": 0.5, "stfp": 20}\n{"loss": 0.25, "step": 9}\n{"loss": 1, "step": 3}\n'
    )
    write(tmp_path, 'eval/events.out.tfevents.1', 'not read: the lines say it all')
    write(tmp_path, 'eval_x/events.out.tfevents.2', 'cut')
    write(tmp_path, 'eval_x/events.out.tfevents.3', 'x' * 11)
    run = RunFolder(str(tmp_path))
    assert run.measured('eval', 10) == ({3: {'loss': 1.0}, 9: {'loss': 0.25}}, [])
    _, (cut, large) = run.measured('eval_x', 10)
    assert cut.startswith('eval_x/events.out.tfevents.2 ends within a record')
    assert large == 'eval_x/events.out.tfevents.3 is not read: it has 0 MiB.'


def test_logs_and_events(tmp_path):
    for name in ('attempt-10/a.err', 'attempt-2/a.err'):
        write(tmp_path, f'logs/{name}', 'x')
    write(tmp_path, 'logs/attempt-2/empty.out')
    for name in ('events.out.tfevents.2.host', 'eval/events.out.tfevents.1', 'eval_x/a', 'keras/eval/b', 'evaluate'):
        write(tmp_path, name)
    run = RunFolder(str(tmp_path))
    assert run.logs == [Log('logs/attempt-2/a.err', 1), Log('logs/attempt-10/a.err', 1)]
    assert run.events() == [f'{tmp_path}/events.out.tfevents.2.host']
    assert run.events('eval') == [f'{tmp_path}/eval/events.out.tfevents.1']
    assert run.evaluation_folders == ['eval', 'eval_x', 'keras/eval']


def test_metrics_since_a_position(tmp_path):
    path = tmp_path / 'metrics.jsonl'
    path.write_text('{"step": 1}\n{"st\n[1]\n\n{"step": 2}\n{"step": 3')
    (block,) = RunFolder(str(tmp_path)).metrics()
    assert block == metrics_log.Block([{'step': 1}, {'step': 2}], path.stat().st_size - len('{"step": 3'), 2, True)
    assert list(RunFolder(str(tmp_path)).metrics(block.end)) == [metrics_log.Block([], block.end, 0, True)]
    path.write_text(path.read_text() + '0}')  # an object is whole without the end of its line
    (later,) = RunFolder(str(tmp_path)).metrics(block.end)
    assert later == metrics_log.Block([{'step': 30}], path.stat().st_size, 0, False)
    path.write_text(path.read_text() + '\n{"step": 40}\n')
    (last,) = RunFolder(str(tmp_path)).metrics(later.end)
    assert (last.lines, last.damaged, last.is_cut) == ([{'step': 40}], 0, False)


def test_last_metrics_and_evaluations(tmp_path):
    write(tmp_path, 'metrics.jsonl', ''.join(f'{{"step": {step}, "loss": 0.5}}\n' for step in range(10_000)) + '{"st')
    write(tmp_path, 'eval/metrics.jsonl', '{"step": 1}\n{"step": 2, "auc": 0.5}\n{"step"')
    run = RunFolder(str(tmp_path))
    assert 1000 < len(run.last_metrics) < 10_000 and run.last_metrics[-1] == {'step': 9999, 'loss': 0.5}
    assert (
        run.evaluation_lines == [{'step': 1}, {'step': 2, 'auc': 0.5}]
        and run.newest_evaluation == run.evaluation_lines[1]
    )


def test_the_files_that_are_read_are_listed_in_the_reference():
    paths = {path for file in written_files.FILES for path in file.paths}
    read = {value for name, value in vars(file_names).items() if name.isupper() and isinstance(value, str)}
    read -= {
        file_names.STUDY,
        file_names.SWEEP,
        file_names.SWEEP_LOCK,
        file_names.GRAPH,
        file_names.EVENTS,
        file_names.DAMAGED,
    }
    assert read <= paths


def test_it_imports_no_tensorflow():
    code = 'import sys, estimator_trainer.run_dir.run_folder, estimator_trainer.run_dir.events\n'
    code += 'assert not {"tensorflow", "numpy", "tensorboard"} & set(sys.modules)'
    root = str(pathlib.Path(__file__).parents[2])
    subprocess.run([sys.executable, '-c', code], check=True, cwd=root)
