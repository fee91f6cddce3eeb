"""Jobs whose steps are not like those of `job.py`: `--job=tests.chaos.unlike_job:lstm` and `:accumulating`.

The examples are the same. No hook looks at a step, so that a call takes several. A fault comes from within the step
itself, which may lie in the midst of a call.
"""

import dataclasses

import tensorflow as tf

from tests.chaos import faults
from tests.chaos.job import job as of_arrays

v1 = tf.compat.v1
EVERY = 4  # batches make an update of the accumulating job
_scene = faults.Scene.of_this_task()
if _scene:
    _scene.begins()


def _model_fn(logits_of, train):
    def model_fn(features, labels, mode):
        logits = logits_of(features['xy'])
        classes = tf.argmax(logits, axis=-1)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        if mode == tf.estimator.ModeKeys.EVAL:
            metrics = {'accuracy': v1.metrics.accuracy(labels, classes)}
            return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)
        step = v1.train.get_global_step()
        train_op = train(loss, step)
        if _scene:
            with tf.control_dependencies([train_op]):
                train_op = v1.py_func(_reached, [step.read_value()], [], stateful=True)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    return model_fn


def _reached(step):
    _scene.reached(faults.TRAINING, int(step))


def _of_lstm(xy):
    """float32 [count, 2] -> [count, 2]: each point comes five times, a little smaller each time."""
    points = tf.stack([xy * scale for scale in (1.0, 0.9, 0.8, 0.7, 0.6)], axis=1)
    return tf.keras.layers.Dense(2, name='logits')(tf.keras.layers.LSTM(6, name='lstm')(points))


def _of_dense(xy):
    hidden = tf.keras.layers.Dense(8, activation='relu', name='hidden')(xy)
    return tf.keras.layers.Dense(2, name='logits')(hidden)


def _by_adam(loss, step):
    return v1.train.AdamOptimizer(0.01).minimize(loss, step)


def _accumulated(loss, step):
    """The global step counts updates. Between them the gradients are added up, and nothing else changes."""
    optimizer = v1.train.GradientDescentOptimizer(0.1)
    gradients, variables = zip(*optimizer.compute_gradients(loss))
    sums = [
        v1.get_variable(
            f'sum_{number}',
            variable.shape,
            initializer=v1.zeros_initializer(),
            trainable=False,
            aggregation=tf.VariableAggregation.MEAN,
        )
        for number, variable in enumerate(variables)
    ]
    count = v1.get_variable(
        'count',
        [],
        tf.int64,
        v1.zeros_initializer(),
        trainable=False,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )
    with tf.control_dependencies([total.assign_add(gradient) for total, gradient in zip(sums, gradients)]):
        with tf.control_dependencies([count.assign_add(1)]):
            updates = tf.equal(count.read_value() % EVERY, 0)
            means = [tf.where(updates, total.read_value() / EVERY, 0.0) for total in sums]
    with tf.control_dependencies([optimizer.apply_gradients(zip(means, variables))]):
        kept = [total.assign(tf.where(updates, 0.0, total.read_value())) for total in sums]
    with tf.control_dependencies(kept):
        return step.assign_add(tf.cast(updates, tf.int64)).op


_own = {'serving_input_fn': None, 'params': {}}
lstm = dataclasses.replace(of_arrays, **_own, model_fn=_model_fn(_of_lstm, _by_adam))
accumulating = dataclasses.replace(of_arrays, **_own, model_fn=_model_fn(_of_dense, _accumulated))
