"""Which job a name means, what its params become, and what is refused before TensorFlow is imported."""

import copy
import dataclasses
import functools
import pathlib
import pickle
import sys
import types

import pytest

from estimator_trainer import jobs
from estimator_trainer.jobs import Job, JobError, KerasParts, top_imports
from estimator_trainer.jobs.job import RUN_PARAMS


def model_fn(features, labels, mode, params):
    raise AssertionError('nothing here trains')


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder; modules imported from it are forgotten afterwards, as is sys.path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, 'path', list(sys.path))
    monkeypatch.setattr(sys, 'dont_write_bytecode', True)
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], '__file__', None)).startswith(str(tmp_path)):
            del sys.modules[name]


def load_refused(name):
    with pytest.raises(JobError) as caught:
        jobs.load(name)
    assert f'--job={name}:' in str(caught.value)
    return str(caught.value)


MODULE = """
from estimator_trainer.jobs import Job
def model_fn(features, labels, mode, params): pass
job = Job(model_fn=model_fn, params={'hidden': 8})
def make(): return Job(model_fn=model_fn, params={'hidden': 9})
number = 3
def make_number(): return 3
"""


@pytest.mark.parametrize(
    'name, meant',
    [
        ('u_census', '--job=u_census:work'),
        ('u_census.py', '--job=u_census:work'),
        ('u_census.py:job', '--job=u_census:job'),
        ('u_census.work', '--job=u_census:work'),
        ('u_sub/deep', '--job=u_sub.deep:job'),
        ('u_sub/deep.py:job', '--job=u_sub.deep:job'),
        ('../up.py', '--job=up:job, with .. on PYTHONPATH'),
    ],
)
def test_a_job_named_by_its_file(folder, monkeypatch, name, meant):
    (folder / 'inner' / 'u_sub').mkdir(parents=True)
    monkeypatch.chdir(folder / 'inner')
    (folder / 'up.py').touch()
    pathlib.Path('u_census.py').write_text('import tensorflow\nwork = jobs.Job(\n')
    pathlib.Path('u_sub/deep.py').touch()
    assert f'did you mean {meant}?' in load_refused(name)


@pytest.mark.parametrize('name', jobs.BUILT_IN)
def test_built_in(name):
    job = jobs.load(name)
    assert isinstance(job, Job) and (job.model_fn or job.make_estimator) and job.check
    assert (job.best_metric, job.best_mode) == ('auc' if name == 'wide_and_deep' else 'accuracy', 'max')
    job.check(dict(job.params))  # the defaults are good


@pytest.mark.parametrize('name, hidden', [('u_mine:job', 8), ('u_mine:make', 9), ('u_pkg.mine:job', 8)])
def test_own_job_in_the_current_folder(folder, name, hidden):
    (folder / 'u_mine.py').write_text(MODULE)
    (folder / 'u_pkg').mkdir()
    (folder / 'u_pkg' / 'mine.py').write_text(MODULE)
    assert jobs.load(name).params == {'hidden': hidden}


@pytest.mark.parametrize(
    'name, parts',
    [
        ('mnst', ["did you mean 'mnist'?", 'fashion_mnist, mnist, wide_and_deep', 'package.module:attribute']),
        ('zzz', ['no built-in job has this name. ']),
        ('u_mine', ['package.module:attribute']),
        ('u_mine:', ['package.module:attribute']),
        (':job', ['package.module:attribute']),
        ('u_mien:job', ["no module named 'u_mien'"]),
        ('u_no.such.mine:job', ["no module named 'u_no'"]),
        ('u_pkg.mien:job', ["no module named 'u_pkg.mien'"]),
        ('u_mine:jbo', ['module u_mine has no attribute', "'jbo'", "did you mean 'job'?"]),
        ('u_mine:number', ['number is a int']),
        ('u_mine:make_number', ['make_number is a int']),
    ],
)
def test_jobs_that_are_not_there(folder, name, parts):
    (folder / 'u_mine.py').write_text(MODULE)
    (folder / 'u_pkg').mkdir()
    message = load_refused(name)
    assert all(part in message for part in parts), message


def test_the_message_says_where_was_looked(folder):
    assert str(folder) in load_refused('u_mien:job')


@pytest.mark.parametrize(
    'line, error',
    [
        ('import u_not_installed', ModuleNotFoundError),
        ('import u_broken.part', ModuleNotFoundError),  # begins with the name of the job's module
        ('from json import no_such_name', ImportError),
        ('1 / 0', ZeroDivisionError),
    ],
)
def test_the_own_fault_of_a_module_is_not_taken_for_its_absence(folder, line, error):
    (folder / 'u_broken.py').write_text(line)
    with pytest.raises(error):
        jobs.load('u_broken:job')


