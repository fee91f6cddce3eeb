"""A small job whose tasks come to harm at exact moments: `--job=tests.chaos.job:job`.

Two arms of a spiral, a few weights, a hundred steps in a second or two. Without the environment variable of
`faults.FOLDER` it is a job like any other.
"""

import numpy as np

from estimator_trainer.jobs import Job
from tests.chaos import faults

_scene = faults.Scene.of_this_task()
if _scene:
    _scene.begins()


def points(seed, count=640):
    """float32 [count, 2] and int64 [count]."""
    random = np.random.RandomState(seed)
    labels = random.randint(0, 2, count)
    radius = random.uniform(0.2, 1.0, count)
    angle = 4 * radius + np.pi * labels + random.normal(0, 0.1, count)
    xy = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return xy.astype(np.float32), labels.astype(np.int64)


def input_fn(mode, params, input_context):
    from estimator_trainer.data import array_batches

    xy, labels = points(seed=1 if mode == 'train' else 2)
    return array_batches({'xy': xy}, labels, mode, params, input_context)


def looked_up(xy, rows, config):
    """float32 [count, 2]: rows of an embedding table that is in parts, one on each parameter server."""
    import tensorflow as tf

    v1 = tf.compat.v1
    table = v1.get_variable(
        'table',
        [rows, 2],
        initializer=v1.zeros_initializer(),
        partitioner=v1.min_max_variable_partitioner(max_partitions=config.num_ps_replicas, min_slice_size=1),
    )
    row = tf.cast((xy[:, 0] + 2) / 4 * rows, tf.int64)  # from 0 to rows-1: no point is 2 away
    return v1.nn.embedding_lookup(table, row, partition_strategy='div')


def model_fn(features, labels, mode, params, config):
    import tensorflow as tf

    from tests.chaos import hooks

    v1 = tf.compat.v1
    if _scene and mode != tf.estimator.ModeKeys.PREDICT:
        _scene.reached(faults.START_UP)
    hidden = tf.keras.layers.Dense(params['hidden'], activation='relu', name='hidden')(features['xy'])
    logits = tf.keras.layers.Dense(2, name='logits')(hidden)
    if params['table_rows']:
        logits += looked_up(features['xy'], params['table_rows'], config)
    classes = tf.argmax(logits, axis=-1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={'classes': classes})
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(
            mode,
            loss=loss,
            evaluation_hooks=[hooks.Evaluating(_scene)],
            eval_metric_ops={'accuracy': v1.metrics.accuracy(labels, classes)},
        )
    step = v1.train.get_global_step()
    if params['nan_at']:
        loss = tf.where(step >= params['nan_at'], np.nan, 1.0) * loss
    if params['waste_mb']:  # memory that each step wants
        loss += 0 * tf.reduce_mean(tf.random.uniform([params['waste_mb'], 1 << 18]))
    optimizer = v1.train.AdamOptimizer(params['learning_rate'])
    return tf.estimator.EstimatorSpec(
        mode,
        loss=loss,
        train_op=optimizer.minimize(loss, step),
        training_hooks=[hooks.Training(_scene, params)],
        scaffold=v1.train.Scaffold(saver=hooks.make_saver(_scene, config)) if _scene else None,
    )


def serving_input_fn(params):
    import tensorflow as tf

    xy = tf.compat.v1.placeholder(tf.float32, [None, 2], name='xy')
    return tf.estimator.export.ServingInputReceiver({'xy': xy}, {'xy': xy})


job = Job(
    model_fn=model_fn,
    input_fn=input_fn,
    serving_input_fn=serving_input_fn,
    params={
        'hidden': 8,
        'learning_rate': 0.01,
        'nan_at': 0,  # from this step on the loss is NaN; 0: never
        'raise_at': 0,  # after this step an exception is raised; 0: never
        'slow_ms': 0,  # that a step takes longer
        'table_rows': 0,  # of an embedding table in parts; 0: there is none
        'waste_mb': 0,  # of memory that a step needs for nothing
    },
    best_metric='accuracy',
    best_mode='max',
    num_train_examples=640,
)
