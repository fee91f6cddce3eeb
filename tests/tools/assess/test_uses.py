"""assess.uses and assess.names: which name of TensorFlow a line means."""

import ast
import textwrap

import pytest

from estimator_trainer.tools.assess import tf_names, uses


def found(text, *packages):
    return [use.name for use in uses.find(ast.parse(textwrap.dedent(text)), packages) if not use.imported]


@pytest.mark.parametrize(
    'text, name, v1',
    [
        ('import tensorflow as tf\ntf.train.Saver', 'tf.train.Saver', False),
        ('import tensorflow\ntensorflow.train.Saver', 'tf.train.Saver', False),
        ('import tensorflow.compat.v1 as tf\ntf.train.Saver', 'tf.train.Saver', True),
        ('import tensorflow as tf\ntf.compat.v1.train.Saver', 'tf.train.Saver', True),
        ('from tensorflow.compat import v1 as tf\ntf.train.Saver', 'tf.train.Saver', True),
        ('import tensorflow as tf\ntf = tf.compat.v1\ntf.train.Saver', 'tf.train.Saver', True),
        ('import tensorflow as tf\ntf1 = tf.compat.v1\ntf1.train.Saver', 'tf.train.Saver', True),
        ('import tensorflow.compat.v2 as tf\ntf.train.Checkpoint', 'tf.train.Checkpoint', False),
        ('from tensorflow import estimator\nestimator.Estimator', 'tf.estimator.Estimator', False),
        ('from tensorflow.contrib import learn\nlearn.RunConfig', 'tf.contrib.learn.RunConfig', False),
        ('from tensorflow.train import Saver\nSaver', 'tf.train.Saver', False),
        ('import tensorflow.contrib.slim as slim\nslim.conv2d', 'tf.contrib.slim.conv2d', False),
        ('def f():\n  import tensorflow as tf\n  return tf.train.Saver()', 'tf.train.Saver', False),
        ('import tensorflow as tf\nclass A(tf.train.SessionRunHook): pass', 'tf.train.SessionRunHook', False),
        ('import tensorflow as tf\ndef f(a=tf.train.Saver): pass', 'tf.train.Saver', False),
        ('import tensorflow as tf\ndef f(tf: tf.train.Saver): pass', 'tf.train.Saver', False),
        ('import tensorflow as tf\ndef f() -> tf.train.Saver: pass', 'tf.train.Saver', False),
    ],
)
def test_aliases(text, name, v1):
    use = [use for use in uses.find(ast.parse(text)) if not use.imported][-1]
    assert (use.name, use.v1) == (name, v1)


def test_the_first_import_that_may_fail_counts():
    text = 'try:\n  import tensorflow.compat.v1 as tf\nexcept ImportError:\n  import tensorflow as tf\ntf.placeholder'
    assert uses.find(ast.parse(text))[-1] == uses.Use('tf.placeholder', 5, v1=True, through='tf')


def test_a_variable_hides_a_module():
    text = """
        from tensorflow import estimator
        def f(estimator):
            estimator.one
        def g():
            estimator = h()
            estimator.two
        def k():
            [estimator.three for x in y]
            lambda estimator: estimator.four
    """
    assert [name for name in found(text) if name.startswith('tf.')] == ['tf.estimator.three']


def test_what_is_no_module_is_not_followed():
    text = 'import tensorflow as tf\nflags = tf.flags\nFLAGS = flags.FLAGS\nFLAGS.batch_size\nflags.DEFINE_bool'
    assert found(text) == ['tf.flags', 'tf.flags.FLAGS', '.batch_size', 'tf.flags.DEFINE_bool']


def test_calls_of_several_lines():
    text = 'import tensorflow as tf\nx = (tf.data.TFRecordDataset(files)\n  .map(f)\n  .make_one_shot_iterator())'
    assert [(use.name, use.line) for use in uses.find(ast.parse(text))[1:]] == [
        ('tf.data.TFRecordDataset', 2),
        ('.map', 3),
        ('.make_one_shot_iterator', 4),
    ]


