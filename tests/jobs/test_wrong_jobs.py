"""Modules whose job cannot be taken: what is said of them, and which line is named."""

import sys

import pytest

import estimator_trainer
from estimator_trainer import jobs
from estimator_trainer.api import child_command
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import JobError

WRONG = "Job(model_fn=print, input_fn=lambda mode, shards: None, params={'rate': 1})"


def refusal(folder, monkeypatch, text, name, kind=JobError):
    """What is said of a job in a module of its own with this text."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, 'path', list(sys.path))
    monkeypatch.delitem(sys.modules, 'u_wrong', raising=False)
    (folder / 'u_wrong.py').write_text(f'import dataclasses\nfrom estimator_trainer.jobs import Job\n{text}\n')
    try:
        with pytest.raises(kind) as caught:
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


@pytest.mark.parametrize(
    'call',
    [
        "train(job, model_dir='m', max_steps=1)",
        "evaluate('m')",
        "export('m')",
        "predict('m', files='f.csv', out='o.csv')",
    ],
)
def test_a_call_of_python_in_a_module_that_is_imported_starts_no_process(tmp_path, monkeypatch, call):
    monkeypatch.setattr(child_command, 'run', lambda *_: pytest.fail('a process would import the module again'))
    text = f'import estimator_trainer as t\njob = Job(model_fn=print)\nt.{call}'
    said = refusal(tmp_path, monkeypatch, text, 'job', UsageError)
    name = call.partition('(')[0]
    assert said.startswith(f'--job=u_wrong:job: u_wrong.py, line 5: {name}() is called while --job=u_wrong:job is ')
    assert "put the call below `if __name__ == '__main__':`" in said


def test_after_an_import_that_has_failed_calls_are_taken(tmp_path, monkeypatch):
    refusal(tmp_path, monkeypatch, 'raise UsageError', 'job', NameError)
    with pytest.raises(UsageError, match='job=None: give an estimator_trainer.Job'):
        estimator_trainer.train(None, model_dir='m')
