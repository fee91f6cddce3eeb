"""How far two runs are apart, whether that is more than chance and rounding, and what it tells."""

import hashlib
import html.parser
import json

import numpy as np
import pytest

from estimator_trainer.compat.recorder.estimator_recorder import recording
from estimator_trainer.tools.verify import compare, first_difference, judge, results, traces, verify_page, verify_report
from estimator_trainer.tools.verify.traces import Key, Trace, Value

STEPS = 3


def value(numbers, **more):
    numbers = np.asarray(numbers)
    return Value(numbers.shape, hashlib.sha1(numbers.tobytes()).hexdigest(), numbers.reshape(-1), **more)


def trace(*, rate=0.1, start=1.0, data=(1.0, 2.0, 3.0), noise=0.0, gradient=1.0, moment=1.0, loss=1.0, average=0.0):
    """Three steps of gradient descent on one weight of two elements, with a slot and a moving average."""
    found = Trace()
    found.trainable = {'kernel'}
    found.labels = {0: 'model'}
    weights = np.array([start, -2.0], np.float32)

    def put(step):
        state = {'kernel': weights, 'average': np.float32([average * step])}
        for name, numbers in state.items():
            found.values[Key(traces.WEIGHTS, 0, 0, step, name)] = value(numbers)
        found.values[Key(traces.SLOTS, 0, 0, step, 'kernel/Momentum')] = value(np.float32([moment * step, 0.0]))

    put(0)
    for step in range(1, STEPS + 1):
        batch = np.float32(data[step - 1])
        found.values[Key(traces.INPUTS, 0, 0, step, 'features/x')] = value(np.float32([batch, 1.0]))
        found.values[Key(traces.LOSS, 0, 0, step, 'loss')] = value(np.float32(loss * batch * abs(weights).sum()))
        found.rows[0, 0, step] = [f'row {batch}']
        weights = (weights - rate * gradient * batch * np.sign(weights) * (1 + noise)).astype(np.float32)
        put(step)
    return found


def judged(one, other, again=None, rounded=None, tolerance=1e-5, ever=False):
    """(row of each thing, sentences)."""
    found = compare.differences(one, other)
    pairs = [compare.differences(one, each or one) for each in (again, rounded)]
    spreads = map(judge.Spread, results._chance_and_rounding(*pairs))
    rows = judge.rows(found, *spreads, tolerance, ever)
    return {row.thing: row for row in rows}, first_difference.explain(one, other, found, rows)


def test_equal_runs():
    rows, said = judged(trace(), trace())
    assert {row.state for row in rows.values()} == {judge.EQUAL} and not said
    assert rows[traces.LOSS].count == STEPS and rows[compare.UPDATES].count == STEPS
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
        (dict(moment=1.1), traces.SLOTS, 1, ["the optimizer's slots: kernel/Momentum", 'gradients, the optimizer']),
        (dict(average=0.1), traces.WEIGHTS, 1, ['average', 'the momentum of batch normalization']),
    ],
)
def test_says_where_two_runs_part_and_why(change, thing, step, said):
    rows, sentences = judged(trace(), trace(**change))
    first = judge.first(rows.values(), compare.differences(trace(), trace(**change)))
    assert (first.thing, first.first.step) == (thing, step)
    for words in said:
        assert words in ' '.join(sentences)


def test_another_learning_rate_that_the_weights_hide_shows_in_the_updates():
    one, other = (trace(rate=rate, start=1000.0) for rate in (0.1, 0.101))
    rows, said = judged(one, other)
    assert rows[traces.WEIGHTS].largest < 1e-5 and rows[traces.LOSS].state == judge.CLOSE
    assert rows[compare.UPDATES].state == judge.DIFFERS
    assert 'the update of the weights: kernel' in said[0] and 'learning rate' in said[1]


def test_rounding_is_no_difference():
    rows, _ = judged(trace(), trace(noise=1e-6))
    assert judge.verdict(rows.values()) == judge.EQUAL and rows[traces.WEIGHTS].state == judge.CLOSE


def test_what_rounding_grows_to_is_no_difference_but_a_larger_one_is():
    rounded = trace(noise=1e-4)
    rows, _ = judged(trace(), trace(noise=5e-4), rounded=rounded)
    assert judge.verdict(rows.values()) == judge.EQUAL and rows[traces.WEIGHTS].state == judge.ROUNDING
    rows, _ = judged(trace(), trace(noise=5e-3), rounded=rounded)
    assert judge.verdict(rows.values()) == judge.DIFFERS


def test_the_spread_of_a_later_step_excuses_no_earlier_one():
    rounded = trace()
    last = Key(traces.WEIGHTS, 0, 0, STEPS, 'kernel')
    rounded.values[last] = value(rounded.values[last].numbers * np.float32(1.5))
    rows, _ = judged(trace(), trace(rate=0.101), rounded=rounded)
    assert (rows[traces.WEIGHTS].state, rows[traces.WEIGHTS].first.step) == (judge.DIFFERS, 1)


