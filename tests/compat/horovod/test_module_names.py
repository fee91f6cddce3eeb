"""compat.horovod: what can be imported, without TensorFlow."""

import subprocess
import sys

import pytest

BOUND_SECS = 60


def ran(program):
    done = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, timeout=BOUND_SECS)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_importing_it_imports_no_tensorflow_and_a_name_that_is_missing_is_told():
    program = """
import sys
import estimator_trainer.compat.horovod
import horovod
try:
    horovod.torch
except AttributeError as error:
    print(error)
try:
    import horovod.spark
except ModuleNotFoundError as error:
    print(error)
print('tensorflow' in sys.modules)
"""
    assert ran(program).splitlines() == [
        'horovod.torch is not among what estimator_trainer has of Horovod.',
        'horovod.spark is not among what estimator_trainer has of Horovod.',
        'False',
    ]


def test_a_horovod_that_is_installed_wins(tmp_path):
    (tmp_path / 'horovod').mkdir()
    (tmp_path / 'horovod' / '__init__.py').write_text('here = True')
    program = f'import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport estimator_trainer.compat.horovod, horovod'
    assert ran(f'{program}\nprint(horovod.here)') == 'True'


@pytest.mark.parametrize('switch', ['--tf1', '--horovod'])
def test_switches_of_cluster_are_for_programs(switch):
    from estimator_trainer.errors import UsageError
    from estimator_trainer.supervisor import options

    with pytest.raises(UsageError, match=f'{switch}: only for a program of your own'):
        options.parse([switch])


def test_ranks_of_cluster_are_all_its_tasks(tmp_path, monkeypatch):
    from estimator_trainer.errors import UsageError
    from estimator_trainer.supervisor import options

    monkeypatch.chdir(tmp_path)
    (tmp_path / 'my.py').touch()
    assert options.parse(['--program=my.py', '--horovod', '--workers=3']).shape.size == 3
    with pytest.raises(UsageError, match='--ps=1'):
        options.parse(['--program=my.py', '--horovod', '--ps=1'])
