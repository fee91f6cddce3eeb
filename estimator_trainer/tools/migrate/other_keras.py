"""Programs run by a Python in which `import keras` is what its environment has, and not legacy Keras."""

import json
import os
import subprocess

_DROPPED = ('TF_USE_LEGACY_KERAS', 'TF_CONFIG', 'PYTHONPATH')


class Failed(Exception):
    """The program gave no result. The message says why."""


def run(command: list[str], secs: float):
    """Runs a program, and returns what it prints last, as JSON.

    Raises:
        Failed: it failed, took longer than `secs`, or its Python cannot be started.
    """
    environment = {name: value for name, value in os.environ.items() if name not in _DROPPED}
    environment.setdefault('TF_CPP_MIN_LOG_LEVEL', '3')
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=secs
        )
    except subprocess.TimeoutExpired as error:
        raise Failed(f'it took longer than {secs} s') from error
    except OSError as error:
        raise Failed(f'--keras_python={command[0]}: {error.strerror}; name a Python that has Keras 3') from error
    if done.returncode:
        raise Failed((done.stderr.strip().splitlines() or ['it said nothing'])[-1])
    return json.loads(done.stdout.strip().splitlines()[-1])
