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


_OF_SLURM = {'SLURM_JOB_ID': '3', 'SLURM_STEP_ID': '0', 'SLURM_PROCID': '1', 'SLURM_STEP_NUM_TASKS': '4'}
_OF_MPI = {'OMPI_COMM_WORLD_RANK': '0', 'OMPI_COMM_WORLD_SIZE': '2', 'OMPI_COMM_WORLD_LOCAL_RANK': '0'}


@pytest.mark.parametrize(
    'environ, said',
    [
        ({}, ''),
        (_OF_SLURM, 'compat: Slurm has started 4 tasks, and TF_CONFIG is not set'),
        (_OF_MPI, 'compat: Open MPI has started 2 tasks, and TF_CONFIG is not set'),
        (_OF_SLURM | {'TF_CONFIG': '{}'}, ''),
        (_OF_SLURM | {'SLURM_STEP_NUM_TASKS': '1'}, ''),
        ({'SLURM_JOB_ID': '3', 'SLURM_PROCID': '0', 'SLURM_NTASKS': '4'}, ''),  # a batch script
    ],
)
def test_tasks_that_train_alone_are_told_so(capsys, environ, said):
    run._say_who_is_alone(environ)
    found = capsys.readouterr().err
    assert found.startswith(said) if said else not found


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


@pytest.mark.parametrize('program', [['program.py'], ['-m', 'program']])
def test_a_program_may_have_a_module_of_its_own_that_is_called_tf_config(tmp_path, program):
    """`python -m` looks into the current folder first, where it lies."""
    (tmp_path / 'tf_config.py').write_text('VALUE = 3\n')
    (tmp_path / 'program.py').write_text('import tf_config\nprint(tf_config.VALUE)\n')
    done = subprocess.run(
        [sys.executable, '-m', 'estimator_trainer.compat', 'run', *program],
        cwd=tmp_path,
        env={**os.environ, 'PYTHONPATH': str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout) == (0, '3\n'), done.stderr
