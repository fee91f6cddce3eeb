"""Batches in files: exact, of every dtype, dense or sparse. Needs TensorFlow only; both processes import it."""

import numpy as np
import tensorflow as tf

_SPARSE = ('indices', 'values', 'dense_shape')
_NUMPY = (tf.float32, tf.float64, tf.int32, tf.int64)


def save(path: str, values: dict) -> None:
    """Writes {name: array, tensor or tf.SparseTensor}. Tables may be larger than TensorFlow's messages: 2 GB."""
    flat = {}
    for name, value in values.items():
        parts = {part: getattr(value, part) for part in _SPARSE} if isinstance(value, tf.SparseTensor) else {'': value}
        for part, tensor in parts.items():
            tensor = tf.convert_to_tensor(tensor)
            if tensor.dtype in _NUMPY:
                flat[f'{name}#{part}#'] = tensor.numpy()
            else:
                proto = tf.io.serialize_tensor(tensor).numpy()
                flat[f'{name}#{part}#{tensor.dtype.name}'] = np.frombuffer(proto, np.uint8)
    np.savez(path, **flat)


def load(path: str) -> dict:
    """{name: tensor or tf.SparseTensor}."""
    found = {}
    with np.load(path) as file:
        for key in file.files:
            name, part, dtype = key.rsplit('#', 2)
            stored = file[key]
            tensor = tf.io.parse_tensor(stored.tobytes(), tf.as_dtype(dtype)) if dtype else tf.constant(stored)
            if part:
                found.setdefault(name, {})[part] = tensor
            else:
                found[name] = tensor
    return {name: tf.SparseTensor(**value) if isinstance(value, dict) else value for name, value in found.items()}


def spec(batches):
    """Of any number of examples of such batches; None where they have different sizes."""
    return tf.nest.map_structure(_spec, *batches)


def _spec(first, *others):
    if isinstance(first, tf.SparseTensor):
        return tf.SparseTensorSpec([None] * first.shape.rank, first.dtype)
    sizes = [{*each} for each in zip(*(value.shape[1:] for value in (first, *others)))]
    return tf.TensorSpec([None, *(each.pop() if len(each) == 1 else None for each in sizes)], first.dtype)
