"""A small Keras job whose data are awkward: `--job=tests.chaos.data_job:job`, for each of the loops.

Its features may be dense, sparse and ragged, with a scalar that all examples share; its data may come slowly
from some step on, and it may turn the garbage collector off.
"""

import gc
import time

import numpy as np

from estimator_trainer.jobs import Job, KerasParts
from tests.chaos import faults
from tests.chaos.job import points

_scene = faults.Scene.of_this_task()
EVAL_EXAMPLES = 100  # 7 batches of 16: on two replicas the last step has one short batch, and one without examples


def input_fn(mode, params, input_context):
    import tensorflow as tf

    from estimator_trainer.data import array_batches

    training = mode == tf.estimator.ModeKeys.TRAIN
    if params['gc_off'] and training:
        gc.disable()
    xy, labels = points(seed=1) if training else points(seed=2, count=EVAL_EXAMPLES)
    arrays = {'xy': xy}
    if params['ballast_mb']:
        # float32, which does not repeat itself: as text it takes three times the room
        arrays['ballast'] = (
            np.random.RandomState(0).normal(size=[len(xy), params['ballast_mb'] * 2**18 // len(xy)]).astype(np.float32)
        )

    def make_kinds(features, labels):
        dense = features['xy']
        positive = tf.nn.relu(dense)
        return {
            'a_scale': tf.constant(2.0),
            'xy': dense,
            'sparse': tf.sparse.from_dense(positive),
            'ragged': tf.RaggedTensor.from_tensor(positive, padding=0.0),
        }, labels

    batches = array_batches(arrays, labels, mode, params, input_context)
    if params['kinds']:
        batches = batches.map(make_kinds)
    if not training:
        return batches
    replicas = input_context.num_replicas_in_sync // input_context.num_input_pipelines if input_context else 1
    return batches.enumerate().map(
        lambda number, batch: _late(params['start_step'] + number // max(1, replicas) + 1, batch, params)
    )


def _late(step, batch, params):
    """The batch of a step, as late as the params say. The task comes to TRAINING as it is asked for."""
    import tensorflow as tf

    def wait(step):
        if _scene:
            _scene.reached(faults.TRAINING, int(step))
        if params['gc_off'] and step in (200, 700):
            print(f'objects at step {step}: {len(gc.get_objects())}', flush=True)
        time.sleep(params['slow_ms'] / 1000 if step >= params['slow_from'] else 0)
        return step

    with tf.control_dependencies([tf.numpy_function(wait, [step], tf.int64)]):
        return tf.nest.map_structure(tf.identity, batch, expand_composites=True)


def make_model(params):
    import tensorflow as tf

    layers = tf.keras.layers
    initializer = tf.keras.initializers.GlorotUniform(params['seed'])
    inputs = {'xy': tf.keras.Input([2], name='xy')}
    parts = inputs['xy']
    if params['kinds']:
        inputs['sparse'] = tf.keras.Input([2], name='sparse', sparse=True)
        inputs['ragged'] = tf.keras.Input([None], name='ragged', ragged=True)
        sums = layers.Lambda(lambda ragged: tf.reduce_sum(ragged, 1)[:, tf.newaxis])(inputs['ragged'])
        dense = layers.Dense(8, kernel_initializer=initializer, name='of_sparse')(inputs['sparse'])
        parts = layers.Concatenate()([parts, dense, sums])
    hidden = layers.Dense(8, 'relu', kernel_initializer=initializer, name='hidden')(parts)
    return tf.keras.Model(inputs, layers.Dense(2, kernel_initializer=initializer, name='logits')(hidden))


def loss(labels, outputs, params):
    import tensorflow as tf

    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)


def make_optimizer(params):
    import tensorflow as tf

    return tf.keras.optimizers.legacy.SGD(params['learning_rate'])


def metrics(params):
    import tensorflow as tf

    return {'accuracy': tf.keras.metrics.SparseCategoricalAccuracy()}


job = Job(
    make_model=make_model,
    parts=KerasParts(loss=loss, make_optimizer=make_optimizer, metrics=metrics),
    input_fn=input_fn,
    params={
        'learning_rate': 0.1,
        'ballast_mb': 0,  # of data that nobody needs
        'gc_off': False,  # the garbage collector
        'kinds': False,  # of features: all of them
        'slow_from': 0,  # from this step on ...
        'slow_ms': 0,  # ... a batch comes so much later
    },
    num_train_examples=640,
)
