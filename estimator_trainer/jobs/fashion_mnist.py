"""The tutorial's CNN for Fashion-MNIST: two convolutions, about 122,000 weights."""

from estimator_trainer.jobs.image_classifier import PARAMS, check, model_fn_from
from estimator_trainer.jobs.job import Job


def make_model(params):
    """A Keras model from float images [batch, 28, 28, 1] in 0..1 to logits [batch, classes]."""
    import tensorflow as tf
    layers, seed = tf.keras.layers, params['seed']

    def kernel(number):
        return tf.keras.initializers.GlorotUniform(seed=seed + number)

    return tf.keras.Sequential([
        layers.Conv2D(32, 3, activation='relu', kernel_initializer=kernel(1), name='conv1'),
        layers.MaxPooling2D(name='pool1'),
        layers.Conv2D(64, 3, activation='relu', kernel_initializer=kernel(2), name='conv2'),
        layers.MaxPooling2D(name='pool2'),
        layers.Flatten(name='flatten'),
        layers.Dense(64, activation='relu', kernel_initializer=kernel(3), name='dense'),
        layers.Dense(params['classes'], kernel_initializer=kernel(4), name='logits'),
    ], name='fashion_mnist')


job = Job(
    model_fn=model_fn_from(make_model),
    params=PARAMS,
    check=check,
    best_metric='accuracy',
    best_mode='max',
)
