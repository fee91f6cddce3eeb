"""Modules whose job cannot be taken: what is said of them, and which line is named."""

import sys

import pytest

from estimator_trainer import jobs
from estimator_trainer.jobs import JobError

WRONG = "Job(model_fn=print, input_fn=lambda mode, shards: None, params={'rate': 1})"


def refusal(folder, monkeypatch, text, name):
    """What is said of a job in a module of its own with this text."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, 'path', list(sys.path))
    monkeypatch.delitem(sys.modules, 'u_wrong', raising=False)
    (folder / 'u_wrong.py').write_text(f'import dataclasses\nfrom estimator_trainer.jobs import Job\n{text}\n')
    try:
        with pytest.raises(JobError) as caught:
            jobs.load(f'u_wrong:{name}')
    finally:
        sys.modules.pop('u_wrong', None)
    return str(caught.value)


def test_a_function_with_arguments_is_no_job(tmp_path, monkeypatch):
    said = refusal(tmp_path, monkeypatch, 'def make(params): pass', 'make')
    wanted = '--job takes a Job, or a function without arguments that returns one.'
    assert said == f'--job=u_wrong:make: names something to call that needs params; {wanted}'


def test_a_model_fn_is_no_job(tmp_path, monkeypatch):
    said = refusal(tmp_path, monkeypatch, 'def model_fn(features, labels, mode, params): pass', 'model_fn')
    assert 'needs features, labels, mode, params; --job takes a Job' in said
    assert 'write job = Job(model_fn=model_fn, …)' in said


@pytest.mark.parametrize(
    'text, name, line',
    [
        (f'\njob = {WRONG}', 'job', 4),
        (f'def make():\n    return {WRONG}', 'make', 4),
        ('one = Job(model_fn=print)\njob = dataclasses.replace(\n    one, input_fn=lambda shards: 0)', 'job', 4),
    ],
)
def test_the_line_of_a_wrong_job_is_named(tmp_path, monkeypatch, text, name, line):
    said = refusal(tmp_path, monkeypatch, text, name)
    wanted = f'u_wrong.py, line {line}: The input_fn takes shards, which nobody gives: '
    assert said.startswith(f'--job=u_wrong:{name}: {wanted}')