def test_chance():
    rows, _ = judged(trace(), trace(noise=-5e-4), again=trace(noise=1e-4))
    assert judge.verdict(rows.values()) == judge.EQUAL and rows[traces.WEIGHTS].state == judge.CHANCE


def with_a_weight_that_nothing_trains(made):
    made.trainable = made.trainable | {'unused'}
    for step in range(STEPS + 1):
        made.values[Key(traces.WEIGHTS, 0, 0, step, 'unused')] = value(np.float32([1.0]))
    return made


def test_gradients_that_are_random_leave_nothing_told():
    one, other, again = (with_a_weight_that_nothing_trains(trace(gradient=each)) for each in (1.0, 1.01, 1.2))
    rows, said = judged(one, other, again)
    assert rows[compare.UPDATES].state == judge.verdict(rows.values()) == judge.UNTOLD and not said


def test_one_random_variable_of_many_leaves_the_rest_told():
    one, again = trace(), trace(average=0.1)  # the weight `average` is random; `kernel` and the slot are not
    one.values[Key(traces.WEIGHTS, 0, 0, 1, 'more')] = again.values[Key(traces.WEIGHTS, 0, 0, 1, 'more')] = value([1.0])
    rows, _ = judged(one, one, again)
    assert rows[traces.WEIGHTS].state == judge.CHANCE and judge.verdict(rows.values()) == judge.EQUAL


def two_estimators(one, other):
    """A trace of both."""
    made = Trace()
    made.trainable, made.labels = {'kernel'}, {0: 'model', 1: 'random'}
    for number, each in enumerate((one, other)):
        made.values.update({key._replace(estimator=number): found for key, found in each.values.items()})
    return made


@pytest.mark.parametrize(
    'first, expected, said',
    [
        (trace(), judge.UNTOLD, 'UNDECIDED: two runs of --from differ so much in Estimator 2 (random) that'),
        (trace(rate=0.101), judge.DIFFERS, 'DIFFERENT: The runs part at step 1 of Estimator 1 (model), in the weights'),
    ],
)
def test_an_estimator_that_is_random_hides_itself_alone(first, expected, said):
    one = two_estimators(trace(), trace(data=(1.0, 2.0, 3.0)))
    other = two_estimators(first, trace(data=(2.0, 1.0, 3.0)))
    again = two_estimators(trace(), trace(data=(3.0, 2.0, 1.0)))
    rows, sentences = judged(one, other, again)
    assert judge.verdict(rows.values()) == expected and rows[compare.UPDATES].untold == {1}
    comparison = verify_report.Comparison('--from and --to', list(rows.values()), sentences)
    shown = verify_report.Report('program.py', [], [comparison], [], STEPS, 1e-5, estimators=one.labels)
    assert verify_report.verdict(shown).startswith(said)


def test_another_input_in_the_run_of_rounding_is_chance():
    rows, _ = judged(trace(), trace(data=(2.0, 1.0, 3.0)), rounded=trace(data=(3.0, 2.0, 1.0)))
    assert judge.verdict(rows.values()) == judge.UNTOLD


@pytest.mark.parametrize('step, expected', [(20, judge.DIFFERS), (21, judge.CHANCE)])
def test_no_chance_excuses_what_is_restored(step, expected):
    one, other = Trace(), Trace()
    for each in (20, 21):
        one.values[Key(traces.WEIGHTS, 0, 0, each, 'kernel')] = value([1.0])
        other.values[Key(traces.WEIGHTS, 0, 0, each, 'kernel')] = value([1.001 if each == step else 1.0])
    differences = compare.differences(one, other)
    chance = judge.Spread({Key(traces.WEIGHTS, 0, 0, 5, 'kernel'): 1e-3})
    (row,) = (row for row in judge.rows(differences, chance, judge.Spread({}), 1e-5, ever=True) if row.count)
    assert row.state == expected


@pytest.mark.parametrize(
    'begins, said', [(20, ''), (0, 'the program begins anew.'), (None, 'the program makes no step.')]
)
def test_a_run_that_continues_nothing_is_told(begins, said):
    found = Trace()
    if begins is not None:
        found.values[Key(traces.WEIGHTS, 0, 0, begins, 'kernel')] = value([1.0])
    missing = results._not_continued(found)
    assert said in missing and bool(missing) == bool(said)
    shown = reported(0.1)[0]._replace(missing=missing)
    assert verify_report.verdict(shown) == f'EQUAL: both compute the same, bit for bit. {missing}'.rstrip()


def test_without_a_fixed_order_of_the_input_nothing_is_told():
    rows, said = judged(trace(), trace(data=(2.0, 1.0, 3.0)), again=trace(data=(3.0, 2.0, 1.0)))
    assert {row.state for row in rows.values() if row.count} <= {judge.UNTOLD, judge.CHANCE, judge.EQUAL}
    assert rows[traces.INPUTS].state == judge.UNTOLD and judge.verdict(rows.values()) == judge.UNTOLD and not said


