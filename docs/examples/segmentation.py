"""A label for each pixel, and a model with averages of its own: a job for all three loops.

cd docs/examples
python -m estimator_trainer --job=segmentation:job --loop=custom_loop --max_steps=200 --model_dir=/tmp/seg
"""

import numpy as np

from estimator_trainer.jobs import Job, KerasParts

SIDE = 16


def pictures(seed, count):
    """Noisy pictures with a bright disc: float32 [count, 16, 16, 1], and int64 [count, 16, 16], 1 in
    the disc."""
    random = np.random.RandomState(seed)
    rows, columns = np.mgrid[:SIDE, :SIDE]
    centre = random.uniform(4, 12, [count, 2, 1, 1])
    radius = random.uniform(2, 5, [count, 1, 1])
    inside = (rows - centre[:, 0]) ** 2 + (columns - centre[:, 1]) ** 2 < radius**2
    pixels = inside + random.normal(0, 0.3, inside.shape)
    return pixels[..., None].astype(np.float32), inside.astype(np.int64)


def input_fn(mode, params, input_context=None):
    from estimator_trainer.data import array_batches

    pixels, labels = pictures(seed=1, count=512) if mode == 'train' else pictures(seed=2, count=100)
    return array_batches({'pixels': pixels}, labels, mode, params, input_context)


def make_model(params):
    import tensorflow as tf

    keras = tf.keras

    def kernel(number):
        return keras.initializers.GlorotUniform(seed=params['seed'] + number)

    pixels = keras.Input([SIDE, SIDE, 1], name='pixels')
    hidden = keras.layers.Conv2D(
        params['channels'], 3, padding='same', use_bias=False, kernel_initializer=kernel(1), name='conv'
    )(pixels)
    hidden = keras.layers.BatchNormalization(name='norm')(hidden)
    hidden = keras.layers.ReLU(name='relu')(hidden)
    logits = keras.layers.Conv2D(2, 3, padding='same', kernel_initializer=kernel(2), name='logits')(hidden)
    return keras.Model({'pixels': pixels}, logits, name='segmentation')


def loss(labels, logits, params):
    """[batch, 16, 16]: not reduced. The trainer averages an example's pixels, then the examples."""
    import tensorflow as tf

    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def make_optimizer(params):
    import tensorflow as tf

    return tf.keras.optimizers.legacy.Adam(params['learning_rate'], epsilon=1e-8)


def metrics(params):
    import tensorflow as tf

    return {'accuracy': tf.keras.metrics.SparseCategoricalAccuracy()}  # over pixels


def predictions(logits):
    import tensorflow as tf

    return {'classes': tf.argmax(logits, axis=-1)}


def serving_input_fn(params):
    import tensorflow as tf

    pixels = tf.compat.v1.placeholder(tf.float32, [None, SIDE, SIDE, 1], name='pixels')
    return tf.estimator.export.ServingInputReceiver({'pixels': pixels}, {'pixels': pixels})


job = Job(
    make_model=make_model,
    parts=KerasParts(loss=loss, make_optimizer=make_optimizer, metrics=metrics, predictions=predictions),
    input_fn=input_fn,
    serving_input_fn=serving_input_fn,
    params={'channels': 8, 'learning_rate': 0.01},
    best_metric='accuracy',
    best_mode='max',
    num_train_examples=512,
)
