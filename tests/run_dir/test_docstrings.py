"""What docstrings and the reference promise of modules and files."""

import ast
import pathlib
import re

import pytest

from estimator_trainer.config import commands
from estimator_trainer.run_dir import written_files
from estimator_trainer.submit import slurm_script

ROOT = pathlib.Path(__file__).parents[2] / 'estimator_trainer'


def imported(path):
    """The modules that a file imports at any place."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            names |= {f'{node.module}.{alias.name}' for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return names


def test_run_dir_imports_what_its_docstring_says():
    below = {'compat', 'errors', 'exit_codes', 'run_dir', 'this_process'}
    tensorflow = set()
    for path in (ROOT / 'run_dir').glob('*.py'):
        ours = {name.split('.')[1] for name in imported(path) if name.startswith('estimator_trainer.')}
        assert ours <= below, path
        if any(name.partition('.')[0] == 'tensorflow' for name in imported(path)):
            tensorflow.add(path.stem)
    of_checkpoints = {'checkpoint_errors', 'checkpoint_state', 'checkpoints', 'foreign_checkpoints', 'v1_checkpoints'}
    assert tensorflow == {*of_checkpoints, 'summaries'}


@pytest.mark.parametrize('package', ['tools/comparison', 'run_dir'])
def test_the_modules_that_a_docstring_names_are_there(package):
    text = ast.get_docstring(ast.parse((ROOT / package / '__init__.py').read_text()))
    for name in re.findall(r'`(\w+)`', text):
        there = (ROOT / package / f'{name}.py', ROOT / f'{name}.py', ROOT / name)
        assert any(path.exists() for path in there), name


def test_the_files_of_a_run_under_slurm_are_listed():
    written = re.findall(r'/logs.*?/(slurm-)\$SLURM_JOB_ID', pathlib.Path(slurm_script.__file__).read_text())
    assert written and any(path.startswith('logs/slurm-') for file in written_files.FILES for path in file.paths)


def test_every_command_has_the_main_that_is_promised():
    for command in commands.COMMANDS.values():
        path = ROOT.parent / f'{command.module.replace(".", "/")}.py'
        mains = [node for node in ast.parse(path.read_text()).body if getattr(node, 'name', '') == 'main']
        assert [argument.arg for main in mains for argument in main.args.args][:1] == ['argv'], command.module
