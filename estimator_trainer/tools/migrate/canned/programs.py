"""The programs of `in_keras_3`, run by a Python that has Keras 3, in which legacy Keras is not in the way."""

import os

from estimator_trainer.tools.migrate import other_keras

_FOLDER = os.path.join(os.path.dirname(__file__), 'in_keras_3')
_SECS = 900


class CannotMigrate(ValueError):
    """It cannot be migrated. The message names what stands in the way."""


def check_keras(python: str) -> None:
    """Before the minutes that the rest takes. Raises CannotMigrate."""
    version = _run([python, '-c', 'import keras, json; print(); print(json.dumps(keras.__version__))'])
    if int(version.split('.')[0]) < 3:
        raise CannotMigrate(f'{python} has Keras {version}; name a Python that has Keras 3 with --keras_python')


def run(python: str, name: str, work: str, result: str):
    """Runs the program `name`, and returns what it prints last, as JSON.

    Raises:
        CannotMigrate: it failed, took longer than 900 s, or `python` cannot be started.
    """
    return _run([python, os.path.join(_FOLDER, name), work, result])


def _run(command):
    try:
        return other_keras.run(command, _SECS)
    except other_keras.Failed as error:
        raise CannotMigrate(f'Keras cannot build the model: {error}') from error
