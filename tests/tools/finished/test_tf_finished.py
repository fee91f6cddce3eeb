"""`evaluate` and `export` on a run of each loop: what they print, and that the run stays as it is."""

import json
import pathlib
import sys

import pytest
import tensorflow as tf

from estimator_trainer.tools.finished import evaluate, export

JOB = """
import numpy as np
from estimator_trainer.jobs import Job, KerasParts

X = np.arange(30, dtype='f4').reshape(10, 3)


def input_fn(mode, params, config):
    import tensorflow as tf

    print('said by the job')
    assert config.tf_random_seed == 1 and (mode, params['batch_size']) in [('eval', 4), ('eval', 3), ('eval', 2)]
    return tf.data.Dataset.from_tensor_slices(({'x': X}, X.sum(1))).batch(params['batch_size'])


def model_fn(features, labels, mode, params):
    import tensorflow as tf

    v1 = tf.compat.v1
    weight = v1.get_variable('weight', [3, 1], initializer=v1.zeros_initializer())
    outputs = (features['x'] @ weight)[:, 0]
    if mode == 'infer':
        served = tf.estimator.export.PredictOutput({'outputs': outputs})
        return tf.estimator.EstimatorSpec(mode, {'outputs': outputs}, export_outputs={'serving_default': served})
    step = v1.train.get_or_create_global_step()
    train = v1.group(v1.assign(weight, tf.ones([3, 1]) * params['to']), v1.assign_add(step, 1))
    return tf.estimator.EstimatorSpec(mode, loss=tf.reduce_mean((outputs - labels) ** 2), train_op=train)


def make_model(params):
    import tensorflow as tf

    x = tf.keras.Input([3], name='x')
    return tf.keras.Model({'x': x}, tf.keras.layers.Dense(1, use_bias=False, kernel_initializer='zeros')(x))


def loss(labels, outputs, params):
    return (outputs[:, 0] - labels) ** 2


def metrics(params):
    import tensorflow as tf

    class Mean(tf.keras.metrics.Mean):
        def update_state(self, labels, outputs, sample_weight=None):
            return super().update_state(outputs)

    return {'mean': Mean(name='mean')}


def serving_input_fn():
    import tensorflow as tf

    x = tf.compat.v1.placeholder(tf.float32, [None, 3], name='x')
    return tf.estimator.export.ServingInputReceiver({'x': x}, {'x': x})


ABOUT = {'input_fn': input_fn, 'serving_input_fn': serving_input_fn, 'params': {'to': 1.0}}
estimator = Job(model_fn=model_fn, **ABOUT)
keras = Job(make_model=make_model, parts=KerasParts(loss, lambda params: None, metrics=metrics), **ABOUT)
unserved = Job(model_fn=model_fn, input_fn=input_fn, params={'to': 1.0})
"""
SUM_OF_SQUARES = sum((9 * row + 3) ** 2 for row in range(10)) / 10  # of the labels, 3 + 9 * row


