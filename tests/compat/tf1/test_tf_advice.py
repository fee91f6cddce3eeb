"""What a program of TensorFlow 1 that runs without --tf1 is told."""

import sys

import pytest

import estimator_trainer.compat
from estimator_trainer.compat import cures


@pytest.fixture(scope='module')
def tf():
    return estimator_trainer.compat.bring_up()


def raised(program, tf) -> Exception:
    try:
        exec(program, {'tf': tf})
    except Exception as error:
        return error
    raise AssertionError('it raises')


@pytest.mark.parametrize(
    'program, name',
    [
        ('tf.app.flags.DEFINE_integer("steps", 1, "")', 'tf.app'),
        ('tf.logging.info("x")', 'tf.logging'),
        ('tf.contrib.layers', 'tf.contrib'),
        ('import tensorflow.contrib.slim', 'tf.contrib'),
        ('from tensorflow import flags', 'tf.flags'),
        ('tf.train.Saver()', 'tf.train.Saver'),
        ('tf.losses.softmax_cross_entropy', 'tf.losses.softmax_cross_entropy'),
        ('tf.data.Dataset.range(3).make_one_shot_iterator()', 'make_one_shot_iterator of a data set'),
        ('tf.reduce_sum(tf.ones([2]), keep_dims=True)', 'the argument keep_dims'),
        ('tf.compat.v1.placeholder(tf.float32)', 'tf.placeholder'),
        ('tf.no_such_name', None),
        ('tf.train.no_such_name', None),
        ('import no_such_module', None),
        ('from tensorflow import no_such_name', None),
        ('{}.make_one_shot_iterator', None),
        ('sorted([], dim=1)', None),
        ('(lambda x: x)(1, dim=1)', None),
        ('1 / 0', None),
    ],
)
def test_what_an_error_says_of_tensorflow_1(tf, program, name):
    assert cures.old_name(raised(program, tf), tf) == name


def test_without_tensorflow_nothing_is_said():
    assert cures.old_name(AttributeError("module 'tensorflow' has no attribute 'app'"), None) is None


def test_the_line_follows_the_traceback(tf, monkeypatch, capsys):
    monkeypatch.setattr(sys, 'excepthook', sys.__excepthook__)
    cures.install(tf1=False)
    for program in ('tf.app.run()', '1 / 0'):
        error = raised(program, tf)
        sys.excepthook(type(error), error, error.__traceback__)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith('Traceback')
    (place,) = [place for place, line in enumerate(lines) if line.startswith('compat: ')]
    assert lines[place - 1] == "AttributeError: module 'tensorflow' has no attribute 'app'"
    assert 'tf.app is of TensorFlow 1' in lines[place] and 'compat run --tf1 PROGRAM' in lines[place]
    assert lines[place].endswith('`cluster --program` and `verify` take --tf1 as well')
