"""What old programs use of NumPy and Keras, and what these have removed since.

Touches: names of numpy, and Layer.apply of Keras 2
Without it: programs that use these names fail
For: programs under `compat run --internals` or `--tf1`
"""

# NumPy 1.24 removed them; they were Python's own types. NumPy 2 has a bool again, which is its scalar type.
_NUMPY = {'int': int, 'float': float, 'complex': complex, 'bool': bool, 'object': object, 'str': str}


def install(hook) -> None:
    """Puts them back as these packages are imported."""
    hook.after('numpy', _numpy)
    for keras in ('keras', 'tf_keras'):
        hook.after(f'{keras}.src.engine.base_layer', _keras)


def _numpy(numpy):
    for name, kind in _NUMPY.items():
        if name not in vars(numpy):
            setattr(numpy, name, kind)


def _keras(base_layer):
    if not hasattr(base_layer.Layer, 'apply'):
        base_layer.Layer.apply = _apply


def _apply(self, inputs, *args, **kwargs):
    """Calls the layer, or the model."""
    return self(inputs, *args, **kwargs)
