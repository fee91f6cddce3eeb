"""How a call names its job, and what it writes for a Job that has no name."""

import os
import pathlib
import sys
import types

import pytest

from estimator_trainer import jobs
from estimator_trainer.api import call_flags
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import Job, mnist


def model_fn(features, labels, mode, params):
    raise AssertionError('nothing here trains')


@pytest.mark.parametrize('name', ['mnist', 'a.b:c', pathlib.Path('x.pkl')])
def test_a_name_is_taken_as_it_is(name):
    assert call_flags.job_name(name, '/no/folder') == str(name)


def test_a_job_of_a_module_is_named():
    assert call_flags.job_name(mnist.job, '/no/folder') == 'estimator_trainer.jobs.mnist:job'


def test_a_job_that_no_module_holds_is_written(tmp_path):
    path = call_flags.job_name(Job(model_fn=model_fn, params={'a': 1}), str(tmp_path))
    assert os.path.dirname(path) == str(tmp_path) and jobs.load(path).params == {'a': 1}


@pytest.mark.parametrize('name', ['__main__', 'made_by_hand'])
def test_a_module_that_cannot_be_imported_anew_names_nothing(tmp_path, monkeypatch, name):
    module = types.ModuleType(name)
    module.job = Job(model_fn=model_fn)
    monkeypatch.setitem(sys.modules, name, module)
    assert call_flags.job_name(module.job, str(tmp_path)).endswith('.pkl')


def test_a_module_of_a_file_that_another_one_hides(tmp_path, monkeypatch):
    (tmp_path / 'u_hidden.py').write_text('from estimator_trainer import Job\njob = Job(model_fn=print)\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    import u_hidden

    assert call_flags.job_name(u_hidden.job, '') == 'u_hidden:job'
    other = tmp_path / 'other'
    other.mkdir()
    (other / 'u_hidden.py').touch()
    monkeypatch.syspath_prepend(str(other))
    assert call_flags.job_name(u_hidden.job, str(tmp_path)).endswith('.pkl')
    sys.modules.pop('u_hidden')


@pytest.mark.parametrize('job', [None, 5, model_fn])
def test_what_is_no_job(job):
    with pytest.raises(UsageError, match='give an estimator_trainer.Job, or a name'):
        call_flags.job_name(job, '')
