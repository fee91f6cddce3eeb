"""Medians, ratios and their spread, and the speed of a metrics.jsonl."""

import pytest

from benchmarks import measure


def train(step, time, rate=1.0):
    return {'kind': 'train', 'step': step, 'time': time, 'examples_per_sec': rate}


def test_ratios_are_those_of_medians_and_their_spread_is_that_of_rounds():
    rounds = [{'theirs': 10, 'ours': 20}, {'theirs': 20, 'ours': 20}, {'theirs': 40, 'ours': 100}]
    theirs, ours = measure.rows(rounds, ['theirs', 'ours'])
    assert (theirs.median, theirs.ratio, theirs.lowest, theirs.highest) == (20, 1, 1, 1)
    assert (ours.median, ours.ratio, ours.lowest, ours.highest, ours.rounds) == (20, 1, 1, 2.5, 3)


def test_the_spread_compares_only_what_was_measured_in_the_same_round():
    rounds = [{'theirs': 10, 'ours': 20}, {'ours': 1000}]
    ours = measure.rows(rounds, ['theirs', 'ours'])[1]
    assert (ours.lowest, ours.highest, ours.rounds) == (2, 2, 2)


def test_without_the_base_there_are_no_ratios():
    theirs, ours = measure.rows([{'ours': 20}], ['theirs', 'ours'], {'theirs': 'it is not installed'})
    assert theirs == measure.Row('theirs', note='it is not installed')
    assert ours == measure.Row('ours', 20, rounds=1)


def test_a_table_lines_up():
    made = measure.rows([{'theirs': 1234.5, 'ours': 2469}], ['theirs', 'ours', 'another'], {'another': 'failed'})
    assert measure.table(made, 'steps/s').splitlines() == [
        '|                 | steps/s | ratio | lowest to highest | rounds |',
        '| --------------- | ------: | ----: | ----------------: | -----: |',
        '| theirs          |   1,234 |  1.00 |      1.00 to 1.00 |      1 |',
        '| ours            |   2,469 |  2.00 |      2.00 to 2.00 |      1 |',
        '| another: failed |         |       |                   |        |',
    ]


@pytest.mark.parametrize('value, text', [(1234.5, '1,234'), (99.96, '100.0'), (12.34, '12.3'), (0.1234, '0.123')])
def test_numbers_have_three_digits_that_count(value, text):
    assert measure.number(value) == text


def test_the_speed_is_that_after_the_warm_up():
    lines = [train(100, 50.0, 1), train(200, 60.0, 2), {'kind': 'eval', 'step': 200}, train(400, 64.0, 3)]
    assert measure.speed(lines, 150) == 50


def test_of_the_steps_of_one_call_the_last_one_tells_the_time():
    lines = [train(100, 1.0, 1), train(200, 1.001, 1), train(300, 2.0, 2), train(400, 2.001, 2), train(500, 3.001, 3)]
    assert measure.speed(lines, 100) == pytest.approx(300 / 2.0)


def test_too_few_reports_are_refused():
    with pytest.raises(ValueError, match='more --steps are needed'):
        measure.speed([train(100, 1.0, 1), train(200, 2.0, 2)], 150)


def test_intervals():
    assert measure.intervals([1, 2, 4]) == [1, 2]