def test_a_relative_name():
    load_refused('.mine:job')


def test_a_function_that_wants_arguments(folder):
    (folder / 'u_mine.py').write_text('def make(params): pass')
    load_refused('u_mine:make')


PARTS = KerasParts(loss=model_fn, make_optimizer=model_fn)


@pytest.mark.parametrize(
    'given, parts',
    [
        ({}, ['model_fn', 'make_estimator']),
        (dict(model_fn=model_fn, make_estimator=model_fn), ['model_fn', 'make_estimator']),
        (dict(make_model=model_fn), ['make_model and parts']),
        (dict(model_fn=model_fn, file_spec={}), ['Job(file_spec=…) is a dict', 'a function: (params) -> FileSpec']),
        (dict(model_fn=model_fn, parts=PARTS), ['make_model and parts']),
        (dict(make_model=model_fn, parts=PARTS, make_estimator=model_fn), ['make_estimator']),
        (dict(make_model=model_fn, parts={'loss': model_fn}), ['Job(parts=…) is a dict', 'KerasParts(loss=…']),
        (dict(model_fn=model_fn, params=['rate']), ['Job(params=…) is a list', 'a dict']),
        *((dict(model_fn=model_fn, num_train_examples=number), ['at least 1']) for number in (0, '1000', 1e3)),
        (dict(model_fn=model_fn, best_mode='most'), ['best_mode', "'most'"]),
        (dict(model_fn=model_fn, best_metric='fairness'), ["'fairness'", "best_mode='min' or 'max'"]),
        (
            dict(model_fn=model_fn, input_fn=lambda mode, files: None),
            ['takes files', 'mode, params, config, input_context'],
        ),
        (dict(model_fn=model_fn, params={'layers': {'a': 1}}), ["'layers'", 'a dict']),
        (dict(model_fn=model_fn, params={'layers': []}), ["'layers'", 'an empty list', 'give it a value']),
        (dict(model_fn=model_fn, params={'layers': [1, 'a']}), ["'layers'", "[1, 'a']", 'numbers']),
        (dict(model_fn=model_fn, params={'layers': (True,)}), ["'layers'", '[True]']),
        (dict(model_fn=model_fn, inputfn=model_fn), ['Job(inputfn=…)', 'did you mean input_fn?']),
        (dict(model_fn=model_fn, zzz=1), ['Job(zzz=…)', 'its fields are model_fn, make_estimator']),
        (dict(model_fn=model_fn, params={'rate': None}), ["'rate'", 'NoneType']),
        *((dict(model_fn=model_fn, params={name: 1}), [f"'{name}'", 'rename']) for name in RUN_PARAMS),
    ],
)
def test_what_is_no_job(given, parts):
    with pytest.raises(JobError) as caught:
        Job(**given)
    assert all(part in str(caught.value) for part in parts), caught.value


@pytest.mark.parametrize(
    'given', [dict(model_fn=model_fn), dict(make_estimator=model_fn), dict(make_model=model_fn, parts=PARTS)]
)
def test_the_least_job(given):
    job = Job(**given, params={'a': True, 'b': 1, 'c': 1.5, 'd': 'x'})
    assert (job.best_metric, job.best_mode, job.input_fn, job.check) == ('loss', 'min', None, None)


@pytest.mark.parametrize(
    'given, said',
    [
        (dict(loss_fn=model_fn, make_optimizer=model_fn), 'did you mean loss?'),
        (dict(loss=model_fn), 'make_optimizer is missing'),
        (
            dict(loss='mse', make_optimizer=model_fn),
            r'KerasParts\(loss=…\) is a str, and has to be a function: \(labels, ',
        ),
    ],
)
def test_what_is_no_keras_parts(given, said):
    with pytest.raises(JobError, match=said.replace('?', r'\?')):
        KerasParts(**given)


def test_a_subclass_may_take_something_else():
    class Mine(Job):
        def __init__(self, files):
            super().__init__(model_fn=model_fn, params={'files': files})

    assert Mine(files='a').params == {'files': 'a'}


def test_jobs_and_parts_can_be_copied_and_pickled():
    job = Job(make_model=model_fn, parts=PARTS, params={'layers': [1]})
    parts = pickle.loads(pickle.dumps(PARTS))
    assert parts == PARTS and dataclasses.replace(job, params={}).params == {}
    assert copy.deepcopy(job).params == {'layers': [1]}