def test_arguments():
    text = (
        'import tensorflow as tf\ntf.reduce_sum(x, keep_dims=True)\ne.train(input_fn=f, hooks=h)\ne.train(my_input_fn)'
    )
    assert [use.arguments for use in uses.find(ast.parse(text))[1:]] == [
        ('keep_dims',),
        ('input_fn', 'hooks'),
        ('input_fn',),
    ]


def test_sizes():
    text = 'import tensorflow as tf\nx.shape[0].value\nx.get_shape()[-1].value\nx.shape.value\nitems[0].value'
    values = [name for name in found(text) if name.startswith('.value')]
    assert values == ['.value of a size', '.value of a size', '.value', '.value']


@pytest.mark.parametrize(
    ('test', 'guarded'),
    [
        ("hasattr(tf, 'contrib')", (True, False)),
        ("not hasattr(tf, 'contrib')", (False, True)),
        ("train and hasattr(tf.contrib, 'tpu')", (True, False)),
        ("tf.__version__.startswith('1.')", (True, False)),
        ("tf.__version__.startswith('2')", (False, False)),
        ("hasattr(params, 'contrib')", (False, False)),
    ],
)
def test_guarded_by_a_condition(test, guarded):
    text = f'import tensorflow as tf\nif {test}:\n  tf.contrib.a\nelse:\n  tf.contrib.b\n'
    used = {use.name: use.guarded for use in uses.find(ast.parse(text))}
    assert (used['tf.contrib.a'], used['tf.contrib.b']) == guarded


def test_guarded():
    text = 'try:\n  import tensorflow.contrib.tpu as t\nexcept ImportError:\n  {}\nt.x\nimport tensorflow.contrib.rnn'
    for handler, guarded in (('pass', True), ('raise', False)):
        assert [(use.name, use.guarded) for use in uses.find(ast.parse(text.format(handler)))] == [
            ('tf.contrib.tpu', guarded),
            ('tf.contrib.tpu.x', guarded),
            ('tf.contrib.rnn', False),
        ]


def test_star_and_packages():
    text = 'from tensorflow.contrib.learn import *\nimport tensorflow_hub as hub\nhub.Module\nimport numpy as np\nnp.x'
    every = [use.name for use in uses.find(ast.parse(text), ['tensorflow_hub'])]
    assert every == [uses.STAR, 'tf.contrib.learn', 'tensorflow_hub', 'tensorflow_hub.Module', '.x']


@pytest.mark.parametrize(
    'dotted, name, version',
    [
        ('tf.placeholder', 'tf.placeholder', tf_names.ONLY_1),
        ('tf.matmul', 'tf.matmul', tf_names.BOTH),
        ('tf.estimator.ModeKeys.TRAIN', 'tf.estimator.ModeKeys', tf_names.BOTH),
        ('tf.estimator.inputs.numpy_input_fn', 'tf.estimator.inputs.numpy_input_fn', tf_names.ONLY_1),
        ('tf.layers.dense', 'tf.layers.dense', tf_names.ONLY_1),
        ('tf.metrics.accuracy', 'tf.metrics.accuracy', tf_names.ONLY_1),
        ('tf.metrics.Mean', 'tf.metrics.Mean', tf_names.BOTH),
        ('tf.keras.layers.Dense', 'tf.keras.layers.Dense', tf_names.BOTH),
        ('tf.random.set_seed', 'tf.random.set_seed', tf_names.ONLY_2),
        ('tf.contrib.layers', 'tf.contrib.layers', tf_names.UNKNOWN),
        ('tf.mul', 'tf.mul', tf_names.UNKNOWN),
        ('tf.app.flags.FLAGS', 'tf.app.flags', tf_names.ONLY_1),
        ('tf.__version__', 'tf.__version__', tf_names.BOTH),
        ('tf.train', 'tf.train', tf_names.BOTH),
    ],
)
def test_which_tensorflow_has_a_name(dotted, name, version):
    assert tf_names.find(dotted) == (name, version)


def test_private_modules():
    assert 'tensorflow.python.framework.ops' in tf_names.private_modules()
    assert 'tensorflow.core.protobuf.config_pb2' in tf_names.private_modules()
    assert 'tensorflow.python.estimator.estimator' not in tf_names.private_modules()
