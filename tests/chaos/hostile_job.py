"""A job for all three loops whose own Python code fails, or holds up its process, as its params say.

`--job=tests.chaos.hostile_job:job`. A linear model learns from batches that a Python generator makes.
"""

import errno
import json
import os
import threading
import time

import numpy as np

from estimator_trainer.jobs import Job, KerasParts
from tests.chaos import faults

_scene = faults.Scene.of_this_task()
if _scene:
    _scene.begins()

# Where the job's code fails, or holds up its process.
GENERATOR, NUMPY_FUNCTION, PY_FUNCTION = 'generator', 'numpy_function', 'py_function'
HOOK, ASSERTION, NO_FILE = 'hook', 'assertion', 'no_file'
HOLDS_THE_GIL = 'holds_the_gil'
WHERE = (GENERATOR, NUMPY_FUNCTION, PY_FUNCTION, HOOK, ASSERTION, NO_FILE, HOLDS_THE_GIL)
TEXT = 'the job fails as it was told'


def this_task() -> str:
    task = json.loads(os.environ.get('TF_CONFIG') or '{}').get('task')
    return f'{task["type"]}:{task["index"]}' if task else 'trainer'


def is_to_fail(params, where) -> bool:
    return params['where'] == where and this_task() == params['task']


def the_exception(params) -> Exception:
    """What the job raises. It may leave a thread behind, for which Python waits."""
    import tensorflow as tf

    if params['lingers']:
        threading.Thread(target=time.sleep, args=[params['lingers']]).start()
    name = params['raises']
    of_tensorflow = getattr(tf.errors, name, None)
    if of_tensorflow:
        return of_tensorflow(None, None, TEXT)
    return {
        'KeyError': KeyError(TEXT),
        'OSError': OSError(5, TEXT),
        'ValueError': ValueError(TEXT),
        'RuntimeError': RuntimeError(TEXT),
        'ConnectionResetError': ConnectionResetError(104, TEXT),
        'ENOSPC': OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), f'/{TEXT}'),
    }[name]


def input_fn(mode, params, input_context):
    import tensorflow as tf

    size = params['batch_size']

    def batches():
        random = np.random.RandomState(7)
        number = start = params['start_step'] if mode == 'train' else 0
        while mode == 'train' or number < start + 2:
            number += 1
            if mode == 'train' and number > params['at'] and is_to_fail(params, GENERATOR):
                raise the_exception(params)
            xy = random.uniform(-1, 1, [size, 2]).astype(np.float32)
            yield {'xy': xy}, (xy.sum(axis=1) > 0).astype(np.int64)

    def look(xy):
        if mode == 'train' and params['where'] in (NUMPY_FUNCTION, PY_FUNCTION) and is_to_fail(params, params['where']):
            look.batches += 1
            if look.batches > params['at']:
                raise the_exception(params)
        return xy

    look.batches = params['start_step']
    data = tf.data.Dataset.from_generator(
        batches, output_signature=({'xy': tf.TensorSpec([None, 2], tf.float32)}, tf.TensorSpec([None], tf.int64))
    )

    def through_python(features, labels):
        wrap = tf.py_function if params['where'] == PY_FUNCTION else tf.numpy_function
        xy = wrap(look, [features['xy']], tf.float32)
        if mode == 'train' and is_to_fail(params, NO_FILE):
            xy += 0 * tf.strings.to_number(tf.io.read_file('/nowhere/data-file'))
        xy.set_shape([None, 2])
        return {'xy': xy}, labels

    return data.map(through_python)


def make_model(params):
    import tensorflow as tf

    keras = tf.keras
    xy = keras.Input([2], name='xy')
    logits = keras.layers.Dense(2, name='logits', kernel_initializer='zeros')(xy)
    return keras.Model({'xy': xy}, logits)


def loss(labels, logits, params):
    import tensorflow as tf

    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    if is_to_fail(params, ASSERTION):
        with tf.control_dependencies([tf.debugging.assert_greater(losses, 1e9, message=TEXT)]):
            losses = tf.identity(losses)
    return losses


def make_optimizer(params):
    import tensorflow as tf

    return tf.keras.optimizers.legacy.SGD(0.01)


def model_fn(features, labels, mode, params):
    import tensorflow as tf

    from estimator_trainer.jobs import keras_model_fn
    from tests.chaos import hostile_hook

    spec = keras_model_fn.make(make_model, PARTS)(features, labels, mode, params)
    if mode != tf.estimator.ModeKeys.TRAIN:
        return spec
    return spec._replace(training_hooks=[*spec.training_hooks, hostile_hook.Hook(_scene, params)])


PARTS = KerasParts(loss=loss, make_optimizer=make_optimizer)
job = Job(
    make_model=make_model,
    parts=PARTS,
    model_fn=model_fn,
    input_fn=input_fn,
    num_train_examples=640,
    params={
        'where': '',  # the code that fails
        'task': 'worker:1',  # in which task
        'raises': 'KeyError',
        'at': 25,  # step
        'lingers': 0,  # seconds for which the process goes on after it has failed
        'secs': 40,  # for which the process is held up
        'slow_ms': 0,  # that a step takes longer, with Estimator
    },
)
