"""A Keras model with averages that every worker holds a part of: `--job=tests.chaos.averages:job`."""

import dataclasses
import sys

from docs.examples import segmentation
from tests.chaos.faults import Scene

TEMPORARY = 'temporary folder'  # an event of the scene: the task has made one
_scene = Scene.of_this_task()


def _audit(event, args):
    if event == 'tempfile.mkdtemp' and _scene and 'estimator_trainer.training.keras_training' in sys.modules:
        _scene.happened(TEMPORARY)


sys.addaudithook(_audit)


def make_model(params):
    import tensorflow as tf

    keras = tf.keras

    def kernel(number):
        return keras.initializers.GlorotUniform(seed=params['seed'] + number)

    pixels = keras.Input([segmentation.SIDE, segmentation.SIDE, 1], name='pixels')
    hidden = keras.layers.BatchNormalization(name='first')(3 * pixels + 2)
    hidden = keras.layers.Conv2D(4, 3, padding='same', kernel_initializer=kernel(1), name='conv')(hidden)
    hidden = keras.layers.BatchNormalization(name='second')(hidden)
    logits = keras.layers.Conv2D(2, 3, padding='same', kernel_initializer=kernel(2), name='logits')(hidden)
    return keras.Model({'pixels': pixels}, logits, name='averages')


job = dataclasses.replace(segmentation.job, make_model=make_model)
