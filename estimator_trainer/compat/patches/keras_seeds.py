"""What Keras 2 draws the seeds of unseeded initializers from, in a graph as well as eagerly.

Touches: _SEED_GENERATOR of Keras 2's module backend
Without it: first weights of a job whose initializers have no seed differ from run to run, and from task to task
For: the trainer

TensorFlow's graph-level seed does not reach these initializers, such as `initializers.GlorotUniform()`. They take a
number from a generator of Keras's, of which each thread has its own, or from Python's `random` if there is no such
generator.
"""

import contextlib
import importlib
import random


@contextlib.contextmanager
def begun_anew(seed: int):
    """Inside, unseeded initializers get the seeds that follow from `seed`, in this thread, however many were drawn
    before. A generator that the job has seeded itself (`tf.keras.utils.set_random_seed`) stays in use."""
    generators = _generators()
    if getattr(generators, 'generator', None) is not None:
        yield
        return
    generators.generator = random.Random(seed)
    try:
        yield
    finally:
        generators.generator = None


@contextlib.contextmanager
def kept():
    """What is drawn inside, from Python, NumPy or Keras, leaves no trace: who draws later, draws as if first."""
    import numpy

    python, of_numpy, keras = random.getstate(), numpy.random.get_state(), getattr(_generators(), 'generator', None)
    state = keras and keras.getstate()
    try:
        yield
    finally:
        random.setstate(python)
        numpy.random.set_state(of_numpy)
        if keras:
            keras.setstate(state)


def _generators():
    """Keras's, an attribute `generator` for each thread."""
    import tensorflow as tf

    root = tf.keras.Model.__module__.partition('.')[0]  # keras or tf_keras
    return importlib.import_module(f'{root}.src.backend')._SEED_GENERATOR
