"""canary.py: what it installs and what it prints. Nothing is installed here."""

import importlib.metadata

import pytest

from tests.acceptance import canary

SAID = """tf-keras-nightly (2.23.0.dev2)
Available versions: 2.23.0.dev2, 2.22.0.dev9, 2.22.0.dev8
"""


def test_the_newest_version():
    assert canary.newest_of(SAID) == '2.23.0.dev2'
    assert canary.newest_of(SAID, '2.22.') == '2.22.0.dev9'
    assert canary.newest_of(SAID, '2.24.') is None
    assert canary.newest_of('ERROR: No matching distribution found') is None


@pytest.mark.parametrize(
    'tensorflow, released, keras',
    [
        ('tensorflow==2.22.0', '2.22.0', 'tf-keras==2.22.0'),
        ('tensorflow==2.22.0rc0', None, 'tf-keras-nightly==2.22.0.dev9'),
        ('tf-nightly==2.24.0.dev1', None, 'tf-keras-nightly==2.23.0.dev2'),
    ],
)
def test_the_keras_2_of_a_tensorflow(tensorflow, released, keras):
    def newest(name, of):
        return released if name == 'tf-keras' else canary.newest_of(SAID, of)

    assert canary.keras_2(tensorflow, newest) == keras


def test_without_keras_2():
    assert canary.keras_2('tensorflow==2.22.0', lambda name, of: None) is None


def test_the_bounds_of_setup_py_do_not_count():
    requirements = importlib.metadata.requires('estimator-trainer')
    kept = canary.without_bounds(requirements)
    names = {each.split(';')[0].strip().split('<')[0].split('>')[0].split('=')[0] for each in kept}
    assert {'tensorflow-estimator', 'tensorflow-datasets', 'tensorboard', 'pytest', 'pyte'} <= {
        name.partition('[')[0] for name in names
    }
    assert not {'tensorflow', 'tf-keras', 'wandb', 'ruff'} & names
    assert not any('extra' in each for each in kept)
    assert any(each.endswith('; python_version < "3.11"') for each in kept)


def test_what_is_read_of_a_report():
    report = """<testsuites><testsuite>
      <testcase classname="tests.a" name="test_one"/>
      <testcase classname="tests.a" name="test_two"><failure message="AssertionError: x&#10;1">…</failure></testcase>
      <testcase classname="tests.a" name="test_three"><skipped message="no"/></testcase>
      <testcase classname="tests.b" name="test_four"><error message="failed on setup">…</error></testcase>
    </testsuite></testsuites>"""
    passed, failures = canary.of_report(report)
    assert passed == 1
    assert failures == ('tests.a::test_two: AssertionError: x', 'tests.b::test_four: failed on setup')


def test_what_is_read_of_the_acceptance_programs():
    lines = 'program numbers\nlinear 3 0.1 0.1 1e-7  ok 3 + 4\ndnn   3 0.1 0.2 1e-1  DIFFERS 3 + 4\n'
    assert canary.of_acceptance(lines, '', 1) == (1, ('dnn 3 0.1 0.2 1e-1 DIFFERS 3 + 4',))
    assert canary.of_acceptance('', 'Traceback\nImportError: no x\n', 1) == (0, ('ImportError: no x',))


def test_the_table():
    rows = [canary.Row('tf-nightly==2.23', 'tests', 7, ('a: b',)), canary.Row('tensorflow==2.22', 'workers', 2, ())]
    assert canary.table(rows).splitlines()[2:] == [
        '| tf-nightly==2.23 | tests | 7 | 1 |',
        '| tensorflow==2.22 | workers | 2 | 0 |',
        '  tf-nightly==2.23, tests: a: b',
    ]


@pytest.mark.parametrize('argv', [['tensorflow'], ['--parts=test']])
def test_mistakes(argv, capsys):
    with pytest.raises(SystemExit):
        canary.main(argv)
    assert 'error: ' in capsys.readouterr().err
