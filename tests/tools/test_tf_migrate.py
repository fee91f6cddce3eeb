"""An Estimator's run goes on in Keras, and comes back. Real runs, in processes of their own."""

import json
import os
import shutil
import subprocess
import sys

import launch
import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.slow

FLAGS = [
    '--job=mnist',
    '--param=learning_rate=0.002',
    '--param=schedule=cosine',
    '--max_steps=16',
    '--deterministic',
    '--batch_size=32',
    '--save_checkpoints_steps=6',
    '--keep_checkpoints=0',
    '--export=none',
    '--progress=off',
]
SHORT, LONG = 120, 300  # seconds


def migrate(*flags, code=0, timeout=LONG):
    done = launch.run([sys.executable, '-m', 'estimator_trainer', 'migrate', *flags], timeout=timeout)
    assert done.code == code, done.output
    return done.output


def checkpoint(folder):
    reader = tf.train.load_checkpoint(str(folder))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


@pytest.fixture(scope='module', params=['adam', 'momentum'])
def runs(request, tmp_path_factory, data_dir):
    """`estimator`: 16 steps; `six`: its checkpoint of step 6; `keras`: that one migrated, and `trained`:
    trained to step 16 by keras_fit; `back`: `keras` as an Estimator's again."""
    folder = tmp_path_factory.mktemp(request.param)
    flags = [*FLAGS, f'--param=optimizer={request.param}', f'--data_dir={data_dir}']
    launch.trainer(*flags, f'--model_dir={folder}/estimator')
    (folder / 'six').mkdir()
    for path in [folder / 'estimator' / 'config.json', *(folder / 'estimator').glob('model.ckpt-6.*')]:
        shutil.copy(path, folder / 'six')
    (folder / 'six' / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-6"\n')
    migrate(f'--model_dir={folder}/six', f'--to={folder}/keras')
    migrate(f'--model_dir={folder}/keras', f'--to={folder}/back', '--from_keras')
    shutil.copytree(folder / 'keras', folder / 'trained')
    launch.trainer(*flags, '--loop=keras_fit', f'--model_dir={folder}/trained')
    migrate(f'--model_dir={folder}/trained', f'--to={folder}/trained_back', '--from_keras')
    return folder


def test_round_trip_loses_nothing(runs):
    there, back = checkpoint(runs / 'six'), checkpoint(runs / 'back')
    assert there.keys() == back.keys() and back['global_step'] == 6
    for name, array in there.items():
        assert array.dtype == back[name].dtype and array.tobytes() == back[name].tobytes(), name


def test_next_ten_steps_are_those_of_the_estimator(runs):
    on, migrated = checkpoint(runs / 'estimator'), checkpoint(runs / 'trained_back')
    assert on.keys() == migrated.keys() and on['global_step'] == migrated['global_step'] == 16
    start = checkpoint(runs / 'six')
    assert not np.array_equal(start['mnist/dense/kernel'], on['mnist/dense/kernel'])
    for name, array in on.items():
        assert np.max(np.abs(array - migrated[name])) <= 1e-5 * np.max(np.abs(array)), name


def test_predictions_are_equal(runs):
    report = json.loads((runs / 'keras' / 'migrate.json').read_text())
    assert report['ok'] and all(line['status'] == 'matched' for line in report['lines'])
    assert set(report['differences']) == {'Keras checkpoint', 'saved_model', 'model.keras'}
    assert max(report['differences'].values()) <= 1e-6


def test_keras_file_in_a_process_without_legacy_keras(runs):
    images = np.random.RandomState(0).randint(0, 256, [7, 28, 28, 1]).astype(np.uint8)
    np.save(runs / 'images.npy', images)
    script = (
        'import keras, numpy, sys; folder = sys.argv[1]\n'
        'assert not any(name.partition(".")[0] == "tf_keras" for name in sys.modules)\n'
        'model = keras.models.load_model(folder + "/keras/model.keras", compile=False)\n'
        'found = model({"image": numpy.load(folder + "/images.npy")}, training=False)\n'
        'numpy.save(folder + "/found.npy", numpy.asarray(found))\n'
    )
    environment = {name: value for name, value in os.environ.items() if name != 'TF_USE_LEGACY_KERAS'}
    subprocess.run([sys.executable, '-c', script, str(runs)], env=environment, check=True, timeout=SHORT)
    served = tf.saved_model.load(str(runs / 'keras' / 'saved_model')).signatures['serving_default'](
        image=tf.constant(images)
    )
    assert np.max(np.abs(np.load(runs / 'found.npy') - served['logits'])) <= 1e-6


def test_unmatched_is_refused_unless_allowed(runs, tmp_path):
    shutil.copytree(runs / 'six', tmp_path / 'more')
    arrays = {**checkpoint(runs / 'six'), 'average': np.float32(1)}
    names = sorted(arrays)
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / 'more' / 'model.ckpt-6'),
        tensor_names=names,
        shape_and_slices=[''] * len(names),
        tensors=[arrays[name] for name in names],
    )
    flags = [f'--model_dir={tmp_path}/more', '--nokeras_file']
    output = migrate(*flags, f'--to={tmp_path}/refused', code=1)
    assert 'average: only in estimator' in output
    assert os.listdir(tmp_path / 'refused') == ['migrate.json']
    migrate(*flags, f'--to={tmp_path}/refused', '--allow_unmatched=average')


def test_what_is_not_there_or_of_the_other_kind(runs, tmp_path):
    assert 'leave --from_keras away' in migrate(
        f'--model_dir={runs}/six', f'--to={tmp_path}/a', '--from_keras', code=64
    )
    assert '--from_keras makes' in migrate(f'--model_dir={runs}/keras', f'--to={tmp_path}/b', code=64)
    assert 'config.json' in migrate(f'--model_dir={tmp_path}', f'--to={tmp_path}/c', code=64)
    assert 'not empty' in migrate(f'--model_dir={runs}/six', f'--to={runs}/back', code=64)
