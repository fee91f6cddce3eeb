"""What `pip wheel .` needs: every folder of code is a package, and every other file is declared. Tests are left out.

What readers need: each module has a name of its own, and the text about the code names files that are there.
"""

import ast
import collections
import importlib
import pathlib
import re
import runpy

import pytest

ROOT = pathlib.Path(__file__).parents[2]
OURS = ('estimator_trainer', 'tf_config', 'tests', 'benchmarks', 'docs')
EXAMPLES = {'script.py', 'estimator_trainer/X/y.py', 'tests/X/test_y.py', 'test_tf_y.py'}  # they stand for any file


@pytest.fixture(scope='module')
def declared():
    """The arguments of setup()."""
    setuptools = pytest.importorskip('setuptools')
    given = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        patch.setattr(setuptools, 'setup', lambda **arguments: given.update(arguments))
        runpy.run_path('setup.py')
    return given


def test_every_module_and_file_is_in_a_package(declared):
    files = [
        path.relative_to(ROOT)
        for package in ('estimator_trainer', 'tf_config')
        for path in (ROOT / package).rglob('*')
        if path.is_file() and '__pycache__' not in path.parts
    ]
    packages = set(declared['packages'])
    assert {'.'.join(path.parent.parts) for path in files if path.name == '__init__.py'} >= packages
    for path in files:
        if path.suffix != '.py' or '.'.join(path.parent.parts) not in packages:
            package = next(folder for folder in path.parents if '.'.join(folder.parts) in packages)
            patterns = declared['package_data'].get('.'.join(package.parts), [])
            assert any(path.relative_to(package).match(pattern) for pattern in patterns), path


def modules():
    return [path for package in ('estimator_trainer', 'tf_config') for path in (ROOT / package).rglob('*.py')]


def test_no_two_modules_have_the_same_name():
    times = collections.Counter(path.name for path in modules())
    assert {name for name, number in times.items() if number > 1} == {
        '__init__.py',
        '__main__.py',
        'sitecustomize.py',  # Python imports a module of this name at its start
    }


@pytest.mark.parametrize(
    'path',
    [ROOT / 'docs' / 'architecture.md', ROOT / 'docs' / 'development.md']
    + [path for path in modules() if path.name == '__init__.py'],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_the_files_that_a_text_names_are_there(path):
    text = path.read_text(encoding='utf-8')
    if path.suffix == '.py':
        text = ast.get_docstring(ast.parse(text)) or ''
    there = [f'/{each.relative_to(ROOT)}' for folder in OURS for each in (ROOT / folder).rglob('*.py')] + ['/setup.py']
    named = set(re.findall(r'[\w/]+\.py\b', text))
    assert {name for name in named if not any(each.endswith(f'/{name}') for each in there)} == EXAMPLES & named


def test_job_is_found_in_the_package_as_well():
    from estimator_trainer import Job, jobs

    assert Job is jobs.Job
    assert not hasattr(importlib.import_module('estimator_trainer'), 'Jobs')


def test_nothing_of_tests_is_in_it(declared):
    assert {name.partition('.')[0] for name in declared['packages']} == {'estimator_trainer', 'tf_config'}


def test_the_console_script_and_the_license_exist(declared):
    (script,) = declared['entry_points']['console_scripts']
    name, _, target = script.partition(' = ')
    module, _, function = target.partition(':')
    assert name == 'estimator-trainer' and callable(getattr(importlib.import_module(module), function))
    assert [(ROOT / name).read_text().split()[:2] for name in declared['license_files']] == [['Apache', 'License']]
