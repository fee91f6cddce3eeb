"""`compat run --tf1`: programs as they were written for TensorFlow 1, unmodified."""

import json
import pathlib
import sys
import textwrap

import launch
import pytest

pytestmark = pytest.mark.slow

PROGRAMS = pathlib.Path(__file__).parent / 'programs'
RUN = [sys.executable, '-m', 'estimator_trainer.compat', 'run']


def write(folder, **files):
    for name, text in files.items():
        path = folder.joinpath(*name.split('__')).with_suffix('.py')
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text))


def test_names_of_tensorflow_1_and_contrib(tmp_path):
    """As official models of 2017 and 2018 look: flags, app, contrib, a model_fn, one-shot iterators, sessions."""
    write(
        tmp_path,
        models__net="""
            import tensorflow as tf
            slim = tf.contrib.slim

            def network(x, width):
                with slim.arg_scope([slim.fully_connected], weights_regularizer=slim.l2_regularizer(0.01)):
                    return slim.fully_connected(x, width, scope='hidden')
            """,
        own='import tensorflow as tf',
        train="""
            from __future__ import print_function
            import tensorflow as tf
            import tensorflow.contrib.layers as layers
            from tensorflow.contrib.layers.python.layers import layers as written
            from tensorflow.contrib.training import HParams
            from tensorflow.logging import info
            from tensorflow.python.framework import ops
            import models.net
            import own

            flags = tf.flags
            flags.DEFINE_integer('steps', 10, 'How long.')
            flags.DEFINE_string('hparams', '', 'name=value,...')

            def model_fn(features, labels, mode, params):
                y = tf.layers.dense(models.net.network(features['x'], params.width), 1)
                loss = tf.losses.mean_squared_error(labels, y) + tf.losses.get_regularization_loss()
                step = tf.train.get_or_create_global_step()
                train_op = layers.optimize_loss(loss, step, params.rate, 'Adagrad')
                return tf.estimator.EstimatorSpec(
                    mode,
                    loss=loss,
                    train_op=train_op,
                    eval_metric_ops={'rmse': tf.metrics.root_mean_squared_error(labels, y)},
                )

            def input_fn():
                data = tf.data.Dataset.from_tensor_slices(({'x': tf.ones([64, 3])}, tf.zeros([64, 1]))).repeat()
                data = data.apply(tf.contrib.data.batch_and_drop_remainder(8))
                return data.make_one_shot_iterator().get_next()

            def main(_):
                assert tf.__version__.startswith('1.') and not tf.executing_eagerly()
                assert models.net.tf is tf and written.conv2d is layers.conv2d
                assert not ops.executing_eagerly_outside_functions()
                assert own.tf.__version__.startswith('2.') and not hasattr(own.tf, 'contrib')
                with tf.Session() as session:
                    total = tf.reduce_sum(tf.ones([2, 3]), reduction_indices=1, keep_dims=True)
                    print('SUM', session.run(total).tolist())
                params = HParams(width=4, rate=0.1).parse(flags.FLAGS.hparams)
                estimator = tf.estimator.Estimator(model_fn, params=params)
                estimator.train(input_fn, steps=flags.FLAGS.steps)
                result = estimator.evaluate(input_fn, steps=2)
                print('STEP', result['global_step'], result['rmse'] < 1)
                print('NAMES', [name for name in estimator.get_variable_names() if 'hidden/weights' in name])
                for name in ('contrib.learn.Experiment', 'contrib.seq2seq', 'no_such_name'):
                    try:
                        eval('tf.' + name)
                    except AttributeError as error:
                        print('SAID', error)
                try:
                    from tensorflow.contrib.tensorboard.plugins import projector
                except ImportError as error:
                    print('SAID', error)

            if __name__ == '__main__':
                tf.app.run()
            """,
    )
    finished = launch.run(
        [*RUN, '--tf1', '--tf2-packages=own', 'train.py', '--steps=5', '--hparams=rate=0.5'], timeout=120, cwd=tmp_path
    )
    assert finished.code == 0, finished.output
    for line in (
        "compat: TF 1's names for the program's own modules, TF 2's for installed packages; TF 2 for own in any case",
        'SUM [[3.0], [3.0]]',
        'STEP 5 True',
        "NAMES ['OptimizeLoss/hidden/weights/Adagrad', 'hidden/weights']",
        'SAID tf.contrib.learn.Experiment was removed in TensorFlow 2: use tf.estimator.train_and_evaluate with',
        'SAID tf.contrib.seq2seq was removed in TensorFlow 2: ',
        "has no 'no_such_name' among its names of TensorFlow 1",
        'SAID tf.contrib.tensorboard was removed in TensorFlow 2: use the package tensorboard.',
    ):
        assert line in finished.output, finished.output


def test_one_line_in_the_program_and_processes_that_it_starts(tmp_path):
    write(
        tmp_path,
        train="""
            import estimator_trainer.compat.tf1
            import multiprocessing
            import worker

            if __name__ == '__main__':
                with multiprocessing.get_context('spawn').Pool(1) as pool:
                    print('LOGS', worker.level(0), pool.map(worker.level, [0]))
            """,
        worker="""
            import estimator_trainer.compat.tf1
            import tensorflow as tf

            def level(_):
                return tf.logging.INFO
            """,
    )
    finished = launch.run([sys.executable, 'train.py'], timeout=300, cwd=tmp_path)
    assert 'LOGS 20 [20]' in finished.output


