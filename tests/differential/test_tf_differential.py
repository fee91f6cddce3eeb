"""The sample of the corpus and of generated graphs that the gate plays, and, marked slow, all of the corpus.

The jobs are played by processes of their own: the trainer sets what a process may set once.
"""

import pathlib

import pytest

from tests.differential.__main__ import main
from tests.differential.generated import compared, grammar

_MODULES = sorted(path.stem for path in pathlib.Path(__file__).with_name('jobs').glob('[a-z]*.py'))
_PARTS = {'keras_layers': 4, 'canned': 3, 'control_flow': 3, 'updates': 2}  # none takes longer than a minute or two


def test_the_sample(capsys):
    assert main(['--sample', '--settings=7,memory', '--jobs=2']) == 0
    table = capsys.readouterr().out
    assert 'equal' in table and 'one step: ' in table


@pytest.mark.slow
@pytest.mark.parametrize(
    'axis, part',
    [(axis, f'{part}/{_PARTS.get(axis, 1)}') for axis in _MODULES for part in range(1, _PARTS.get(axis, 1) + 1)],
)
def test_all(axis, part):
    assert main([f'--only={axis}.', f'--part={part}', '--settings=7,memory,failed']) == 0


@pytest.mark.slow
def test_the_sample_with_steps_of_several_batches():
    assert main(['--sample', '--settings=accumulated', '--jobs=2']) == 0


def test_generated_graphs():
    """Programs that are drawn, as `python -m tests.differential.generated` does with thousands."""
    outcomes = [_outcome(grammar.drawn(1, number)) for number in range(25)]
    assert outcomes.count(compared.EQUAL) > 10


def _outcome(program):
    try:
        return compared.outcome(program)
    except compared.Invalid:
        return None


def test_a_program_that_fails_is_made_smaller():
    inner = (('read', 2, 1, 3), ('unary', 0, 0, 4))
    program = grammar.Program((('unary', 3, 2, 1), ('cond', 1, 0, 7, inner, (('binary', 0, 0, 0),))), 'adam')

    def fails(program):
        return 'read' in str(program.statements)

    assert grammar.reduced(program, fails) == grammar.Program((('read', 0, 0, 0),))
