"""What the image classifiers have in common: all but their layers."""

from estimator_trainer.jobs import schedules
from estimator_trainer.jobs.job import KerasParts

OPTIMIZERS = ('sgd', 'momentum', 'adam')
PARAMS = {
    'classes': 10,
    'optimizer': 'sgd',  # one of OPTIMIZERS
    'l2': 0.0,  # weight of the sum of squares of every kernel; counts once in the loss
    'shift_pixels': 0,  # training images are moved by up to so many pixels, in each epoch differently
    'turn_degrees': 0.0,  # they are turned about their middle by up to so many degrees
    'zoom': 0.0,  # and enlarged by a factor between 1 - zoom and 1 + zoom
    **schedules.SCHEDULE_PARAMS,
}


def make_model(name, layers):
    """Makes `make_model(params)` of a classifier.

    The model takes {'image': uint8 [batch, height, width, channels]} and gives logits [batch, classes].
    The pixels are scaled in the model and not in the input pipeline, so that a served model takes what
    a camera gives.

    Args:
        layers: (params) -> list of Keras layers from float images in 0..1 to logits. The seed of each
            initializer is fixed by the run's, not by its place in the graph: the same weights start
            one process and every worker of a cluster.
    """

    def make(params):
        import tensorflow as tf

        image = tf.keras.Input(params.get('image_shape', (28, 28, 1)), dtype=tf.uint8, name='image')
        scaled = tf.keras.layers.Rescaling(1 / 255, name='rescaling')(image)
        # A model inside the model: its name is a part of the weights' in Estimator's checkpoints.
        logits = tf.keras.Sequential(layers(params), name=name)(scaled)
        return tf.keras.Model({'image': image}, logits, name=f'{name}_of_images')

    return make


def loss(labels, logits, params):
    """Cross-entropies [batch], or [batch, ...] where each example has several labels."""
    import tensorflow as tf

    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.cast(labels, tf.int64), logits=logits)


def penalty(model, params):
    """L2 of the kernels; None without."""
    import tensorflow as tf

    if not params['l2']:
        return None
    return params['l2'] * tf.add_n(
        [tf.reduce_sum(tf.square(weight)) for weight in model.trainable_weights if 'kernel' in weight.name]
    )


def make_optimizer(params):
    from estimator_trainer.jobs import optimizers

    return optimizers.make(params['optimizer'], params)


def metrics(params):
    import tensorflow as tf

    return {'accuracy': tf.keras.metrics.SparseCategoricalAccuracy(name='accuracy')}


def predictions(logits):
    import tensorflow as tf

    return {'logits': logits, 'probabilities': tf.nn.softmax(logits), 'classes': tf.argmax(logits, axis=-1)}


PARTS = KerasParts(loss=loss, make_optimizer=make_optimizer, penalty=penalty, metrics=metrics, predictions=predictions)


def check(params) -> None:
    """Raises ValueError for params that cannot work, before TensorFlow is imported."""
    schedules.check(params)
    for name, least in (('shift_pixels', 0), ('turn_degrees', 0), ('zoom', 0), ('l2', 0), ('classes', 1)):
        if params[name] < least:
            raise ValueError(f'--param={name}={params[name]}: give {least} or more.')
    if params['zoom'] >= 1:
        raise ValueError(f'--param=zoom={params["zoom"]}: give less than 1; 0.1 enlarges an image by 0.9 to 1.1.')
    if params['optimizer'] not in OPTIMIZERS:
        raise ValueError(f'--param=optimizer={params["optimizer"]}: use one of {", ".join(OPTIMIZERS)}.')
