"""compat.tf1_names.contrib: names that are found, and sentences for the others."""

import configparser
import importlib.metadata
import operator
import pathlib
import re

import pytest
import tensorflow as tf

from estimator_trainer.compat.tf1_names import contrib
from estimator_trainer.compat.tf1_names.contrib import make_module_names

v1 = tf.compat.v1
USED = pathlib.Path(__file__).with_name('names_of_contrib.txt')


def names():
    parser = configparser.ConfigParser(delimiters=('=',), interpolation=None)
    parser.optionxform = str
    parser.read_string((pathlib.Path(contrib.__file__).parent / 'names.ini').read_text())
    for part in parser.sections():
        for name in parser[part]:
            if name not in ('*', '.python'):
                yield f'{part}.{name}'


def test_each_name_of_the_table_is_found():
    assert [path for path in names() if contrib.find(path) is None] == []


IS_OF_THE_LIST = (tf.__version__[:4], importlib.metadata.version('tf-slim')[:3]) == ('2.21', '1.1')


def test_the_list_of_names_in_modules_is_what_is_made():
    if not IS_OF_THE_LIST:
        pytest.skip('the list is of TensorFlow 2.21 and tf-slim 1.1')
    assert contrib.MODULE_NAMES.read_text() == make_module_names.text(), make_module_names.__doc__


def used_names():
    """Names of tf.contrib that programs use, whether there is one here or not."""
    return [line for line in USED.read_text().splitlines() if not line.startswith('#')]


def is_there(path):
    """Whether a program's `tf.contrib.<path>` is an object."""
    try:
        operator.attrgetter(path)(contrib.root())
    except (AttributeError, ImportError):
        return False
    return True


def test_a_name_is_listed_if_and_only_if_it_is_there():
    paths = sorted({*names(), *used_names(), *(f'{name}.x' for name in ('unheard_of', 'slim', 'data', 'lookup'))})
    assert len(paths) > 400
    listed = {path for path in paths if contrib.is_listed(path)}
    there = {path for path in paths if is_there(path)}
    assert not listed - there, 'assess and doctor promise them'
    if IS_OF_THE_LIST:  # an earlier TensorFlow has more of them
        assert not there - listed, 'assess and doctor say that they are missing'


@pytest.mark.parametrize(
    'path, said',
    [
        ('learn.Experiment', 'use tf.estimator.train_and_evaluate with'),
        ('learn.python.learn.learn_runner', 'use tf.estimator.train_and_evaluate'),
        ('distribute.Monitor', 'tf.contrib.distribute.Monitor was removed in TensorFlow 2: use tf.distribute.'),
        ('learn.datasets.load_iris', 'use the package tensorflow-datasets'),
        ('layers.real_valued_column', 'tf.feature_column.numeric_column'),
        ('unheard_of.thing', 'replace it in the program'),
    ],
)
def test_what_cannot_be_had_is_named(path, said):
    with pytest.raises(AttributeError) as error:
        contrib.find(path)
    assert said in str(error.value) and f'tf.contrib.{path}' in str(error.value)


def test_what_is_advised_is_there_in_a_program_of_tensorflow_1():
    parser = configparser.ConfigParser(delimiters=('=',), interpolation=None)
    parser.read_string((pathlib.Path(contrib.__file__).parent / 'absent.ini').read_text())
    for section in parser.sections():
        for name, sentence in parser[section].items():
            for advised in re.findall(r'\btf\.([\w.]*\w)', sentence):
                if not advised.startswith('contrib.'):
                    assert operator.attrgetter(advised)(v1), f'{name}: {sentence}'


def _one_batch(labels):
    return lambda: tf.data.Dataset.from_tensors(({'x': [[1.0], [2.0]]}, labels))


@pytest.mark.parametrize('how', ['an Estimator', 'a model_fn'])
@pytest.mark.parametrize(
    'name, arguments, labels',
    [
        ('multi_label_head', [2], [[0, 1], [1, 1]]),
        ('poisson_regression_head', [], [[1.0], [2.0]]),
        ('logistic_regression_head', [], [[0.0], [1.0]]),
        ('multi_head', None, {'one': [[1.0], [2.0]], 'other': [[1.0], [2.0]]}),
    ],
)
def test_a_head_that_is_advised_trains_as_the_advice_says(how, name, arguments, labels):
    sentence = contrib.absent(f'estimator.{name}')
    kind, module = (
        re.search(r'use tf\.estimator\.(\w+)', sentence)[1],
        re.search(r'tf\.([\w.]+)\.DNNEstimator', sentence)[1],
    )
    estimators, head_class = operator.attrgetter(module)(tf), getattr(v1.estimator, kind)
    if arguments is None:
        arguments = [[v1.estimator.RegressionHead(name=label) for label in labels]]
    head = head_class(*arguments)

    def model_fn(features, labels, mode):
        logits = v1.layers.dense(features['x'], head.logits_dimension)
        optimizer = v1.train.GradientDescentOptimizer(0.1)

        def train_op(loss):
            return optimizer.minimize(loss, v1.train.get_global_step())

        return head.create_estimator_spec(features, mode, logits, labels, train_op_fn=train_op)

    assert 'train_op_fn=' in sentence
    if how == 'an Estimator':
        estimator = estimators.DNNEstimator(head, [2], [tf.feature_column.numeric_column('x')])
    else:
        estimator = v1.estimator.Estimator(model_fn)
    estimator.train(_one_batch(labels), steps=1)
