"""A job of your own: model_fn, input_fn and what serving takes.

cd docs/examples
python -m estimator_trainer --job=spiral:job --max_steps=400 --model_dir=/tmp/spiral
"""

import numpy as np

from estimator_trainer.jobs import Job


def points(seed, count=1000):
    """Two arms of a spiral: float32 [count, 2] and int64 [count]."""
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


def model_fn(features, labels, mode, params):
    import tensorflow as tf

    hidden = tf.keras.layers.Dense(params['hidden'], activation='relu', name='hidden1')(features['xy'])
    hidden = tf.keras.layers.Dense(params['hidden'], activation='relu', name='hidden2')(hidden)
    logits = tf.keras.layers.Dense(2, name='logits')(hidden)
    classes = tf.argmax(logits, axis=-1)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={'classes': classes})
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, eval_metric_ops={'accuracy': tf.compat.v1.metrics.accuracy(labels, classes)}
        )
    optimizer = tf.compat.v1.train.AdamOptimizer(params['learning_rate'])
    step = tf.compat.v1.train.get_global_step()
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, step))


def serving_input_fn(params):
    import tensorflow as tf

    xy = tf.compat.v1.placeholder(tf.float32, [None, 2], name='xy')
    return tf.estimator.export.ServingInputReceiver({'xy': xy}, {'xy': xy})


job = Job(
    model_fn=model_fn,
    input_fn=input_fn,
    serving_input_fn=serving_input_fn,
    params={'hidden': 32, 'learning_rate': 0.01},
    best_metric='accuracy',
    best_mode='max',
    num_train_examples=1000,
)
