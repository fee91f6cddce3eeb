"""How far two runs are apart, whether that is more than chance and rounding, and what it tells."""

import numpy as np
import pytest

from estimator_trainer.tools.comparison import first_difference, judgements, traces, value_differences, verify_results
from estimator_trainer.tools.comparison.traces import Key, Record, Value

STEPS = 3


def record(
    *, rate=0.1, start=1.0, data=(1.0, 2.0, 3.0), noise=0.0, gradient=1.0, moment=1.0, loss=1.0, average=0.0, name=''
):
    """Three steps of gradient descent on one weight of two elements, with a slot and a moving average."""
    found = Record(name, trainable={'kernel'}, labels={0: 'model'})
    weights = np.array([start, -2.0], np.float32)

    def put(step):
        state = {'kernel': weights, 'average': np.float32([average * step])}
        for name, numbers in state.items():
            found.values[Key(traces.WEIGHTS, 0, 0, step, name)] = Value.of(numbers)
        found.values[Key(traces.SLOTS, 0, 0, step, 'kernel/Momentum')] = Value.of(np.float32([moment * step, 0.0]))

    put(0)
    for step in range(1, STEPS + 1):
        batch = np.float32(data[step - 1])
        found.values[Key(traces.INPUTS, 0, 0, step, 'features/x')] = Value.of(np.float32([batch, 1.0]))
        found.values[Key(traces.LOSS, 0, 0, step, 'loss')] = Value.of(np.float32(loss * batch * abs(weights).sum()))
        found.rows[0, 0, step] = [f'row {batch}']
        weights = (weights - rate * gradient * batch * np.sign(weights) * (1 + noise)).astype(np.float32)
        put(step)
    return found


def judged(one, other, again=None, rounded=None, tolerance=1e-5, ever=False):
    """(row of each thing, sentences)."""
    one.name, other.name = '--from', '--to'
    found = value_differences.differences(one, other)
    pairs = [value_differences.differences(one, each or one) for each in (again, rounded)]
    rows = judgements.rows(found, *judgements.chance_and_rounding(*pairs), tolerance, ever)
    return {row.thing: row for row in rows}, first_difference.explain(one, other, found, rows)


def test_equal_runs():
    rows, said = judged(record(), record())
    assert {row.state for row in rows.values()} == {judgements.EQUAL} and not said
    assert rows[traces.LOSS].count == STEPS and rows[traces.UPDATES].count == STEPS
    assert rows[traces.METRICS].count == 0


@pytest.mark.parametrize(
    'change, thing, step, said',
    [
        (
            dict(start=1.5),
            traces.WEIGHTS,
            0,
            ['before step 1, in the initial values: kernel differs by', 'initializer'],
        ),
        (dict(data=(1.0, 3.0, 2.0)), traces.INPUTS, 2, ['at step 2, in the inputs: features/x', '3 are among the 3']),
        (dict(data=(1.0, 2.0, 9.0)), traces.INPUTS, 3, ['2 are among the 3 of --from']),
        (dict(loss=1.1), traces.LOSS, 1, ['at step 1, in the loss, which is 3 in --from and 3.3 in --to', 'a layer']),
        (dict(rate=0.101), traces.WEIGHTS, 1, ['at step 1, in the weights: kernel', '1.01 times', 'learning rate']),
        (
            dict(rate=0.3),
            traces.WEIGHTS,
            1,
            ['3 times', 'learning rate', 'gradients of 3 batches are added up undivided'],
        ),
        (dict(moment=1.1), traces.SLOTS, 1, ["the optimizer's slots: kernel/Momentum", 'gradients, the optimizer']),
        (dict(average=0.1), traces.WEIGHTS, 1, ['average', 'the momentum of batch normalization']),
    ],
)
def test_says_where_two_runs_part_and_why(change, thing, step, said):
    rows, sentences = judged(record(), record(**change))
    first = judgements.first(rows.values(), value_differences.differences(record(), record(**change)))
    assert (first.thing, first.first.step) == (thing, step)
    for words in said:
        assert words in ' '.join(sentences)


