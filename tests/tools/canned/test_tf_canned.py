"""A canned Estimator of somebody's program, migrated by the command."""

import json
import pathlib
import sys

import launch
import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.slow
PROGRAM = pathlib.Path(__file__).with_name('program.py')
HAS_KERAS_3 = tuple(map(int, tf.__version__.split('.')[:2])) >= (2, 16)


def run(folder, *command, **environ):
    """A program that ends within 300 s; MODEL_DIR is a folder of `folder`."""
    return launch.run([sys.executable, *command], 300, folder, MODEL_DIR=str(folder / 'model_dir'), **environ)


def migrate(folder, **environ):
    command = ['-m', 'estimator_trainer', 'migrate', f'--program={PROGRAM}:make_estimator', '--input_fn=input_fn']
    return run(folder, *command, '--to=keras', **environ)


@pytest.mark.skipif(not HAS_KERAS_3, reason='TensorFlow 2.15 brings Keras 2; the model is built by Keras 3')
def test_it_computes_the_same_in_keras_3(tmp_path):
    """Predictions, metrics, ten more steps, all files opened again, and the way back."""
    trained = run(tmp_path, PROGRAM)
    assert not trained.code, trained.output
    done = migrate(tmp_path)
    assert not done.code, done.output
    report = json.loads((tmp_path / 'keras/migrate.json').read_text())
    assert report['ok'] and report['step'] == 60
    assert report['differences'].keys() == {'predictions', 'evaluation', 'steps'}
    assert report['differences']['predictions'] <= 1e-6 and report['details']['evaluation'].keys() >= {'average_loss'}
    assert len(report['reloaded']) == 3
    assert 'prediction/mean' in report['metrics_left_out'] and 'average_loss' not in report['metrics_left_out']
    assert all(name.startswith('training/') for name in report['left_over'])  # settings, which Keras 2 saves
    files = {'model.keras', 'serving.keras', 'saved_model', 'dataset.py', 'feature_layers.py', 'README.md'}
    assert files <= {path.name for path in (tmp_path / 'keras').iterdir()}
    assert 'begin with `import feature_layers, estimator_optimizers`' in done.output.splitlines()[-1]
    code = (tmp_path / 'keras/README.md').read_text().partition('```python\n')[2].partition('```')[0]
    opened = launch.run(
        [sys.executable, '-c', f'{code}\nprint("OPENED", len(model.inputs) > 0)'], 300, tmp_path / 'keras'
    )
    assert 'OPENED True' in opened.output, opened.output

    command = ['-m', 'estimator_trainer', 'migrate', '--from_keras', '--model_dir=keras', '--to=back']
    done = run(tmp_path, *command)
    assert not done.code, done.output
    there, back = (tf.train.load_checkpoint(str(tmp_path / name)) for name in ('model_dir', 'back'))
    assert there.get_variable_to_shape_map() == back.get_variable_to_shape_map()
    for name in there.get_variable_to_shape_map():
        np.testing.assert_array_equal(there.get_tensor(name), back.get_tensor(name), err_msg=name)


@pytest.mark.skipif(HAS_KERAS_3, reason='Keras 3 is there')
def test_without_keras_3_it_says_what_to_do(tmp_path):
    trained = run(tmp_path, PROGRAM, KIND='LinearRegressor')
    assert not trained.code, trained.output
    done = migrate(tmp_path, KIND='LinearRegressor')
    assert done.code == 64 and '--keras_python' in done.output
