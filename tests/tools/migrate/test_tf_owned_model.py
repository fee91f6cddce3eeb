"""A model with every layer, saved here, and used by its owner in a process that has never heard of Estimators."""

import os
import pickle
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.compat import owned
from estimator_trainer.tools.migrate import traced
from tests.tools.migrate.owned_modules import keras

import estimator_optimizers  # isort: skip
import feature_layers  # isort: skip

N = 32
R = np.random.default_rng(0)
PROGRAM = os.path.join(os.path.dirname(__file__), 'plain_process.py')
NAMES = ['no', 'yes']
WORDS = dict(kind='vocabulary', key='s', vocabulary=['a', 'é'], dtype='string', num_oov_buckets=2, default_value=-1)
BUCKETS = dict(kind='bucketized', key='x', shape=[1], normalizer=None, boundaries=[0.0, 0.5])
SPARSE = dict(kind='hash', key='sp', buckets=9)
CROSS = dict(kind='cross', keys=[BUCKETS, WORDS, 'i'], buckets=13, hash_key=5)
WEIGHTED = dict(kind='weighted', column=dict(kind='hash', key='s3', buckets=7), weight_key='w3')
IDENTITY = dict(kind='identity', key='i', buckets=4, default_value=1)


def features():
    taken = np.argwhere(R.random((N, 3)) < 0.5)
    dense = {
        'x': R.normal(size=(N, 1)).astype('f4'),
        's': R.choice(['a', 'é', 'c', 'd'], (N, 1)).astype(object),
        's3': R.choice(['a', 'b', 'c'], (N, 3)).astype(object),
        'w3': R.uniform(0.5, 2, (N, 3)).astype('f4'),
        'i': R.integers(-1, 5, (N, 1)),
    }
    return dense, (taken, R.choice(['a', 'b', ''], len(taken)).astype(object), (N, 3))


def models():
    """(logits, what a head makes of them), with weights that are all different."""
    inputs = {
        'x': keras.Input((1,), name='x'),
        's': keras.Input((1,), dtype='string', name='s'),
        's3': keras.Input((3,), dtype='string', name='s3'),
        'w3': keras.Input((3,), name='w3'),
        'i': keras.Input((1,), dtype='int64', name='i'),
        'sp': keras.Input((3,), dtype='string', sparse=True, name='sp'),
    }

    def of(layer):
        return layer({key: inputs[key] for key in layer.keys})

    normalizer = traced.normalizer(lambda v: (v - 0.3) / 1.7, [None, 1], tf.float32)
    deep = [
        of(feature_layers.DenseColumn(dict(kind='numeric', key='x', shape=[1], normalizer=normalizer))),
        of(feature_layers.DenseColumn(BUCKETS)),
        of(feature_layers.DenseColumn(dict(kind='indicator', column=WORDS))),
        of(feature_layers.EmbeddingColumn(WEIGHTED, 3, 'sqrtn', 0.9, name='dnn_embedding')),
        *of(feature_layers.SharedEmbeddingColumns([SPARSE, {**SPARSE, 'key': 's'}], 2, name='dnn_shared')),
    ]
    deep = keras.layers.Dense(1, name='dnn_logits')(
        keras.layers.Dense(4, 'relu', name='dnn_0')(keras.layers.Concatenate()(deep))
    )
    wide = [
        of(feature_layers.LinearColumn(column, name=f'linear_{i}'))
        for i, column in enumerate([BUCKETS, CROSS, SPARSE, IDENTITY, WEIGHTED])
    ]
    wide = feature_layers.SumAndBias(name='linear_sum')(wide)
    always = feature_layers.BaselineLogits(name='baseline')({'x': inputs['x']})
    logits = keras.layers.Add(name='logits')([deep, wide, always])
    model = keras.Model(inputs, logits)
    model.set_weights([R.normal(size=w.shape).astype('f4') for w in model.get_weights()])
    model.compile(
        estimator_optimizers.OptimizerByLayer(
            estimator_optimizers.Adagrad(0.05), {'linear_': estimator_optimizers.Ftrl(0.2)}
        ),
        feature_layers.head_loss('binary', 'sum_over_nonzero_weights'),
    )
    return model, keras.Model(inputs, feature_layers.ClassPredictions(2, NAMES)(logits))


@pytest.mark.slow
def test_in_a_process_of_its_own(tmp_path):
    model, serving = models()
    dense, sparse = features()
    x = {**{key: tf.constant(value) for key, value in dense.items()}, 'sp': tf.SparseTensor(*sparse)}
    labels, weights = R.integers(0, 2, (N, 1)), R.integers(0, 3, (N, 1)).astype('f4')
    model.train_on_batch(x, labels, weights)  # so that the optimizers have slots to save
    model.save(tmp_path / 'model.keras')
    serving.save(tmp_path / 'serving.keras')
    for name in owned.FILES:
        shutil.copy(os.path.join(owned.FOLDER, name), tmp_path)
    (tmp_path / 'inputs.pickle').write_bytes(pickle.dumps((dense, sparse, labels, weights)))
    environment = {k: v for k, v in os.environ.items() if k not in ('TF_USE_LEGACY_KERAS', 'PYTHONPATH')}
    done = subprocess.run(
        [sys.executable, PROGRAM, str(tmp_path)],
        cwd=tmp_path,
        env=environment,
        timeout=300,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    found = dict(np.load(tmp_path / 'found.npz'))

    wanted = {key: value.numpy() for key, value in serving(x).items()}
    for key, value in wanted.items():
        value = value.astype('S') if value.dtype == object else value
        assert np.array_equal(found[f'serving/{key}'], value), key
        assert np.array_equal(found[f'exported/{key}'], value), key
    assert np.array_equal(found['logits'], tf.function(model)(x))
    losses = []
    for _ in range(3):
        model.reset_metrics()  # older Kerases give the mean of all batches so far
        losses.append(model.train_on_batch(x, labels, weights))
    assert np.array_equal(found['losses'], losses) and losses[0] != losses[2]
    assert np.array_equal(found['trained'], tf.function(model)(x))
    assert np.array_equal(found['again'], found['trained']) and not np.array_equal(found['trained'], found['logits'])


def test_the_list_of_files_is_complete():
    there = {name for name in os.listdir(owned.FOLDER) if name.endswith('.py')}
    assert there == {*owned.FILES, '__init__.py'}


@pytest.mark.parametrize('name', owned.FILES)
def test_nothing_else_is_needed(name):
    with open(os.path.join(owned.FOLDER, name), encoding='utf-8') as file:
        imports = [line.split()[1].partition('.')[0] for line in file if line.startswith(('import ', 'from '))]
    siblings = {file.removesuffix('.py') for file in owned.FILES}
    assert set(imports) <= {'keras', 'tensorflow'} | siblings | set(sys.stdlib_module_names)