def test_another_learning_rate_that_the_weights_hide_shows_in_the_updates():
    one, other = (record(rate=rate, start=1000.0) for rate in (0.1, 0.101))
    rows, said = judged(one, other)
    assert rows[traces.WEIGHTS].largest < 1e-5 and rows[traces.LOSS].state == judgements.CLOSE
    assert rows[traces.UPDATES].state == judgements.DIFFERS
    assert 'the update of the weights: kernel' in said[0] and 'learning rate' in said[1]


def test_rounding_is_no_difference():
    rows, _ = judged(record(), record(noise=1e-6))
    assert judgements.verdict(rows.values()) == judgements.EQUAL and rows[traces.WEIGHTS].state == judgements.CLOSE


def test_what_rounding_grows_to_is_no_difference_but_a_larger_one_is():
    rounded = record(noise=1e-4)
    rows, _ = judged(record(), record(noise=5e-4), rounded=rounded)
    assert judgements.verdict(rows.values()) == judgements.EQUAL and rows[traces.WEIGHTS].state == judgements.ROUNDING
    rows, _ = judged(record(), record(noise=5e-3), rounded=rounded)
    assert judgements.verdict(rows.values()) == judgements.DIFFERS


def test_the_spread_of_a_later_step_excuses_no_earlier_one():
    rounded = record()
    last = Key(traces.WEIGHTS, 0, 0, STEPS, 'kernel')
    rounded.values[last] = Value.of(rounded.values[last].numbers * np.float32(1.5))
    rows, _ = judged(record(), record(rate=0.101), rounded=rounded)
    assert (rows[traces.WEIGHTS].state, rows[traces.WEIGHTS].first.step) == (judgements.DIFFERS, 1)


def test_chance():
    rows, _ = judged(record(), record(noise=-5e-4), again=record(noise=1e-4))
    assert judgements.verdict(rows.values()) == judgements.EQUAL and rows[traces.WEIGHTS].state == judgements.CHANCE


def with_a_weight_that_nothing_trains(made):
    made.trainable = made.trainable | {'unused'}
    for step in range(STEPS + 1):
        made.values[Key(traces.WEIGHTS, 0, 0, step, 'unused')] = Value.of(np.float32([1.0]))
    return made


def test_gradients_that_are_random_leave_nothing_told():
    one, other, again = (with_a_weight_that_nothing_trains(record(gradient=each)) for each in (1.0, 1.01, 1.2))
    rows, said = judged(one, other, again)
    assert rows[traces.UPDATES].state == judgements.verdict(rows.values()) == judgements.UNTOLD and not said


def test_one_random_variable_of_many_leaves_the_rest_told():
    one, again = record(), record(average=0.1)  # the weight `average` is random; `kernel` and the slot are not
    one.values[Key(traces.WEIGHTS, 0, 0, 1, 'more')] = again.values[Key(traces.WEIGHTS, 0, 0, 1, 'more')] = Value.of(
        [1.0]
    )
    rows, _ = judged(one, one, again)
    assert rows[traces.WEIGHTS].state == judgements.CHANCE and judgements.verdict(rows.values()) == judgements.EQUAL


def two_estimators(one, other):
    """A trace of both."""
    made = Record()
    made.trainable, made.labels = {'kernel'}, {0: 'model', 1: 'random'}
    for number, each in enumerate((one, other)):
        made.values.update({key._replace(estimator=number): found for key, found in each.values.items()})
    return made


@pytest.mark.parametrize(
    'first, expected, said',
    [
        (record(), judgements.UNTOLD, 'UNDECIDED: two runs of --from differ so much in Estimator 2 (random) that'),
        (
            record(rate=0.101),
            judgements.DIFFERS,
            'DIFFERENT: The runs part at step 1 of Estimator 1 (model), in the weights',
        ),
    ],
)
def test_an_estimator_that_is_random_hides_itself_alone(first, expected, said):
    one = two_estimators(record(), record(data=(1.0, 2.0, 3.0)))
    other = two_estimators(first, record(data=(2.0, 1.0, 3.0)))
    again = two_estimators(record(), record(data=(3.0, 2.0, 1.0)))
    rows, sentences = judged(one, other, again)
    assert judgements.verdict(rows.values()) == expected and rows[traces.UPDATES].untold == {1}
    comparison = verify_results.Comparison('--from and --to', list(rows.values()), sentences)
    found = verify_results.Results('program.py', [], [comparison], [], STEPS, 1e-5, labels=one.labels)
    assert verify_results.says(found)[0].startswith(said)


