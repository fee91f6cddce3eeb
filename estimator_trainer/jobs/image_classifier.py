"""An image classifier: convolutions, each with a pooling, and two dense layers.

The built-in jobs mnist and fashion_mnist are this classifier with other numbers of filters.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from estimator_trainer.jobs import schedules
from estimator_trainer.jobs.job import KerasParts
from estimator_trainer.jobs.job_types import KerasLayer, KerasMetric, KerasModel, KerasOptimizer, Params

if TYPE_CHECKING:
    import tensorflow as tf

OPTIMIZERS = ('sgd', 'momentum', 'adam')
PARAMS: dict[str, Any] = {
    'classes': 10,
    'filters': [32],  # of each convolution; a pooling, which halves height and width, follows each
    'optimizer': 'sgd',  # one of OPTIMIZERS
    'l2': 0.0,  # weight of the sum of squares of every kernel; counts once in the loss
    'shift_pixels': 0,  # training images are moved by up to this many pixels, in each epoch differently
    'turn_degrees': 0.0,  # they are turned about their middle by up to this many degrees
    'zoom': 0.0,  # and enlarged by a factor between 1 - zoom and 1 + zoom
    **schedules.SCHEDULE_PARAMS,
}


def make_model(name: str) -> Callable[[Params], KerasModel]:
    """Makes the function `make_model` of a Job that classifies images.

    Its model takes {'image': uint8 [batch, height, width, channels]} and returns logits [batch, classes]. The model
    scales the pixels itself, so that a served model takes images as a camera gives them.

    Args:
        name: the name of the job.
    """

    def make(params: Params) -> KerasModel:
        import tensorflow as tf

        image = tf.keras.Input(params.get('image_shape', (28, 28, 1)), dtype=tf.uint8, name='image')
        scaled = tf.keras.layers.Rescaling(1 / 255, name='rescaling')(image)
        # The name of the inner model is a part of the names of the weights in Estimator's checkpoints.
        logits = tf.keras.Sequential(_layers(params), name=name)(scaled)
        return tf.keras.Model({'image': image}, logits, name=f'{name}_of_images')

    return make


def _layers(params: Params) -> list[KerasLayer]:
    """The Keras layers from float images in 0..1 to logits.

    The seed of each initializer follows from the seed of the run, not from its place in the graph, so that a single
    process and every worker of a cluster start with the same weights.
    """
    import tensorflow as tf

    keras, filters = tf.keras.layers, params['filters']

    def kernel(number: int) -> 'tf.keras.initializers.Initializer':
        return tf.keras.initializers.GlorotUniform(seed=params['seed'] + number)

    layers: list[KerasLayer] = []
    for number, width in enumerate(filters, start=1):
        suffix = '' if len(filters) == 1 else str(number)
        layers += [
            keras.Conv2D(width, 3, activation='relu', kernel_initializer=kernel(number), name=f'conv{suffix}'),
            keras.MaxPooling2D(name=f'pool{suffix}'),
        ]
    return [
        *layers,
        keras.Flatten(name='flatten'),
        keras.Dense(64, activation='relu', kernel_initializer=kernel(len(filters) + 1), name='dense'),
        keras.Dense(params['classes'], kernel_initializer=kernel(len(filters) + 2), name='logits'),
    ]


def loss(labels: 'tf.Tensor', logits: 'tf.Tensor', params: Params) -> 'tf.Tensor':
    """Cross-entropies [batch], or [batch, ...] if each example has several labels."""
    import tensorflow as tf

    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.cast(labels, tf.int64), logits=logits)


def penalty(model: KerasModel, params: Params) -> 'tf.Tensor | None':
    """The param `l2` times the sum of squares of the kernels, a scalar; None if the param is 0."""
    import tensorflow as tf

    if not params['l2']:
        return None
    return params['l2'] * tf.add_n(
        [tf.reduce_sum(tf.square(weight)) for weight in model.trainable_weights if 'kernel' in weight.name]
    )


def make_optimizer(params: Params) -> KerasOptimizer:
    from estimator_trainer.jobs import optimizers

    return optimizers.make(params['optimizer'], params)


def metrics(params: Params) -> dict[str, KerasMetric]:
    import tensorflow as tf

    return {'accuracy': tf.keras.metrics.SparseCategoricalAccuracy(name='accuracy')}


def predictions(logits: 'tf.Tensor') -> 'dict[str, tf.Tensor]':
    import tensorflow as tf

    return {'logits': logits, 'probabilities': tf.nn.softmax(logits), 'classes': tf.argmax(logits, axis=-1)}


PARTS = KerasParts(loss=loss, make_optimizer=make_optimizer, penalty=penalty, metrics=metrics, predictions=predictions)


def check(params: Params) -> None:
    """Raises ValueError for params that cannot work, before TensorFlow is imported."""
    schedules.check(params)
    if not params['filters'] or min(params['filters']) < 1:
        given = ','.join(map(str, params['filters']))
        raise ValueError(f'--param=filters={given}: give the filters of each convolution, such as 32,64.')
    for name, least in (('shift_pixels', 0), ('turn_degrees', 0), ('zoom', 0), ('l2', 0), ('classes', 1)):
        if params[name] < least:
            raise ValueError(f'--param={name}={params[name]}: give {least} or more.')
    if params['zoom'] >= 1:
        raise ValueError(f'--param=zoom={params["zoom"]}: give less than 1; 0.1 enlarges an image by 0.9 to 1.1.')
    if params['optimizer'] not in OPTIMIZERS:
        raise ValueError(f'--param=optimizer={params["optimizer"]}: use one of {", ".join(OPTIMIZERS)}.')
