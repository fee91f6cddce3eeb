"""The tutorial's CNN for handwritten digits: one convolution, about 347,000 weights."""

from estimator_trainer.jobs.image_classifier import PARAMS, check, model_fn_from
from estimator_trainer.jobs.job import Job


def make_model(params):
    """A Keras model from float images [batch, 28, 28, 1] in 0..1 to logits [batch, classes].

    The seed of each initializer is fixed by the run's, not by its place in the graph: the same
    weights start one process and every worker of a cluster.
    """
    import tensorflow as tf
    layers, seed = tf.keras.layers, params['seed']

    def kernel(number):
        return tf.keras.initializers.GlorotUniform(seed=seed + number)

    return tf.keras.Sequential([
        layers.Conv2D(32, 3, activation='relu', kernel_initializer=kernel(1), name='conv'),
        layers.MaxPooling2D(name='pool'),
        layers.Flatten(name='flatten'),
        layers.Dense(64, activation='relu', kernel_initializer=kernel(2), name='dense'),
        layers.Dense(params['classes'], kernel_initializer=kernel(3), name='logits'),
    ], name='mnist')


job = Job(
    model_fn=model_fn_from(make_model),
    params=PARAMS,
    check=check,
    best_metric='accuracy',
    best_mode='max',
)