def test_another_input_in_the_run_of_rounding_is_chance():
    rows, _ = judged(record(), record(data=(2.0, 1.0, 3.0)), rounded=record(data=(3.0, 2.0, 1.0)))
    assert judgements.verdict(rows.values()) == judgements.UNTOLD


@pytest.mark.parametrize('step, expected', [(20, judgements.DIFFERS), (21, judgements.CHANCE)])
def test_no_chance_excuses_what_is_restored(step, expected):
    one, other = Record(), Record()
    for each in (20, 21):
        one.values[Key(traces.WEIGHTS, 0, 0, each, 'kernel')] = Value.of([1.0])
        other.values[Key(traces.WEIGHTS, 0, 0, each, 'kernel')] = Value.of([1.001 if each == step else 1.0])
    found = value_differences.differences(one, other)
    chance = {Key(traces.WEIGHTS, 0, 0, 5, 'kernel'): 1e-3}
    (row,) = (row for row in judgements.rows(found, chance, {}, 1e-5, ever=True) if row.count)
    assert row.state == expected


def test_without_a_fixed_order_of_the_input_nothing_is_told():
    rows, said = judged(record(), record(data=(2.0, 1.0, 3.0)), again=record(data=(3.0, 2.0, 1.0)))
    assert {row.state for row in rows.values() if row.count} <= {judgements.UNTOLD, judgements.CHANCE, judgements.EQUAL}
    assert (
        rows[traces.INPUTS].state == judgements.UNTOLD
        and judgements.verdict(rows.values()) == judgements.UNTOLD
        and not said
    )


def test_initial_values_are_told_even_so():
    rows, said = judged(record(), record(start=1.5), again=record(data=(3.0, 2.0, 1.0)))
    assert judgements.verdict(rows.values()) == judgements.DIFFERS and 'in the initial values' in said[0]


@pytest.mark.parametrize('thing, name', [(traces.WEIGHTS, 'kernel'), (traces.LOSS, 'loss')])
def test_what_only_one_has_is_a_difference(thing, name):
    other = record()
    for key in other.keys(thing):
        if key.name == name:
            other.values[key._replace(name='another')] = other.values.pop(key)
    rows, said = judged(record(), other)
    assert rows[thing].state == judgements.DIFFERS and 'is only in --from' in said[0] and 'another name' in said[1]


def test_what_only_the_other_has_is_told_where_it_stands():
    other = record(rate=0.101)
    more = {key._replace(name='more'): each for key, each in other.values.items() if key.name == 'average'}
    other.values = dict(sorted({**other.values, **more}.items(), key=lambda item: item[0].step))
    _, said = judged(record(), other)
    assert said[0] == 'The runs part before step 1, in the initial values: more is only in --to.'


def of_predictions(**more):
    """A record whose call of predict gave these, by name."""
    found = record()
    for name, value in more.items():
        found.values[Key(traces.PREDICTIONS, 0, 0, 0, name)] = value
    return found


def test_predictions_that_are_classes_are_compared_by_how_many_differ():
    ones = np.zeros(100, np.int64)
    of_rounding, few, all_others = (np.where(np.arange(100) < number, 1, 0) for number in (1, 3, 100))

    def state(to, rounded):
        pair = (of_predictions(classes=Value.of(each)) for each in (ones, to))
        rows, _ = judged(*pair, rounded=of_predictions(classes=Value.of(rounded)))
        return rows[traces.PREDICTIONS].state

    assert state(few, of_rounding) == judgements.ROUNDING  # three lie on an edge, where rounding moves one
    assert state(few, ones) == judgements.DIFFERS
    assert state(all_others, of_rounding) == judgements.DIFFERS
    most = np.where(np.arange(100) < 99, 1, 0)
    for others in (all_others, most):
        assert state(others, all_others + 1) == judgements.UNTOLD  # rounding changes all of them: nothing is told


def test_names_of_classes_are_compared_one_by_one():
    one, other = (of_predictions(names=Value((4,), digests)) for digests in ('a b c d', 'a b c x'))
    key = Key(traces.PREDICTIONS, 0, 0, 0, 'names')
    assert value_differences.differences(one, other)[key] == pytest.approx(1 / 3)
