"""What the recorder does without TensorFlow: where a program writes, how far it trains, and what is written down."""

import os
import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest

from estimator_trainer.compat import hook
from estimator_trainer.compat.patches import seeds
from estimator_trainer.compat.recorder.estimator_recorder import limits, recording
from estimator_trainer.tools.comparison import traces


def test_folders_of_the_program_move_into_the_folder_of_the_run(tmp_path):
    folders = limits.Folders(tmp_path / 'run')
    model = folders.moved('/data/models/first')
    assert model.startswith(str(tmp_path / 'run')) and 'first' in model
    assert folders.moved('/data/models/first') == folders.moved('/data/models/../models/first') == model
    assert folders.moved('/data/models/first/export') == f'{model}/export'
    assert folders.moved('/data/models/firstborn') != model
    assert folders.moved(f'{model}/export') == f'{model}/export'
    assert folders.moved(None) != folders.moved(None)
    assert folders.moved('gs://bucket/model').startswith(str(tmp_path / 'run'))
    assert limits.Folders(tmp_path / 'run').moved('/data/models/first') == model, 'another process has another folder'


def test_what_a_warm_start_reads_moves_only_with_its_model(tmp_path):
    folders = limits.Folders(tmp_path)
    assert folders.known('/data/pretrained/model.ckpt-5') is None
    first = folders.moved('/data/first')
    assert folders.known('/data/first/model.ckpt-5') == f'{first}/model.ckpt-5'


@pytest.mark.parametrize(
    'start, asked, end',
    [
        (0, dict(max_steps=1000), 20),
        (0, dict(max_steps=5), 5),
        (0, dict(steps=5), 5),
        (0, dict(steps=1000), 20),
        (0, dict(), 20),
        (20, dict(max_steps=5), 25),
        (20, dict(max_steps=1000), 40),
        (20, dict(steps=1000), 40),
    ],
)
def test_a_call_of_train_ends_within_the_budget(start, asked, end):
    assert limits.Budget(20).end('model', start, **asked) == end


@pytest.mark.parametrize(
    'checkpoint, step', [('/run-1/model.ckpt-20', 20), ('/run-1/model.ckpt', 0), ('/run-1/best-0', 0), (None, 0)]
)
def test_the_step_in_the_name_of_a_checkpoint(checkpoint, step):
    assert limits.step_of(checkpoint) == step


def test_calls_of_train_share_a_budget():
    budget = limits.Budget(20)
    assert [budget.end('model', start, steps=8) for start in (0, 8, 16, 20)] == [8, 16, 20, 20]
    assert budget.end('another', 0, steps=8) == 8
    continued = limits.Budget(20)
    planned = continued.plan('model', 20, 5)
    assert planned == continued.end('model', 20, max_steps=planned) == 25, 'train_and_evaluate passes it to train'


def test_what_is_recorded_can_be_read(tmp_path):
    made = recording.Recording(tmp_path)
    where = dict(estimator=0, model_dir='model', call=0)
    large = np.arange(1000, dtype=np.float32)
    weights = {
        'kernel': made.array(np.float32([[1, 2]]), 100),
        'kernel/Adam': made.array(np.float64([3]), 100),
        'table': made.array(large, 100, before=large - 1),
    }
    made.write('weights', step=0, variables=weights, trainable=['kernel'], **where)
    made.write(
        'step',
        step=1,
        loss=made.array(np.float32(0.5), 9),
        inputs={'x': made.array([b'\xff', b'b'], 9)},
        rows=[],
        **where,
    )
    for number in range(2):
        values = {'y': made.array(np.float32([number, 1]), 9), 'map': made.array(large + number, 9)}
        made.write('prediction', example=number, values=values, **where)

    found = traces.read(tmp_path)
    by_name = {(key.thing, key.name): each for key, each in found.values.items()}
    assert by_name['weights', 'kernel'].shape == (1, 2) and list(by_name['weights', 'kernel'].numbers) == [1, 2]
    assert ('slots', 'kernel/Adam') in by_name and found.losses() == {0: {1: 0.5}}
    table = by_name['weights', 'table']
    assert (table.largest, table.numbers[0], table.numbers[-1], len(table.numbers)) == (999, 0, 999, 100)
    assert table.moved == pytest.approx(np.sqrt(1000)) and table.norm == pytest.approx(np.linalg.norm(large))
    assert list(by_name['predictions', 'y'].numbers) == [0, 1, 1, 1]
    image = by_name['predictions', 'map']  # of which each example is a sample
    assert len(image.numbers) == 18 and image.largest == 1000
    assert image.norm == pytest.approx(np.hypot(np.linalg.norm(large), np.linalg.norm(large + 1)))
    assert "'b'" in by_name['inputs', 'x'].text


def test_one_process_records(tmp_path):
    first, second = recording.Recording(tmp_path), recording.Recording(tmp_path)
    assert first.is_recorder() and not second.is_recorder()
    assert traces.read(tmp_path).other_processes == 1
    first._process = os.getppid()  # as after a fork
    first.write('skipped', estimator=0, model_dir='model', call=0)
    assert not (tmp_path / recording.EVENTS).read_text()


def test_an_event_that_is_half_written_is_none(tmp_path):
    made = recording.Recording(tmp_path)
    assert made.is_recorder()
    made.array(np.ones(5), 9)
    made.write('skipped', estimator=0, model_dir='model', call=0)
    with open(tmp_path / recording.EVENTS, 'a') as file:
        file.write('{"kind": "skip')
    assert traces.read(tmp_path).skipped == 1


_SEEDS = """
import importlib.util, random, sys, numpy
def load(path):
    spec = importlib.util.spec_from_file_location('alone', path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
hook, seeds = map(load, sys.argv[1:])
seeds.install(hook, 1)
random.seed(5)
numpy.random.seed(6)
import tensorflow
print(tensorflow.drawn, [random.random(), numpy.random.random_sample()])
"""


def test_the_import_of_a_library_leaves_the_random_numbers_as_they_were(tmp_path):
    """tensorflow here is a module that draws numbers when it is imported."""
    (tmp_path / 'tensorflow/python/framework').mkdir(parents=True)
    for name, text in {
        '__init__': 'import numpy\nimport random as generator\nfrom tensorflow import own as random\n'
        'drawn = [generator.random(), numpy.random.random_sample()]',
        'own': 'def set_seed(seed):\n    assert seed == 1',
        'python/framework/random_seed': 'def get_seed(op_seed):\n    raise AssertionError',
    }.items():
        (tmp_path / 'tensorflow' / f'{name}.py').write_text(text)
    environ = {**os.environ, 'PYTHONPATH': f'{tmp_path}{os.pathsep}{pathlib.Path(np.__file__).parents[1]}'}
    # -S: no package acts on the import of TensorFlow. The two files alone, as `verify` loads them.
    command = [sys.executable, '-S', '-c', _SEEDS, hook.__file__, seeds.__file__]
    done = subprocess.run(command, env=environ, cwd=tmp_path, text=True, capture_output=True)
    numbers = [random.Random(5).random(), np.random.RandomState(6).random_sample()]
    assert done.stdout == f'{numbers} {numbers}\n', done.stderr  # drawn by the import, and after it
