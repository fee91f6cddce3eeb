"""What `pip wheel .` needs: every folder of code is a package, and every other file is declared. Tests are left out."""

import importlib
import pathlib
import runpy

import pytest

ROOT = pathlib.Path(__file__).parents[2]


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
    assert {'.'.join(path.parent.parts) for path in files} == set(declared['packages'])
    for path in files:
        patterns = ['*.py', *declared['package_data'].get('.'.join(path.parent.parts), [])]
        assert any(path.match(pattern) for pattern in patterns), path


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
