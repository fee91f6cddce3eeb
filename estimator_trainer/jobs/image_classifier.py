"""The model_fn of an image classifier, around a Keras model that gives logits."""

from estimator_trainer.jobs import schedules

OPTIMIZERS = ('sgd', 'momentum', 'adam')
PARAMS = {
    'classes': 10,
    'optimizer': 'sgd',  # one of OPTIMIZERS
    'l2': 0.0,  # weight of the sum of squares of every kernel; counts once in the loss
    'shift_pixels': 0,  # training images are moved by up to so many pixels, in each epoch differently
    **schedules.SCHEDULE_PARAMS,
}


def model_fn_from(make_model):
    """Makes a model_fn from `make_model(params) -> tf.keras.Model`.

    Features: {'image': uint8 [batch, height, width, channels]}; labels: int64 [batch]. Predictions:
    logits and probabilities [batch, classes] and classes [batch]. The pixels are scaled here and not
    in the input pipeline, so that a served model takes what a camera gives.
    """

    def model_fn(features, labels, mode, params):
        import tensorflow as tf
        modes = tf.estimator.ModeKeys
        model = make_model(params)
        images = tf.cast(features['image'], tf.float32) / 255.0
        logits = model(images, training=mode == modes.TRAIN)
        predictions = {
            'logits': logits,
            'probabilities': tf.nn.softmax(logits),
            'classes': tf.argmax(logits, axis=-1),
        }
        if mode == modes.PREDICT:
            return tf.estimator.EstimatorSpec(
                mode, predictions=predictions,
                export_outputs={'serving_default': tf.estimator.export.PredictOutput(predictions)})

        labels = tf.cast(labels, tf.int64)
        # The mean over the per-replica batch, as Job.model_fn says. The penalty is whole in every
        # replica's loss: divided by their number and summed, it counts once.
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        if params['l2']:
            loss += params['l2'] * tf.add_n([
                tf.reduce_sum(tf.square(weight)) for weight in model.trainable_weights
                if 'kernel' in weight.name])
        if mode == modes.EVAL:
            accuracy = tf.compat.v1.metrics.accuracy(labels, predictions['classes'])
            return tf.estimator.EstimatorSpec(
                mode, loss=loss, predictions=predictions, eval_metric_ops={'accuracy': accuracy})

        step = tf.compat.v1.train.get_global_step()
        rate = schedules.learning_rate(params, step)
        tf.compat.v1.summary.scalar('learning_rate', rate)
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, train_op=_optimizer(params, rate).minimize(loss, global_step=step))

    return model_fn


def check(params) -> None:
    """Raises ValueError for params that cannot work, before TensorFlow is imported."""
    schedules.check(params)
    for name, least in (('shift_pixels', 0), ('l2', 0), ('classes', 1)):
        if params[name] < least:
            raise ValueError(f'--param={name}={params[name]}: give {least} or more.')
    if params['optimizer'] not in OPTIMIZERS:
        raise ValueError(f"--param=optimizer={params['optimizer']}: use one of "
                         f"{', '.join(OPTIMIZERS)}.")


def _optimizer(params, rate):
    from tensorflow.compat.v1 import train
    if params['optimizer'] == 'adam':
        return train.AdamOptimizer(rate)
    if params['optimizer'] == 'momentum':
        return train.MomentumOptimizer(rate, momentum=0.9)
    return train.GradientDescentOptimizer(rate)
