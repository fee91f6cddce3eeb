"""tf.contrib.learn: what is asked of it beside its data sets."""

import tensorflow as tf


class ModeKeys:
    """The modes of a model_fn. Estimators call the last one PREDICT."""

    TRAIN = tf.estimator.ModeKeys.TRAIN
    EVAL = tf.estimator.ModeKeys.EVAL
    INFER = tf.estimator.ModeKeys.PREDICT
