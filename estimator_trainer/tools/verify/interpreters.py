"""What is installed for an interpreter, and whether Estimators can work there."""

import json
import os
import shutil
import subprocess
from typing import NamedTuple

from estimator_trainer.errors import UsageError

_ASK = """
import importlib.metadata, json, platform
def version(*names):
    for name in names:
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            pass
print(json.dumps({
    'python': platform.python_version(),
    'tensorflow': version(
        'tensorflow', 'tensorflow-cpu', 'tf-nightly', 'tf-nightly-cpu', 'tensorflow-macos', 'intel-tensorflow'),
    'tensorflow-estimator': version('tensorflow-estimator'),
    'tf-keras': version('tf-keras', 'tf-keras-nightly'),
    'numpy': version('numpy'),
}))
"""
_TIMEOUT_SECS = 60
_LAST_WITH_ESTIMATORS = (2, 15)
_OLDEST_OF_COMPAT = (3, 10)  # Python


class Interpreter(NamedTuple):
    """An interpreter: its path, and the versions of what is installed there."""

    path: str
    versions: dict

    @property
    def needs_compat(self) -> bool:
        """Whether its TensorFlow has no tf.estimator of its own."""
        return _numbers(self.versions['tensorflow']) > _LAST_WITH_ESTIMATORS

    def by_compat(self, tf1: bool) -> bool:
        """Whether `compat` takes part in a program there. `tf1`: the program is of TensorFlow 1."""
        return self.needs_compat or tf1 and _numbers(self.versions['tensorflow']) >= (2,)

    @property
    def short(self) -> str:
        return f'TensorFlow {self.versions["tensorflow"]}'

    @property
    def described(self) -> str:
        return ', '.join(f'{name} {version}' for name, version in self.versions.items() if version)


def ask(flag: str, path: str, tf1: bool = False) -> Interpreter:
    """Asks an interpreter what it has.

    Args:
        flag: that names it, for the message.
        tf1: a program of TensorFlow 1 is to run there.

    Raises:
        UsageError: there is no such interpreter, or Estimators cannot work with it.
    """
    found = shutil.which(path)
    if found is None:
        raise UsageError(f'--{flag}={path}: there is no such program; name the python of an environment.')
    environment = {name: value for name, value in os.environ.items() if name != 'PYTHONPATH'}
    try:
        done = subprocess.run(
            [found, '-c', _ASK],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECS,
            env=environment,
            stdin=subprocess.DEVNULL,
        )
        interpreter = Interpreter(found, json.loads(done.stdout.strip().splitlines()[-1]))
    except (OSError, subprocess.TimeoutExpired, ValueError, IndexError) as error:
        raise UsageError(f'--{flag}={path}: is not a Python of version 3.8 or later ({error}).') from error
    _check(flag, interpreter, tf1)
    return interpreter


def _check(flag, interpreter, tf1=False) -> None:
    path, versions = interpreter
    if not versions['tensorflow']:
        raise UsageError(f'--{flag}={path}: TensorFlow is not installed there: {path} -m pip install tensorflow')
    wanted = ['tensorflow-estimator==2.15.*'] if not versions['tensorflow-estimator'] else []
    if interpreter.needs_compat and not versions['tf-keras']:
        minor = '.'.join(versions['tensorflow'].split('.')[:2])
        wanted.append(f'tf-keras=={minor}.*')
    if wanted:
        packages = ' '.join(f"'{package}'" for package in wanted)
        raise UsageError(f'--{flag}={path}: Estimators miss a package there: {path} -m pip install {packages}')
    if interpreter.needs_compat and _numbers(versions['python']) < _OLDEST_OF_COMPAT:
        raise UsageError(f'--{flag}={path}: Estimators work with {interpreter.short} from Python 3.10 on.')
    if interpreter.by_compat(tf1) and _numbers(versions['python']) < _OLDEST_OF_COMPAT:
        raise UsageError(f'--{flag}={path}: --tf1 needs Python 3.10 or later there, and it is {versions["python"]}.')


def _numbers(version) -> tuple:
    return tuple(int(part) for part in version.split('.')[:2])
