"""tools.assess.old_names: how a program is to be run, without running it."""

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.tools.assess import knowledge, old_names


def advice(tmp_path, text):
    program = tmp_path / 'train.py'
    program.write_text(text)
    return [line.replace(str(program), 'train.py') for line in old_names.advice([str(program)])]


def test_a_program_of_tensorflow_2(tmp_path):
    (line,) = advice(tmp_path, 'import tensorflow as tf\nestimator = tf.estimator.DNNClassifier([4], [])\n')
    assert line.endswith('uses no names of TensorFlow 1: python -m estimator_trainer.compat run train.py')


def test_a_program_of_tensorflow_1(tmp_path):
    said = advice(
        tmp_path,
        """import tensorflow as tf
slim = tf.contrib.slim
tf.logging.info('x')
hparams = tf.contrib.training.HParams(rate=1)
experiment = tf.contrib.learn.Experiment()
column = tf.contrib.layers.real_valued_column('x')
decoder = tf.contrib.seq2seq.BasicDecoder()
""",
    )
    assert said[0].endswith('is written for TensorFlow 1: python -m estimator_trainer.compat run --tf1 train.py')
    assert said[1] == '  train.py:2: tf.contrib.slim' and said[6] == '  and 1 more'
    assert [line.partition(' was removed')[0] for line in said[7:]] == [
        'cannot work: train.py:5: tf.contrib.learn.Experiment',
        'cannot work: train.py:6: tf.contrib.layers.real_valued_column',
        'cannot work: train.py:7: tf.contrib.seq2seq.BasicDecoder',
    ]


@pytest.mark.parametrize(
    'name',
    [
        'rnn.LayerNormBasicLSTMCell',
        'framework.with_shape',
        'data.assert_element_shape',
        'layers.no_such_name',
        'slim.nets.no_such_net',
        'crf.no_such_name',
    ],
)
def test_a_name_that_its_part_lacks_is_not_promised(tmp_path, name, monkeypatch):
    monkeypatch.setattr(old_names.importlib.util, 'find_spec', lambda name: None)  # without tf-slim
    _, _, said = advice(tmp_path, f'import tensorflow as tf\nused = tf.contrib.{name}\n')
    assert said.startswith(f'cannot work: train.py:2: tf.contrib.{name} was removed')
    assert not knowledge.runs_with_tf1(f'tf.contrib.{name}')


@pytest.mark.parametrize(
    'text, line',
    [
        ('import keras', 1),
        ('import os\nfrom keras.layers import Dense', 2),
        ('import tensorflow.keras', 0),
        ('from tensorflow import keras', 0),
        ('from .keras import layers', 0),
    ],
)
@pytest.mark.parametrize('version', ['3.15.1', '2.15.0'])
def test_keras_by_its_own_name_is_keras_3(tmp_path, monkeypatch, text, line, version):
    monkeypatch.setattr(old_names.importlib.metadata, 'version', lambda name: version)
    noted = [said for said in advice(tmp_path, f'{text}\nimport tensorflow as tf\n') if said.startswith('note: ')]
    assert [said.partition(': `')[0] for said in noted] == [f'note: train.py:{line}'] * (line > 0 and version[0] == '3')


def test_a_folder_and_nothing(tmp_path):
    (tmp_path / 'a.py').write_text('import tensorflow as tf\ntf.app.run()\n')
    assert 'run --tf1 PROGRAM' in [*old_names.advice([str(tmp_path)])][0]
    with pytest.raises(UsageError, match='no such file'):
        list(old_names.advice([str(tmp_path / 'missing')]))


def test_files_that_a_program_imports_and_nobody_named(tmp_path):
    files = {
        'train.py': 'import os, model\nfrom readers import tfrecord\nfrom . import own\nimport readers.csv\n',
        'model.py': 'tf.contrib.layers\n',
        'own.py': '',
        'readers/__init__.py': '',
        'readers/tfrecord.py': '',
        'readers/csv.py': '',
        'os.txt': '',
    }
    (tmp_path / 'readers').mkdir()
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    first = next(old_names.advice([str(tmp_path / 'train.py')])).replace(f'{tmp_path}/', '')
    assert first == (
        'not read: model.py, readers/__init__.py, readers/tfrecord.py, own.py, readers/csv.py, which it imports: name '
        'them too, or the folder'
    )
    assert not any(line.startswith('not read') for line in old_names.advice([str(tmp_path)]))
    (tmp_path / 'alone.py').write_text('import os, numpy.linalg\n')
    assert next(old_names.advice([str(tmp_path / 'alone.py')])).startswith('program: ')
