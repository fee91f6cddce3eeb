"""A canned Estimator whose gradients are rows: each batch meets another number of values of a column."""

import numpy as np

from estimator_trainer.jobs import Job

VALUES = 500


def input_fn(mode, params, input_context):
    from estimator_trainer.data import array_batches

    random = np.random.RandomState(1)
    values = random.randint(0, VALUES, 2000)
    return array_batches({'value': values}, (values % 7 < 3).astype(np.int64), mode, params, input_context)


def make_estimator(run_config, params):
    import tensorflow as tf

    column = tf.feature_column.categorical_column_with_identity('value', VALUES)
    return tf.compat.v1.estimator.LinearClassifier(
        [column],
        optimizer=tf.compat.v1.train.AdagradOptimizer(0.5),
        loss_reduction=tf.compat.v1.losses.Reduction.SUM_OVER_BATCH_SIZE,
        config=run_config,
    )


job = Job(make_estimator=make_estimator, input_fn=input_fn)