@pytest.fixture(params=['estimator', 'keras_fit', 'custom_loop'])
def run(request, tmp_path, monkeypatch):
    """A run with the checkpoints of step 0, whose weights are 0, and of step 1, whose weights are 1: no error."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, 'path', [str(tmp_path), *sys.path])
    (tmp_path / 'finished_job.py').write_text(JOB)
    import finished_job

    config = {'params': {'to': 1.0}, 'flags': {'batch_size': 4, 'max_steps': 1, 'loop': request.param}}
    config |= {'loop': request.param, 'global_batch_size': 4, 'seed': 1, 'dataset': 'mnist_5k'}
    if request.param == 'estimator':
        config['job'] = 'finished_job:estimator'
        made = tf.estimator.Estimator(finished_job.model_fn, 'run', params={'to': 1.0})
        made.train(lambda: tf.data.Dataset.from_tensors(({'x': finished_job.X}, finished_job.X.sum(1))), steps=1)
    else:
        config['job'] = 'finished_job:keras'
        model, step = finished_job.make_model({}), tf.Variable(0, dtype=tf.int64)
        manager = tf.train.CheckpointManager(
            tf.train.Checkpoint(model=model, global_step=step), 'run', None, checkpoint_name='model.ckpt'
        )
        manager.save(0)
        model.trainable_variables[0].assign([[1.0]] * 3)
        step.assign(1)
        manager.save(1)
    pathlib.Path('run/config.json').write_text(json.dumps(config))
    yield pathlib.Path('run')
    del sys.modules['finished_job']


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob('*') if path.is_file()}


def test_evaluate(run, capfd):
    before = files(run)
    assert evaluate.main(['--model_dir=run']) == 0
    shown = capfd.readouterr()
    found = json.loads(shown.out)
    assert found['loss'] == 0 and found['global_step'] == 1 and found.get('mean', 43.5) == pytest.approx(43.5)
    assert 'said by the job' in shown.err and len(shown.out.splitlines()) == 1
    assert evaluate.main(['--model_dir=run', '--checkpoint_step=0', '--batch_size=3']) == 0
    found = json.loads(capfd.readouterr().out)
    assert found['loss'] == pytest.approx(SUM_OF_SQUARES, rel=1e-6) and found['global_step'] == 0
    assert evaluate.main(['--model_dir=run', '--checkpoint_step=0', '--eval_steps=1']) == 0
    assert json.loads(capfd.readouterr().out)['loss'] == pytest.approx((9 + 144 + 441 + 900) / 4)
    assert files(run) == before


def test_evaluate_takes_the_runs_eval_batch_size_where_no_batch_size_is_given(run, capfd):
    config = json.loads((run / 'config.json').read_text())
    config['flags']['eval_batch_size'] = 2
    (run / 'config.json').write_text(json.dumps(config))
    losses = []
    for flags in ([], ['--batch_size=3']):
        assert evaluate.main(['--model_dir=run', '--checkpoint_step=0', '--eval_steps=1', *flags]) == 0
        losses.append(json.loads(capfd.readouterr().out)['loss'])
    assert losses == [pytest.approx((9 + 144) / 2), pytest.approx((9 + 144 + 441) / 3)]


def test_export(run, capfd):
    before = files(run)
    assert export.main(['--model_dir=run']) == 0
    path = pathlib.Path(capfd.readouterr().out.strip())
    assert path.parent == (run / 'export' / 'step_1').resolve() and path.name.isdigit()
    served = tf.saved_model.load(str(path)).signatures['serving_default'](x=tf.constant([[1.0, 2.0, 3.0]]))
    assert served['outputs'].numpy().ravel().tolist() == [6]
    assert export.main(['--model_dir=run', '--to=other', '--checkpoint_step=0']) == 0
    path = pathlib.Path(capfd.readouterr().out.strip())
    assert path.parent == pathlib.Path('other').resolve() and [entry.name for entry in path.parent.iterdir()] == [
        path.name
    ]
    served = tf.saved_model.load(str(path)).signatures['serving_default'](x=tf.constant([[1.0, 2.0, 3.0]]))
    assert served['outputs'].numpy().ravel().tolist() == [0]
    assert {name: text for name, text in files(run).items() if 'export' not in name.parts} == before


def test_what_is_refused(run, capfd):
    config = json.loads((run / 'config.json').read_text())
    loop = 'keras_fit' if config['loop'] == 'estimator' else 'estimator'
    job = 'finished_job:keras' if loop == 'keras_fit' else 'finished_job:estimator'
    (run / 'config.json').write_text(json.dumps({**config, 'loop': loop, 'job': job}))
    assert evaluate.main(['--model_dir=run']) == 64
    assert f'model.ckpt-1 is not of --loop={loop}, which config.json names' in capfd.readouterr().err
    (run / 'config.json').write_text(json.dumps(config))
    data = run / 'model.ckpt-1.data-00000-of-00001'
    data.write_bytes(data.read_bytes()[:-8])
    assert evaluate.main(['--model_dir=run']) == 65
    shown = capfd.readouterr()
    assert 'model.ckpt-1 cannot be read' in shown.err and shown.out == ''
    if config['loop'] == 'estimator':
        (run / 'config.json').write_text(json.dumps({**config, 'job': 'finished_job:unserved'}))
        assert export.main(['--model_dir=run', '--checkpoint_step=0']) == 64
        assert 'its job has no serving_input_fn' in capfd.readouterr().err
    assert not (run / 'export').exists() and not (run / 'damaged').exists()