def test_initial_values_are_told_even_so():
    rows, said = judged(trace(), trace(start=1.5), again=trace(data=(3.0, 2.0, 1.0)))
    assert judge.verdict(rows.values()) == judge.DIFFERS and 'in the initial values' in said[0]


@pytest.mark.parametrize('thing, name', [(traces.WEIGHTS, 'kernel'), (traces.LOSS, 'loss')])
def test_what_only_one_has_is_a_difference(thing, name):
    other = trace()
    for key in other.keys(thing):
        if key.name == name:
            other.values[key._replace(name='another')] = other.values.pop(key)
    rows, said = judged(trace(), other)
    assert rows[thing].state == judge.DIFFERS and 'is only in --from' in said[0] and 'another name' in said[1]


@pytest.mark.parametrize(
    'one, other, expected',
    [
        (value([1.0, 2.0]), value([1.0, 2.0]), 0),
        (value([4.0, 0.0]), value([4.0, 1.0]), 0.25),
        (value([10**6, 3]), value([10**6, 4]), np.inf),
        (value([True]), value([False]), np.inf),
        (value([1.0]), value([np.nan]), np.inf),
        (value([1.0]), value([1.0, 1.0]), np.inf),
        (Value((1,), 'a'), Value((1,), 'b'), np.inf),
        (Value((1,), 'a'), Value((1,), 'a'), 0),
        (value([1.0, 0.0], largest=2.0, norm=3.0), value([1.0, 0.5], largest=2.0, norm=3.0), 0.25),
        (value([1.0, 0.0], largest=2.0, norm=3.0), value([1.0, 1e-9], largest=2.0, norm=4.0), 0.25),
    ],
)
def test_difference(one, other, expected):
    assert compare.difference(one, other) == expected


def reported(rate):
    one, other = trace(), trace(rate=rate)
    found = compare.differences(one, other)
    spread = judge.Spread({})
    rows = judge.rows(found, spread, spread, 1e-5)
    comparison = verify_report.Comparison('From and to', rows, first_difference.explain(one, other, found, rows))
    return verify_report.Report('program.py: A <and> B', ['how'], [comparison], ['a note'], STEPS, 1e-5), one, found


class Text(html.parser.HTMLParser):
    text = ''

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize(
    'rate, word, said', [(0.1, 'EQUAL', 'bit for bit'), (0.101, 'DIFFERENT', 'the learning rate is not the same')]
)
def test_text_json_and_page_say_the_same(rate, word, said):
    shown, one, found = reported(rate)
    text = verify_report.text(shown)
    assert f'{word}: ' in text and said in ' '.join(text.split()) and 'a note' in text
    written = json.loads(json.dumps(verify_report.to_json(shown, {'from': one.losses()}), allow_nan=False))
    assert written['verdict'] == word.lower() and written['losses']['from']['0']['1'] == 3
    reader = Text()
    reader.feed(verify_page.page(shown, {'from': one.losses()}, {'from and to': found}))
    assert word in reader.text and 'A <and> B' in reader.text and said in reader.text


def test_why_an_export_was_not_called():
    """The line of TensorFlow's text that tells something; the first one does not."""
    nodes = ''.join(f'  File "/env/python/site-packages/x.py", line {line}, in f\n' for line in range(200))
    text = f"Graph execution error:\n\nDetected at node 'P' defined at (most recent call last):\n{nodes}Node: 'P'\n"
    one = trace()
    one.not_called = [
        ('export', 'serving_default', recording.text_of(OpError(f'{text}Could not parse example input.\n\t[[{{')))
    ]
    one.not_called += [('export', 'predict', recording.text_of(ValueError('a feature is sparse')))]
    one.not_called += [('export', '', recording.text_of(OpError('')))]
    assert [note for note in results._notes(one, []) if 'called' in note] == [
        'Not called: signature serving_default of export: Could not parse example input.',
        'Not called: signature predict of export: a feature is sparse.',
        'Not called: signature (all) of export: OpError.',
    ]


class OpError(Exception):
    """As TensorFlow's: its text is in `message`."""

    def __init__(self, message):
        super().__init__()
        self.message = message


@pytest.mark.parametrize(
    'change, said', [(dict(rate=0.101), 'The restored values agree'), (dict(start=1.5), 'The checkpoint is not read')]
)
def test_a_continued_run_tells_the_checkpoint_from_a_known_cause(change, said):
    one, other = trace(), trace(**change)
    found = compare.differences(one, other)
    rows = judge.rows(found, judge.Spread({}), judge.Spread({}), 1e-5, ever=True)
    sentences = first_difference.explain(one, other, found, rows, 'Continued, the runs part ', known=True)
    assert sentences[0].startswith('Continued, the runs part ') and said in sentences[1]
