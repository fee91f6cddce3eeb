"""A migrated model scores tf.Examples as the Estimator's own export does, complete ones and others."""

import pathlib
import sys

import launch
import numpy as np
import pytest
import tensorflow as tf

pytestmark = pytest.mark.slow
PROGRAM = pathlib.Path(__file__).with_name('program_of_examples.py')
COMPLETE = {'age': 44.0, 'hours': 30.0, 'rooms': 2, 'job': 'cook', 'city': 'Ulm', 'shift': 1}
HAS_KERAS_3 = tuple(map(int, tf.__version__.split('.')[:2])) >= (2, 16)


@pytest.fixture(scope='module')
def exports(tmp_path_factory):
    """{who made it: its signature `predict`}"""
    folder = tmp_path_factory.mktemp('examples')

    def run(*command):
        environ = {'MODEL_DIR': str(folder / 'model_dir'), 'EXPORTS': str(folder / 'exports')}
        done = launch.run([sys.executable, *command], 300, folder, **environ)
        assert not done.code, done.output

    run(PROGRAM)
    program = f'--program={PROGRAM}:make_estimator'
    run('-m', 'estimator_trainer', 'migrate', program, '--input_fn=input_fn', '--to=keras')
    (exported,) = (folder / 'exports').iterdir()
    loaded = {
        'estimator': tf.saved_model.load(str(exported)),
        'keras': tf.saved_model.load(str(folder / 'keras/saved_model')),
    }
    return {name: (model, model.signatures['predict']) for name, model in loaded.items()}


def example(changes):
    """A serialized tf.Example of COMPLETE with these changes; None: the feature is missing."""
    made = tf.train.Example()
    for name, value in {**COMPLETE, **changes}.items():
        feature = made.features.feature[name]
        for each in value if isinstance(value, list) else [] if value is None else [value]:
            if isinstance(each, float):
                feature.float_list.value.append(each)
            elif isinstance(each, int):
                feature.int64_list.value.append(each)
            else:
                feature.bytes_list.value.append(each.encode())
    return made.SerializeToString()


@pytest.mark.skipif(not HAS_KERAS_3, reason='TensorFlow 2.15 brings Keras 2; the model is built by Keras 3')
@pytest.mark.parametrize(
    'changes',
    [
        {},
        {'age': 31.7},  # between two integers, and above the boundary 31.5
        {'age': None},
        {'rooms': None},
        {'job': None},
        {'city': None},
        {'job': None, 'city': None, 'shift': None},
        {'city': ''},
        {'city': ['Ulm', 'Bern'], 'job': ['cook', '']},
    ],
)
def test_both_exports_predict_the_same(exports, changes):
    given = tf.constant([example(changes), example({})])
    expected, predicted = (
        {k: v.numpy() for k, v in predict(examples=given).items()} for _, predict in exports.values()
    )
    assert expected.keys() == predicted.keys()
    for name, value in expected.items():
        if value.dtype.kind == 'f':
            np.testing.assert_allclose(predicted[name], value, rtol=1e-6, atol=1e-7, err_msg=name)
        else:
            assert predicted[name].tolist() == value.tolist(), name
    if changes:
        assert expected['logits'][0] != expected['logits'][1]


@pytest.mark.skipif(not HAS_KERAS_3, reason='as above')
@pytest.mark.parametrize('changes', [{'hours': None}, {'age': 31}, {'rooms': 2.0}])
def test_both_exports_refuse_the_same(exports, changes):
    for _, predict in exports.values():
        with pytest.raises(tf.errors.InvalidArgumentError):
            predict(examples=tf.constant([example(changes)]))
