"""Fixes the random numbers that a program leaves open. What the program seeds itself stays as it is.

Touches: tensorflow.python.framework.random_seed.get_seed, random.seed and numpy.random.seed
Without it: two runs of a program that leaves its seeds open cannot be compared
For: `compat run --stable-seeds` and `verify`

- Python's and NumPy's generators are seeded at the start. The imports of TensorFlow and of rich leave them as they
  were, because not every version draws numbers there.
- A call of seed() or seed(None) on them, which would take the time for a seed, takes the stable one.
- TensorFlow's global seed is set, and a graph without a seed gets one: for initializers, dropout, and shuffles.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import random
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

_RANDOM_SEED = 'tensorflow.python.framework.random_seed'
# What draws random numbers while it is imported, or not, depending on its version. Keras 3 imports rich.
_DRAW_AT_IMPORT = ('tensorflow', 'rich.style')


def install(hook: ModuleType, seed: int) -> None:
    """Seeds what is there, and the rest as it is imported."""
    random.seed = _seeded(random.seed, seed)
    random.seed()
    hook.after('numpy', functools.partial(_seed_numpy, seed=seed))
    for name in _DRAW_AT_IMPORT:
        _keep_states(hook, name, seed)
    hook.after('tensorflow', functools.partial(_seed_tensorflow, seed=seed))


def _keep_states(hook: ModuleType, name: str, seed: int) -> None:
    """The generators are after the import of module `name` what they were before it."""
    kept = {}

    def before() -> None:
        kept['python'] = random.getstate()
        if 'numpy' in sys.modules:
            kept['numpy'] = sys.modules['numpy'].random.get_state()

    def after(module: Any) -> None:
        random.setstate(kept['python'])
        if 'numpy' in kept:
            sys.modules['numpy'].random.set_state(kept['numpy'])
        elif 'numpy' in sys.modules:
            _seed_numpy(sys.modules['numpy'], seed)

    hook.before(name, before)
    hook.after(name, after)


def _seed_numpy(numpy: ModuleType, seed: int) -> None:
    if not hasattr(numpy.random.seed, '__wrapped__'):
        numpy.random.seed = _seeded(numpy.random.seed, seed)
    numpy.random.seed()


def _seeded(function: Callable[..., Any], stable: int) -> Callable[..., Any]:
    """The function seed of a generator, with a seed also where none is given."""

    @functools.wraps(function)
    def seed(*args: Any, **kwargs: Any) -> Any:
        given = args[0] if args else kwargs.get('seed', kwargs.get('a'))
        return function(stable) if given is None else function(*args, **kwargs)

    return seed


def _seed_tensorflow(tensorflow: ModuleType, seed: int) -> None:
    try:
        from tensorflow.python.framework import random_seed

        original = random_seed.get_seed
    except (ImportError, AttributeError) as error:  # `verify` loads this file alone: compat.lacks is not there
        text = f'TensorFlow {tensorflow.__version__} cannot be given stable seeds ({error})'
        raise ImportError(text, name=_RANDOM_SEED) from error
    tensorflow.random.set_seed(seed)

    @functools.wraps(original)
    def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
        graph = None if tensorflow.executing_eagerly() else tensorflow.compat.v1.get_default_graph()
        if graph is None or graph.seed is not None or op_seed is not None:
            return original(op_seed)
        graph.seed = seed
        try:
            return original(op_seed)
        finally:
            graph.seed = None

    random_seed.get_seed = get_seed


@contextlib.contextmanager
def begun_anew(seed: int) -> Iterator[None]:
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
def kept() -> Iterator[None]:
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


def _generators() -> Any:
    """From what Keras 2 draws the seeds of unseeded initializers: it has an attribute `generator` for each thread.

    Touches: _SEED_GENERATOR of Keras 2's module backend
    Without it: first weights of a job whose initializers have no seed differ from run to run, and from task to task
    For: the trainer

    TensorFlow's graph-level seed does not reach these initializers, such as `initializers.GlorotUniform()`. They take a
    number from a generator of Keras's, of which each thread has its own, or from Python's `random` if there is no such
    generator.
    """
    import tensorflow as tf

    root = tf.keras.Model.__module__.partition('.')[0]  # keras or tf_keras
    return importlib.import_module(f'{root}.src.backend')._SEED_GENERATOR
