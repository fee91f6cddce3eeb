"""data.files.units: a column has one unit, whatever files it is in."""

import pytest

from estimator_trainer.data.files import units
from estimator_trainer.data.files.units import Column, Unit
from estimator_trainer.errors import UsageError
from estimator_trainer.training import messages

MS, US, NUMBER = Unit('timestamp[ms]', 'timestamp[ms]'), Unit('timestamp[us]', 'list<timestamp[us]>'), Unit('', 'int64')
SCALE_1, SCALE_2 = Unit('decimals of scale 1', 'decimal128(5, 1)'), Unit('decimals of scale 2', 'decimal128(5, 2)')


def test_the_first_file_with_a_value_says_the_unit():
    known = units.columns(['a', 'b', 'c'], ['t', 'n'], [(None, NUMBER), (MS, NUMBER), (MS, None)])
    assert known == {'t': Column(MS, 'b'), 'n': Column(NUMBER, 'a')}
    assert units.names(known) == {'t': 'timestamp[ms]', 'n': ''}
    assert units.columns(['a'], ['t'], [(None,)]) == {}


OTHERS = {
    'units': (MS, US, r"b: column 't' is list<timestamp\[us\]>, and timestamp\[ms\] in a; tf.int64 reads a time as"),
    'a time after numbers': (NUMBER, US, r"b: column 't' is list<timestamp\[us\]>, and int64 in a; tf.int64 reads"),
    'numbers after a time': (US, NUMBER, "b: column 't' is int64, and list<timestamp.* in a; tf.int64 reads"),
    'scales': (SCALE_1, SCALE_2, r"b: column 't' is decimal128\(5, 2\), and decimal128\(5, 1\) in a; tf.string reads"),
}


@pytest.mark.parametrize('first, second, why', OTHERS.values(), ids=OTHERS)
def test_two_units_are_refused_with_both_files_and_the_cure(first, second, why):
    with pytest.raises(UsageError, match=f'^{why}.*Write all files with one type'):
        units.columns(['a', 'b'], ['t'], [(first,), (second,)])
    with pytest.raises(UsageError, match=why):
        units.refuse_others({'t': Column(first, 'a')}, {'t': Column(second, 'b'), 'u': Column(MS, 'b')})


def test_the_same_unit_in_other_types_is_one():
    others = Unit('timestamp[us]', 'timestamp[us]')
    assert units.columns(['a', 'b'], ['t'], [(US,), (others,)]) == {'t': Column(US, 'a')}


def test_a_run_goes_on_with_the_units_that_it_was_trained_with():
    now = {'t': Column(US, 'b'), 'n': Column(NUMBER, 'b')}
    for trained in ({}, {'t': 'timestamp[us]'}, {'another': 'timestamp[ms]'}):
        units.refuse_other_than_trained(trained, now, 'runs/a')
    why = r"b: column 't' is list<timestamp\[us\]>, and the run in runs/a was trained on timestamp\[ms\]; tf.int64"
    with pytest.raises(UsageError, match=why):
        units.refuse_other_than_trained({'t': 'timestamp[ms]'}, now, 'runs/a')
    with pytest.raises(UsageError, match="column 'n' is int64, and the run in runs/a was trained on timestamp"):
        units.refuse_other_than_trained({'n': 'timestamp[ms]'}, now, 'runs/a')
    with pytest.raises(
        UsageError, match="column 't' is list.*, and the run in runs/a was trained on values without a u"
    ):
        units.refuse_other_than_trained({'t': ''}, now, 'runs/a')
    with pytest.raises(UsageError, match=r'Write all files with one type.*, or wait\.$'):
        units.refuse_other_than_trained({'t': ''}, now, 'runs/a', 'or wait')
    units.refuse_other_than_trained({'n': ''}, now, 'runs/a')


@pytest.mark.parametrize(
    'before, now, warns',
    [
        ({}, {'units': {'t': 'timestamp[us]'}}, False),  # an earlier version recorded no units
        ({}, {}, False),
        ({'units': {'t': 'timestamp[us]'}}, {'units': {'t': 'timestamp[us]'}}, False),
        ({'units': {'t': 'timestamp[us]'}}, {'units': {'t': 'timestamp[ms]'}}, True),
        ({'units': {'t': 'timestamp[us]'}}, {}, True),
        ({'units': {'t': 'timestamp[us]'}}, {'units': {'t': 'timestamp[us]', 'n': ''}}, False),
        ({}, {'units': {'n': ''}}, False),
        ({'units': {'n': ''}}, {'units': {'n': 'timestamp[us]'}}, True),
        ({'digest': 'another'}, {'units': {'t': 'timestamp[us]'}}, True),
    ],
)
def test_files_whose_units_were_not_recorded_have_not_changed(before, now, warns, caplog):
    known = {'files': 1, 'examples': 2, 'digest': 'a'}
    messages.say_changed_files({**known, **before}, {**known, **now})
    assert ('have changed since' in caplog.text) == warns


@pytest.mark.parametrize(
    'before, now, warns',
    [
        ({'windows': 2}, {'windows': 2, 'blocks': 'a'}, False),  # an earlier version recorded the number only
        ({'windows': 2, 'blocks': 'a'}, {'windows': 2, 'blocks': 'a'}, False),
        ({'windows': 2, 'blocks': 'a'}, {'windows': 2, 'blocks': 'b'}, True),
        ({'windows': 2}, {'windows': 3, 'blocks': 'a'}, True),
    ],
)
def test_other_windows_have_a_warning_of_their_own(before, now, warns, caplog):
    known = {'files': 1, 'examples': 2, 'digest': 'a', 'shuffle': 'blocks'}
    messages.say_changed_files({**known, **before}, {**known, **now})
    assert ('--shuffle=blocks forms other windows' in caplog.text) == warns and 'have changed' not in caplog.text
    messages.say_changed_files({**known, **before, 'shuffle': 'records'}, {**known, **now})
    assert 'have changed since' in caplog.text
