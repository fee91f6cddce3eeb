"""The `.keras` file, written by the Keras that a process without legacy Keras gets.

Keras 2 (tf-keras) and Keras 3 do not read each other's `.keras` files: a class is stored with the path
of its module. Both read the old HDF5 form, whose classes have plain names. So Keras 2 writes that, and
a process of its own, in which Keras is what `import keras` gives, turns it into a `.keras` file, opens
it again and predicts, so that the caller can compare.
"""

import os
import sys
import tempfile
import warnings
from typing import NamedTuple

import numpy as np

from estimator_trainer.compat import quiet
from estimator_trainer.tools.migrate import other_keras

_SECS = 300
_SCRIPT = os.path.join(os.path.dirname(__file__), 'in_another_keras.py')


class ArchiveError(ValueError):
    """The model cannot be written as a `.keras` file. The message says why."""


class Archive(NamedTuple):
    """A `.keras` file: the Keras that wrote it, and what it predicts once opened again: one array for
    each output, those of a dict by name."""

    version: str
    is_keras_3: bool
    predictions: list


def write(model, inputs, path: str, python: str = '') -> Archive:
    """Writes `model` as a `.keras` file.

    Args:
        model: a built Keras 2 model, Sequential or functional: a subclass has no description of
            itself that another Keras could read.
        inputs: what the written model predicts for: an array, or a dict of them.
        path: ends in `.keras`; is there whole or not at all.
        python: the interpreter whose `keras` writes it; '' for this one.

    Raises:
        ArchiveError: Keras could not describe or rebuild the model, or took over 300 s.
    """
    inputs = inputs if isinstance(inputs, dict) else {'': inputs}
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as folder:
        weights, new, probe, answer = (
            os.path.join(folder, name) for name in ('model.h5', 'model.keras', 'probe.npz', 'answer.npz')
        )
        try:
            with quiet.only_errors(), warnings.catch_warnings():
                warnings.simplefilter('ignore')  # that HDF5 is an old form
                model.save(weights, save_format='h5', include_optimizer=False)
        except (NotImplementedError, ValueError, TypeError) as error:
            raise ArchiveError(
                f'the model {model.name!r} cannot be described: {_first_line(error)}. '
                'A .keras file needs a Sequential or functional model.'
            ) from error
        np.savez(probe, **{name: np.asarray(value) for name, value in inputs.items()})
        try:
            said = other_keras.run([python or sys.executable, _SCRIPT, weights, new, probe, answer], _SECS)
        except other_keras.Failed as error:
            raise ArchiveError(f'Keras cannot rebuild the model: {error}.') from error
        with np.load(answer) as found:
            predictions = [found[name] for name in found.files]
        os.replace(new, path)
    return Archive(said['version'], said['is_keras_3'], predictions)


def _first_line(error) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip('.')