def test_what_numpy_and_keras_have_removed(tmp_path):
    write(
        tmp_path,
        train="""
            import numpy as np
            import tensorflow as tf
            import tensorflow.examples.tutorials.mnist.input_data as reader
            from tensorflow.examples.tutorials.mnist import input_data

            class Twice(tf.keras.Model):
                def call(self, x):
                    return 2 * x

            assert input_data is tf.contrib.learn.datasets.mnist is reader and input_data.read_data_sets
            kinds = [np.int, np.float, np.object, np.str, np.complex]
            x = tf.ones([2, 3])
            layers = tf.layers.Dense(4), tf.keras.layers.Dense(4), Twice()
            print('FOUND', kinds, np.array([2], np.bool), [int(layer.apply(x).shape[1]) for layer in layers])
            """,
    )
    finished = launch.run([*RUN, '--tf1', 'train.py'], timeout=300, cwd=tmp_path)
    kinds = "[<class 'int'>, <class 'float'>, <class 'object'>, <class 'str'>, <class 'complex'>]"
    assert f'FOUND {kinds} [ True] [4, 4, 3]' in finished.output, finished.output


def test_eager_execution_with_options(tmp_path):
    write(
        tmp_path,
        train="""
            import tensorflow as tf

            config = tf.ConfigProto(inter_op_parallelism_threads=3)
            tf.enable_eager_execution(config=config)
            optimizer, x = tf.train.AdamOptimizer(0.1), tf.Variable(2.0)
            with tf.GradientTape() as tape:
                loss = x * x
            optimizer.apply_gradients([(tape.gradient(loss, x), x)], tf.train.get_or_create_global_step())
            threads = tf.config.threading.get_inter_op_parallelism_threads()
            print('FOUND', round(float(x), 3), int(tf.train.get_global_step()), threads)
            """,
    )
    finished = launch.run([*RUN, '--tf1', 'train.py'], timeout=300, cwd=tmp_path)
    assert 'FOUND 1.9 1 3' in finished.output, finished.output


def test_stable_seeds_are_also_those_of_seed_without_a_seed(tmp_path):
    write(
        tmp_path,
        train="""
            import random
            import numpy as np

            def draw():
                return random.random(), np.random.rand()

            first = draw()
            for again in (lambda: (random.seed(), np.random.seed()), lambda: (random.seed(None), np.random.seed(None))):
                again()
                assert draw() == first
            random.seed(5), np.random.seed(np.array([5, 6]))
            assert random.random() == random.Random(5).random() != first[0]
            assert np.random.rand() == np.random.RandomState([5, 6]).rand()
            print('DREW', *first)
            """,
    )
    outputs = [launch.run([*RUN, '--stable-seeds', 'train.py'], timeout=300, cwd=tmp_path).output for _ in range(2)]
    assert 'DREW' in outputs[0] and outputs[0] == outputs[1]


def test_an_import_that_draws_numbers_changes_none_of_the_program(tmp_path):
    write(
        tmp_path,
        rich__style='import random, numpy; random.random(), numpy.random.rand()',
        train="""
            import random
            import numpy as np

            was = random.getstate(), str(np.random.get_state())
            import rich.style
            assert (random.getstate(), str(np.random.get_state())) == was
            print('IMPORTED', rich.style.__file__)
            """,
    )
    (tmp_path / 'rich/__init__.py').touch()
    finished = launch.run([*RUN, '--stable-seeds', 'train.py'], timeout=300, cwd=tmp_path)
    assert f'IMPORTED {tmp_path}' in finished.output, finished.output


@pytest.mark.parametrize(
    'program, flag, expected',
    [
        ('classifier_tpu', '--output_dir=', {'eval_accuracy': 1.0, 'global_step': 12, 'loss': 6.01415e-05}),
        ('tagger_crf', '', {'accuracy': 0.984026, 'global_step': 80, 'loss': 0.287494}),
        ('residual_slim', '', {'accuracy': 1.0, 'average': 0.26455, 'loss': 0.0459717, 'step': 30}),
        (
            'wide_deep_csv',
            '--model_dir=',
            {'auc': 0.962865, 'average_loss': 0.550141, 'exported': 0.461003, 'loss': 22.0056},
        ),
    ],
)
def test_programs_have_one_result_on_every_version(tmp_path, program, flag, expected):
    """TensorFlow 2.15.1 and 2.21 gave these numbers, and agreed in six digits."""
    command = [*RUN, '--tf1', '--stable-seeds', PROGRAMS / f'{program}.py', f'{flag}{tmp_path / "out"}']
    finished = launch.run(command, timeout=300, cwd=tmp_path, TF_ENABLE_ONEDNN_OPTS='0')
    assert finished.code == 0, finished.output
    (line,) = [line for line in finished.output.splitlines() if line.startswith('RESULT ')]
    found = json.loads(line.removeprefix('RESULT '))
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-3)


def test_without_the_switch_the_program_is_told_of_it(tmp_path):
    write(tmp_path, train='import tensorflow as tf\ntf.app.run()')
    found = launch.run([*RUN, 'train.py'], cwd=tmp_path)
    assert found.code == 1
    *traceback, said = found.output.splitlines()
    assert traceback[-1] == "AttributeError: module 'tensorflow' has no attribute 'app'"
    assert said.startswith('compat: tf.app is of TensorFlow 1') and '--tf1' in said
