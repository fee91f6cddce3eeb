"""A notebook that trains its own Job, is interrupted, goes on, and predicts."""

import os
import pathlib
import signal
import threading
import time

import pytest

from estimator_trainer.run_dir import training_file
from estimator_trainer.run_dir.run_folder import RunFolder

nbclient = pytest.importorskip('nbclient')
nbformat = pytest.importorskip('nbformat')
pytest.importorskip('ipykernel')

ROOT = pathlib.Path(__file__).parents[2]
BOUND_SECS = 400
JOB = """
import json
import spiral
import tensorflow as tf
from estimator_trainer import Job, evaluate, predict, train

def model_fn(features, labels, mode, params):
    return spiral.model_fn(features, labels, mode, {**params, 'hidden': params['layers'][0]})

def as_they_are(features, labels):
    if tf.size(labels) > 1000:  # AutoGraph needs the source of the cell
        labels = -labels
    return features, labels

def input_fn(mode, params, input_context):
    return spiral.input_fn(mode, params, input_context).map(as_they_are)

job = Job(model_fn=model_fn, input_fn=input_fn, serving_input_fn=spiral.serving_input_fn,
          params={'layers': [16, 8], 'learning_rate': 0.01}, best_metric='accuracy')
"""
INTERRUPTED = "train(job, model_dir='run', max_steps=10**7, log_every_steps=10**6)"
RESUMED = """
at = json.load(open('run/training.json'))['checkpoint_step']
result = train(job, model_dir='run', max_steps=at + 50, log_every_steps=5)
lines = [json.loads(line) for line in open('run/metrics.jsonl')]
assert result.step == at + 50 and lines[-1]['step'] == at + 50 and result.metrics['accuracy'] > 0.5
"""
PREDICTED = """
import pyarrow, pyarrow.parquet
xy, _ = spiral.points(seed=3, count=20)
column = pyarrow.array(xy.tolist(), pyarrow.list_(pyarrow.float32()))
pyarrow.parquet.write_table(pyarrow.table({'xy': column}), 'points.parquet')
assert len(open(predict('run', files='points.parquet', out='classes.csv')).readlines()) == 21
"""


@pytest.mark.slow
def test_a_notebook(tmp_path, monkeypatch):
    monkeypatch.setenv('PYTHONPATH', os.pathsep.join([str(ROOT), str(ROOT / 'docs' / 'examples')]))
    new = nbformat.v4
    notebook = new.new_notebook(cells=list(map(new.new_code_cell, (JOB, INTERRUPTED, RESUMED, PREDICTED))))
    notebook.cells[1].metadata['tags'] = ['raises-exception']
    client = nbclient.NotebookClient(notebook, timeout=BOUND_SECS, resources={'metadata': {'path': str(tmp_path)}})
    trained = threading.Event()

    def interrupt():
        end = time.monotonic() + BOUND_SECS
        while time.monotonic() < end and not trained.is_set():
            status = RunFolder(str(tmp_path / 'run')).training_status
            if status and status.state == training_file.TRAINING and (status.step or 0) > 0:
                os.kill(client.km.provisioner.pid, signal.SIGINT)
                return
            time.sleep(0.05)

    thread = threading.Thread(target=interrupt)
    thread.start()
    try:
        client.execute()
    finally:
        trained.set()
        thread.join()
    outputs = notebook.cells[1].outputs
    assert [out.ename for out in outputs if out.output_type == 'error'] == ['KeyboardInterrupt']
    assert 'the same command resumes' in ''.join(out.text for out in outputs if out.output_type == 'stream')
    shown = ''.join(out.text for out in notebook.cells[2].outputs if out.output_type == 'stream')
    assert 'resumes at step' in shown and 'done at step' in shown
