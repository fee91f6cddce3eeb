"""The tutorial's CNN for Fashion-MNIST: two convolutions, about 122,000 weights."""

from estimator_trainer.jobs.image_classifier import PARAMS, PARTS, check, make_model
from estimator_trainer.jobs.job import Job
from estimator_trainer.jobs.job_types import KerasLayer, Params


def layers(params: Params) -> list[KerasLayer]:
    import tensorflow as tf

    keras, seed = tf.keras.layers, params['seed']

    def kernel(number: int) -> 'tf.keras.initializers.Initializer':
        return tf.keras.initializers.GlorotUniform(seed=seed + number)

    return [
        keras.Conv2D(32, 3, activation='relu', kernel_initializer=kernel(1), name='conv1'),
        keras.MaxPooling2D(name='pool1'),
        keras.Conv2D(64, 3, activation='relu', kernel_initializer=kernel(2), name='conv2'),
        keras.MaxPooling2D(name='pool2'),
        keras.Flatten(name='flatten'),
        keras.Dense(64, activation='relu', kernel_initializer=kernel(3), name='dense'),
        keras.Dense(params['classes'], kernel_initializer=kernel(4), name='logits'),
    ]


job = Job(
    make_model=make_model('fashion_mnist', layers),
    parts=PARTS,
    params=PARAMS,
    check=check,
    best_metric='accuracy',
    best_mode='max',
)
