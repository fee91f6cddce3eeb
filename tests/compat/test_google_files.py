"""Programs whose model_dir is on TensorFlow's own gs://, against a Google of our own."""

import json
import pathlib
import sys

import launch
import pytest

from estimator_trainer import compat
from estimator_trainer.compat import remote_files
from tests.storage import google_server

pytestmark = pytest.mark.slow

PROGRAM = pathlib.Path(__file__).parent / 'programs' / 'on_gs.py'
COMPAT = [sys.executable, '-m', 'estimator_trainer.compat', 'run']
PLAIN = [sys.executable] if compat.has_estimators() else COMPAT  # TensorFlow 2.15 has Estimators itself
MODEL_DIR = 'gs://bucket/runs/line'
SECS = 120
CLUSTER = {'chief': ['localhost:2222']}


@pytest.fixture
def google(tmp_path):
    problem = google_server.problem()
    if problem:
        pytest.skip(problem)
    with google_server.serving(tmp_path) as google:
        yield google


def tf_config(role) -> str:
    return json.dumps({'cluster': CLUSTER, 'task': {'type': role, 'index': 0}})


def said(output) -> dict:
    """What the program has found in the end."""
    return json.loads(output.strip().splitlines()[-1])


def test_a_program_trains_is_resumed_and_exports(google):
    plain = google.within(*PLAIN, PROGRAM, MODEL_DIR, '20', '2')
    first = launch.checked(launch.run(plain, timeout=SECS, **remote_files.SETTINGS, **google.environment))
    found = said(first.output)
    assert (found['step'], found['exports']) == (20, ['best_exporter'])
    assert found['indices'] == ['model.ckpt-15.index', 'model.ckpt-20.index']
    assert found['difference'] < 1e-6 and found['note'] == 'longer than that'

    command = google.within(*COMPAT, PROGRAM, MODEL_DIR, '10', '9')  # the evaluator may be slow
    with launch.start(command, TF_CONFIG=tf_config('evaluator'), **google.environment) as evaluator:
        # One that comes after the end would wait 600 s for a chief that begins again.
        with launch.killed_after(SECS, evaluator):
            assert any('reads examples' in line for line in evaluator.stdout), 'it does not evaluate step 20'
        chief = launch.run(command, timeout=SECS, TF_CONFIG=tf_config('chief'), **google.environment)
        found = said(launch.checked(chief).output)
        assert (found['step'], found['note']) == (30, 'longer than that')
        ended = launch.finished(evaluator, timeout=SECS)  # it ends by what the chief writes to gs://
    assert said(launch.checked(ended).output)['exports'] == ['best_exporter', 'final']