def test_what_is_derived_follows_a_replaced_field():
    job = Job(make_model=model_fn, parts=PARTS, best_metric='accuracy')
    other = dataclasses.replace(job, make_model=lambda params: None, best_metric='loss')
    assert other.model_fn not in (None, job.model_fn) and (job.best_mode, other.best_mode) == ('max', 'min')
    assert dataclasses.replace(job, best_mode='min').best_mode == 'min'
    own = dataclasses.replace(job, model_fn=model_fn)
    assert dataclasses.replace(own, params={'a': 1}).model_fn is model_fn
    wrapped = functools.wraps(job.model_fn)(lambda *args: job.model_fn(*args))
    assert dataclasses.replace(job, model_fn=wrapped).model_fn is wrapped
    unhashable = dataclasses.make_dataclass('Model', [], namespace={'__call__': model_fn})()
    assert dataclasses.replace(job, model_fn=unhashable).model_fn is unhashable
    assert dataclasses.replace(job, make_model=None, parts=None, model_fn=model_fn).model_fn is model_fn
    with pytest.raises(JobError, match='has a make_model, or else'):
        dataclasses.replace(job, make_model=None, parts=None)
    with pytest.raises(JobError, match='whether lower or higher is better'):
        dataclasses.replace(job, best_metric='mine')


@pytest.mark.parametrize(
    'text, brings',
    [
        ('import tensorflow as tf', True),
        ('if True:\n    from tensorflow.keras import layers', True),
        ('with open("x"):\n    import keras', True),
        ('from .sister import x', True),
        ('from . import sister', True),
        ('from u_pack.sister import x', True),
        ('import json, u_pack.nothing', False),
        ('def model_fn():\n    import tensorflow', False),
        ('from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import tensorflow', False),
        ('from estimator_trainer.jobs import Job', False),
        ('job = (', False),
    ],
)
def test_what_the_source_of_a_job_says_of_tensorflow(folder, text, brings):
    (folder / 'u_pack').mkdir()
    sys.path.insert(0, str(folder))
    (folder / 'u_pack' / '__init__.py').touch()
    (folder / 'u_pack' / 'sister.py').write_text('import tensorflow')
    (folder / 'u_pack' / 'job.py').write_text(text)
    assert top_imports.brings_tensorflow('u_pack.job') == brings
    assert 'u_pack' not in sys.modules


def test_the_source_of_a_job_in_folders_without_init(folder):
    (folder / 'u_outer' / 'inner').mkdir(parents=True)
    sys.path.insert(0, str(folder))
    (folder / 'u_outer' / 'inner' / 'job.py').write_text('import tensorflow')
    assert top_imports.brings_tensorflow('u_outer.inner.job')
    assert not top_imports.brings_tensorflow('u_outer.inner.other')


def test_a_light_job_is_loaded_early(folder):
    (folder / 'u_light.py').write_text('from estimator_trainer.jobs import Job\njob = Job(print)')
    assert jobs.load_early('u_light:job').model_fn is print


def test_a_job_that_is_not_python_is_refused(folder):
    (folder / 'u_broken.py').write_text('job = (')
    with pytest.raises(JobError, match=r'u_broken\.py, line 1'):
        jobs.load_early('u_broken:job')


def test_a_name_of_tensorflow_1_is_refused_with_its_cure(folder, monkeypatch):
    tensorflow = types.ModuleType('tensorflow')
    tensorflow.data = types.SimpleNamespace(Dataset=type('Dataset', (), {}))
    tensorflow.compat = types.SimpleNamespace(v1=types.SimpleNamespace(app=None))
    monkeypatch.setitem(sys.modules, 'tensorflow', tensorflow)
    (folder / 'of_2018.py').write_text('import tensorflow as tf\nFLAGS = tf.app.flags\n')
    with pytest.raises(
        jobs.JobError, match=r'of_2018.py, line 2: tf.app is of TensorFlow 1: .* estimator_trainer.compat.tf1'
    ):
        jobs.load('of_2018:job')
    (folder / 'broken_today.py').write_text('import tensorflow as tf\nx = tf.no_such_name\n')
    with pytest.raises(AttributeError, match='no_such_name'):
        jobs.load('broken_today:job')


def test_a_program_is_no_job(folder):
    (folder / 'program.py').write_text('import tensorflow\n')
    with pytest.raises(
        jobs.JobError, match='program.py holds no Job. `python -m estimator_trainer.compat run program.py`'
    ):
        jobs.load('program')
