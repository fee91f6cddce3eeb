"""`compat run`: the environment and the options that the program has. Without TensorFlow."""

import ast
import os
import pathlib
import subprocess
import sys

import pytest

from estimator_trainer.compat import __main__ as run

ROOT = pathlib.Path(__file__).parents[2]


@pytest.mark.parametrize(
    'given, kept',
    [
        (None, []),
        ('', []),
        (os.pathsep.join(['', '/mine']), ['', '/mine']),
        (os.pathsep.join(['/mine', '']), ['/mine', '']),
        (os.pathsep.join([run._CHILD, '/mine']), ['/mine']),
    ],
)
def test_an_empty_entry_of_pythonpath_stays_the_current_folder(given, kept):
    environment = {} if given is None else {'PYTHONPATH': given}
    found = run.child_environment(environment, {})['PYTHONPATH']
    assert found.split(os.pathsep) == [run._CHILD, *kept]


@pytest.mark.parametrize('options', [[], ['-u'], ['-O', '-u'], ['-O', '-W', 'error::UserWarning']])
def test_the_options_of_python_are_those_of_the_program(options):
    code = 'from estimator_trainer.compat import __main__; print(__main__._options())'
    environ = {name: value for name, value in os.environ.items() if name != 'PYTHONUNBUFFERED'}
    done = subprocess.run(
        [sys.executable, *options, '-c', code],
        env={**environ, 'PYTHONPATH': str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = ast.literal_eval(done.stdout)
    assert ('-u' in found) == ('-u' in options) and ('-O' in found) == ('-O' in options)
    assert ('-Werror::UserWarning' in found) == ('-W' in options)
