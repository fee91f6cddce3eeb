"""The module that `import tensorflow as tf` gives to a program for TF 1."""

import functools
import importlib
import sys
import types

from estimator_trainer.compat.tf1_names import contrib

VERSION = '1.15.5'  # tf.__version__ there: these are the names of the last TensorFlow 1


class _TensorFlow1(types.ModuleType):
    """`tensorflow.compat.v1`, and what only TF 1 had at top level."""

    def __getattr__(self, name):
        if name == '__all__':
            return sorted({name for name in dir(self) if not name.startswith('_')} - {'contrib'})
        real = sys.modules['tensorflow']
        if hasattr(real.compat.v1, name):
            return getattr(real.compat.v1, name)
        if name in ('python', 'core', 'pywrap_tensorflow'):
            return _internal(name)
        if name == 'examples':
            return _examples()
        raise AttributeError(f"tensorflow {real.__version__} has no '{name}' among its names of TensorFlow 1")

    def __dir__(self):
        return sorted({*vars(self), *dir(sys.modules['tensorflow'].compat.v1)})


def _internal(name):
    return importlib.import_module(f'tensorflow.python.{name}' if name == 'pywrap_tensorflow' else f'tensorflow.{name}')


@functools.cache
def _examples():
    """tensorflow.examples, of which there is tutorials.mnist.input_data."""
    found = importlib.import_module(f'{contrib.__name__}.mnist_data_sets')
    for path in ('tutorials.mnist.input_data', 'tutorials.mnist', 'tutorials'):
        parent = types.ModuleType('.'.join(['tensorflow.examples', *path.split('.')[:-1]]))
        setattr(parent, path.rpartition('.')[2], found)
        found = parent
    return found


@functools.cache
def tensorflow():
    """The module, after TensorFlow has been imported."""
    real = sys.modules['tensorflow']
    module = _TensorFlow1('tensorflow', real.__doc__)
    vars(module).update(
        __file__=real.__file__, __path__=real.__path__, __version__=VERSION, VERSION=VERSION, contrib=contrib.root()
    )
    return module
