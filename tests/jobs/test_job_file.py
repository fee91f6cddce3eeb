"""A Job as a file: written, loaded before TensorFlow, and refused where another user could have written it."""

import os
import pickle
import subprocess
import sys
import threading

import pytest

from estimator_trainer import jobs
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import Job, JobError, job_file


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / 'job.pkl')


def job_of(value, **more):
    def model_fn(features, labels, mode, params):
        return value

    return Job(model_fn=model_fn, **more)


def test_what_is_written_is_loaded(path):
    job_file.write(job_of('x', params={'hidden': [1, 2]}), path)
    job = jobs.load(path)
    assert (job.params, job.model_fn({}, None, 'train', {})) == ({'hidden': [1, 2]}, 'x')
    assert os.stat(path).st_mode & 0o777 == 0o600
    assert jobs.load_early(path).params == {'hidden': [1, 2]}
    with pytest.raises(FileExistsError):
        job_file.write(job_of('x'), path)


def test_one_that_names_tensorflow_waits_for_it(tmp_path, path):
    script = (
        'import types, sys\n'
        'from estimator_trainer.jobs import Job, job_file\n'
        'tf = sys.modules["tensorflow"] = types.ModuleType("tensorflow")\n'
        'def model_fn(features, labels, mode, params): return tf\n'
        f'job_file.write(Job(model_fn=model_fn), {path!r})\n'
    )
    subprocess.run([sys.executable, '-c', script], check=True, timeout=60)
    assert job_file.brings_tensorflow(path) and jobs.load_early(path) is None


def test_what_cannot_be_written(path):
    with pytest.raises(UsageError, match="the Job cannot be handed over.*Write it into a module.*'module:job'"):
        job_file.write(job_of(threading.Lock()), path)


@pytest.mark.parametrize(
    'content, said',
    [
        (b'', 'is no file of a Job'),
        (b'hello', 'is no file of a Job'),
        (pickle.dumps([1]), 'holds a list, not an estimator_trainer.Job'),
        (b'cjson\nno_such_name\n.', 'cannot be put together again: .*no_such_name'),
        (b'cno_such_module\nname\n.', 'needs the module no_such_module; put its folder on PYTHONPATH'),
    ],
)
def test_what_is_no_job(path, content, said):
    with open(path, 'wb') as file:
        file.write(content)
    with pytest.raises(JobError, match=said):
        jobs.load(path)


def test_a_file_that_is_not_there(path):
    with pytest.raises(JobError, match='job.pkl: No such file or directory; name a file'):
        jobs.load_early(path)


def test_a_file_that_others_could_have_written_is_not_loaded(path, monkeypatch):
    job_file.write(job_of('x'), path)
    os.chmod(path, 0o602)
    with pytest.raises(JobError, match='another user could have written this file'):
        jobs.load(path)
    os.chmod(path, 0o600)
    if os.geteuid() == 0:
        os.chown(path, 12345, -1)
    else:
        monkeypatch.setattr(os, 'geteuid', lambda: 12345)
    for refuse in (jobs.load, job_file.check):
        with pytest.raises(JobError, match='look at its owner'):
            refuse(path)


@pytest.mark.skipif(os.geteuid() != 0, reason='only root gives files to others')
def test_where_root_is_nobody_its_files_are_loaded_and_those_of_others_are_not(path, monkeypatch):
    job_file.write(job_of('x'), path)
    os.chown(path, 65534, -1)
    with pytest.raises(JobError, match='look at its owner'):  # a user namespace that is not ours
        jobs.load(path)
    monkeypatch.setenv('ESTIMATOR_TRAINER_ISOLATED', '1')
    assert jobs.load(path).model_fn({}, None, 'train', {}) == 'x'
    os.chmod(path, 0o602)
    with pytest.raises(JobError, match='look at its owner'):
        jobs.load(path)
    os.chmod(path, 0o600)
    os.chown(path, 12345, -1)
    with pytest.raises(JobError, match='look at its owner'):
        jobs.load(path)


def test_a_home_folder_is_looked_for(tmp_path, monkeypatch):
    monkeypatch.setenv('HOME', str(tmp_path))
    job_file.write(job_of('x'), str(tmp_path / 'job.pkl'))
    job_file.check('~/job.pkl')
    with pytest.raises(JobError, match='No such file'):
        job_file.check('~/other.pkl')
