"""`compat run`: the environment and the options that the program has. Without TensorFlow."""

import os

import pytest

from estimator_trainer.compat import __main__ as run


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
