"""What --param says of a value, by the type of its default."""

import numpy
import pytest

from estimator_trainer.jobs import param_values


@pytest.mark.parametrize(
    'default, text, value',
    [
        ([64, 32], '16', [16]),
        ([64, 32], '16, 8', [16, 8]),
        ([64, 32], '', []),
        ((1, 2), '3,4', [3, 4]),
        ([0.5, 1], '1,2e-3', [1.0, 0.002]),
        (['a'], 'b, c d', ['b', 'c d']),
        (['a'], 'b,', ['b', '']),
        (1, '3', 3),
        ('a', 'b,c', 'b,c'),
    ],
)
def test_parse(default, text, value):
    found = param_values.parse(text, default)
    assert found == value and repr(found) == repr(value)


@pytest.mark.parametrize(
    'default, text', [([1], '1.5'), ([1], '1,,2'), ([1], 'a'), ([0.5], 'nan'), ([0.5], '1,inf'), (1, '1,2')]
)
def test_parse_refuses(default, text):
    with pytest.raises(ValueError):
        param_values.parse(text, default)


@pytest.mark.parametrize(
    'default, said',
    [
        ([1], 'a list of ints, with commas between them'),
        ([1, 0.5], 'a list of floats, with commas between them'),
        (['a'], 'a list of strings, with commas between them'),
        (1, 'an int'),
        (0.5, 'a float'),
        ('', 'a string'),
        (True, 'a bool'),
    ],
)
def test_described(default, said):
    assert param_values.described(default) == said


@pytest.mark.parametrize('value', [True, False, 3, -0.1, 1e-30, 'a=b,c', '', [1, 2], [0.1], ['a', 'b c'], ['', ''], []])
def test_the_text_of_a_value_gives_the_value(value):
    default = value if value != [] else [1]
    assert param_values.parse(param_values.text_of(value), default) == value


@pytest.mark.parametrize('value', [['a,b'], [' a'], ['']])
def test_no_text_has_such_a_list(value):
    with pytest.raises(ValueError):
        param_values.text_of(value)


@pytest.mark.parametrize('default', [1, 0.5, float('inf'), 'nan', True, [1], (0.5, 1), ['a']])
def test_what_may_be_a_default(default):
    assert param_values.problem(default) == ''


@pytest.mark.parametrize(
    'default, said',
    [
        (float('nan'), 'nan; NaN is not equal to itself, so that no run could be resumed. Give another value'),
        ((1, float('nan')), '[1, nan]; NaN is not'),
        ([1, 'a'], "[1, 'a']; a list has numbers, or it has strings"),
        (list(numpy.ones(1)), '; a list has numbers of Python, as values.tolist() gives them, or it has strings'),
        ([], 'an empty list'),
        ({}, 'a dict; only a bool, int'),
    ],
)
def test_what_may_not(default, said):
    assert said in param_values.problem(default)
