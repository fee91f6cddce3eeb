import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.tools.sweep import space as spaces


@pytest.mark.parametrize(
    'text, kind, values',
    [
        ('rate:log:1e-4:1e-1', float, (1e-4, 1e-1)),
        ('rate:uniform:0:0.5', float, (0.0, 0.5)),
        ('layers:int:1:4', int, (1, 4)),
        ('hidden:log:16:256', int, (16, 256)),
        ('hidden:choice:16,32,64', int, (16, 32, 64)),
        ('rate:choice:0.1,1', float, (0.1, 1.0)),
        ('optimizer:choice:sgd, adam', str, ('sgd', 'adam')),
        ('sizes:choice:64,32|128,64', str, ('64,32', '128,64')),
        ('deterministic:choice:true,False', bool, (True, False)),
        ('rate:uniform:-1:1', float, (-1.0, 1.0)),
    ],
)
def test_values_have_the_type_of_what_they_are_for(text, kind, values):
    (space,) = spaces.parse([text])
    parameter = spaces.typed(space, kind)
    assert (parameter.name, parameter.values) == (text.partition(':')[0], values)
    assert [type(value) for value in parameter.values] == [kind] * len(values)
    assert spaces.parse([str(space)]) == [space]


@pytest.mark.parametrize(
    'given, said',
    [
        (['rate'], 'give NAME:KIND:VALUES, such as learning_rate:log'),
        (['rate:logarithm:1:2'], 'give NAME:KIND:VALUES'),
        ([':log:1:2'], 'give NAME:KIND:VALUES'),
        (['rate:log:1'], 'give the lowest and the highest value'),
        (['rate:log:1:2:3'], 'give the lowest and the highest value'),
        (['rate:log:one:2'], 'give the lowest and the highest value'),
        (['rate:log:2:1'], 'lower than the second'),
        (['rate:uniform:0:inf'], 'lower than the second'),
        (['rate:log:0:1'], 'bounds over 0'),
        (['rate:choice:1'], 'two or more different values'),
        (['rate:choice:1,1'], 'two or more different values'),
        (['rate:choice:1,,2'], 'two or more different values'),
        (['rate:log:1:2', 'rate:choice:1,2'], 'given twice'),
    ],
)
def test_what_is_no_space(given, said):
    with pytest.raises(UsageError, match=said) as raised:
        spaces.parse(given)
    assert f'--param_space={given[0]}: ' in str(raised.value)


@pytest.mark.parametrize(
    'text, kind, said',
    [
        ('optimizer:log:1:2', str, 'use optimizer:choice:A,B'),
        ('deterministic:choice:yes,no', bool, 'true or false'),
        ('hidden:choice:16,32.5', int, 'a whole number'),
        ('hidden:log:0.5:2', int, 'a whole number'),
        ('rate:choice:1,x', float, 'a number'),
        ('rate:choice:1,1.0', float, 'two of its values are the same'),
    ],
)
def test_values_of_another_type(text, kind, said):
    (space,) = spaces.parse([text])
    with pytest.raises(UsageError, match=said):
        spaces.typed(space, kind)


@pytest.mark.parametrize(
    'value, other', [(0.1 + 0.2, 7), (1e-7, 7), (3, 7), (True, False), ('adam', 'sgd'), (1e300, 7)]
)
def test_a_value_survives_being_a_flag(value, other):
    (space,) = spaces.parse([f'x:choice:{spaces.text_of(value)},{spaces.text_of(other)}'])
    assert spaces.typed(space, type(value)).values[0] == value
