"""What a type checker says of a job: nothing of one that is right, and where one is wrong."""

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 300

JOB = """
from typing import Any

from estimator_trainer import Job, KerasParts, evaluate, predict, train


def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any: ...
def input_fn(mode: str, params: dict[str, Any], input_context: Any = None, shuffle: bool = True) -> Any: ...
def loss(labels: Any, outputs: Any, params: dict[str, Any]) -> Any: ...
def by_place(which: str, settings: dict[str, Any], context: Any) -> Any: ...
def untyped(params, config): ...
def of_strange_names(files: str, batch: int) -> Any: ...
def of_another_mode(mode: int) -> Any: ...
def make_model(params: dict[str, Any]) -> Any: ...


PARAMS = {'hidden': [64, 32], 'rate': 0.1, 'name': 'x'}
"""
RIGHT = (
    "Job(model_fn=model_fn, input_fn=input_fn, params=PARAMS, best_metric='auc', best_mode='max')",
    'Job(model_fn=model_fn, input_fn=by_place)',
    'Job(model_fn=model_fn, input_fn=untyped)',
    'Job(model_fn=model_fn, input_fn=lambda: None)',
    'Job(model_fn=model_fn, input_fn=lambda mode, params: None)',
    'Job(model_fn=lambda features, labels, mode: None, serving_input_fn=lambda: None)',
    'Job(make_estimator=lambda run_config, params: None, serving_input_fn=lambda params: None)',
    'Job(make_model=make_model, parts=KerasParts(loss=loss, make_optimizer=lambda params: None))',
    "train('m:job', model_dir='r', epochs=3, params={'a': [1]}).metrics['auc'] + evaluate('r')['auc']",
    "predict('r', files=['a.csv'], out='b.csv').upper()",
)
WRONG = {  # a job -> the code of mypy's error
    'Job(model_fn=model_fn, inputfn=input_fn)': 'call-arg',
    'Job(model_fn=model_fn, input_fn=of_strange_names)': 'arg-type',
    'Job(model_fn=model_fn, input_fn=of_another_mode)': 'arg-type',
    'Job(model_fn=of_strange_names)': 'arg-type',
    "Job(model_fn=model_fn, best_metric='f', best_mode='most')": 'arg-type',
    'Job(model_fn=model_fn, params=[1])': 'arg-type',
    'Job(make_model=make_model, parts=KerasParts(loss=make_model, make_optimizer=make_model))': 'arg-type',
    'KerasParts(loss=loss)': 'call-arg',
    "train('m:job')": 'call-arg',
    "train(5, model_dir='r')": 'arg-type',
    "train('m:job', model_dir='r').metric": 'attr-defined',
}


@pytest.fixture(scope='module')
def told(tmp_path_factory):
    """What mypy says of each line of the example."""
    pytest.importorskip('mypy')
    folder = tmp_path_factory.mktemp('typed')
    (folder / 'example.py').write_text(JOB + '\n'.join([*RIGHT, *WRONG, '']))
    done = subprocess.run(
        [sys.executable, '-m', 'mypy', '--strict', '--allow-untyped-defs', '--disable-error-code=empty-body']
        + ['--follow-imports=silent', f'--cache-dir={folder}/cache', 'example.py'],
        cwd=folder,
        env={**os.environ, 'MYPYPATH': str(ROOT)},
        capture_output=True,
        text=True,
        timeout=BOUND_SECS,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    first = len(JOB.splitlines()) + 1
    lines = dict(enumerate([*RIGHT, *WRONG], start=first))
    found: dict[str, str] = {}
    for line in done.stdout.splitlines():
        if ': error: ' in line:
            number = int(line.split(':')[1])
            assert number in lines, line
            found[lines[number]] = line
    return found


@pytest.mark.parametrize('job', RIGHT)
def test_nothing_is_said_of_a_job_that_is_right(told, job):
    assert job not in told, told[job]


@pytest.mark.parametrize('job, code', WRONG.items())
def test_what_is_wrong_is_an_error(told, job, code):
    assert told[job].endswith(f'[{code}]'), told[job]
