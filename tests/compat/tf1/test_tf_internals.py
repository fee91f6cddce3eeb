"""compat.internals: each name of the table is found where it was, and what TensorFlow has there stays."""

import sys
import textwrap

import launch
import pytest

pytestmark = pytest.mark.slow


def test_each_name_is_found(tmp_path):
    program = tmp_path / 'program.py'
    program.write_text(
        textwrap.dedent("""
        import importlib
        import tensorflow as tf
        from tensorflow.python.framework.ops import Tensor, convert_to_tensor
        from tensorflow.python.training.checkpointable import base
        from tensorflow.python import pywrap_tensorflow
        from tensorflow.python.util import nest
        from estimator_trainer.compat import internals

        names = dict(internals.table())
        for name in names.pop('*'):
            importlib.import_module('tensorflow.python.' + name)
        for module, moved in names.items():
            for name in moved:
                getattr(importlib.import_module('tensorflow.python.' + module), name)
        assert isinstance(convert_to_tensor(1), Tensor) and nest.is_sequence([1]) and not nest.is_sequence(1)
        assert issubclass(tf.Module, base.Checkpointable)
        try:
            nest.no_such_name
        except AttributeError as error:
            print('SAID', error)
        """)
    )
    command = [sys.executable, '-m', 'estimator_trainer.compat', 'run', '--internals', program]
    finished = launch.run(command, timeout=300, cwd=tmp_path)
    assert finished.code == 0 and 'no_such_name' in finished.output, finished.output


def test_names_that_numpy_removed(tmp_path):
    """AdaNet 0.9 asks for np.float after each iteration."""
    program = tmp_path / 'program.py'
    program.write_text('import numpy as np\nprint(np.float, np.int, np.object, np.bool, np.NaN, np.product([2, 3]))\n')
    command = [sys.executable, '-m', 'estimator_trainer.compat', 'run', '--internals', program]
    finished = launch.run(command, timeout=300, cwd=tmp_path)
    assert finished.code == 0, finished.output
    assert "<class 'float'> <class 'int'> <class 'object'> <class " in finished.output, finished.output
    assert 'nan 6' in finished.output, finished.output
