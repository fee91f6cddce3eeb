"""How two runs of a program are read, and what is written of their comparison."""

import html.parser
import json

import numpy as np
import pytest

from estimator_trainer.compat.recorder.estimator_recorder import recording
from estimator_trainer.tools.comparison import (
    first_difference,
    judgements,
    report,
    traces,
    value_differences,
    verify_results,
    verify_runs,
)
from estimator_trainer.tools.comparison.traces import Key, Record, Value
from tests.tools.comparison.test_compare import STEPS, record


@pytest.mark.parametrize(
    'begins, said', [(20, ''), (0, 'the program begins anew.'), (None, 'the program makes no step.')]
)
def test_a_run_that_continues_nothing_is_told(begins, said):
    found = Record()
    if begins is not None:
        found.values[Key(traces.WEIGHTS, 0, 0, begins, 'kernel')] = Value.of([1.0])
    missing = first_difference.not_continued(found)
    assert said in missing and bool(missing) == bool(said)
    same = results(0.1)._replace(missing=missing)
    assert verify_results.says(same)[0] == f'EQUAL: both compute the same, bit for bit. {missing}'.rstrip()


@pytest.mark.parametrize(
    'one, other, expected',
    [
        (Value.of([1.0, 2.0]), Value.of([1.0, 2.0]), 0),
        (Value.of([4.0, 0.0]), Value.of([4.0, 1.0]), 0.25),
        (Value.of([10**6, 3]), Value.of([10**6, 4]), np.inf),
        (Value.of([True]), Value.of([False]), np.inf),
        (Value.of([1.0]), Value.of([np.nan]), np.inf),
        (Value.of([1.0]), Value.of([1.0, 1.0]), np.inf),
        (Value((1,), 'a'), Value((1,), 'b'), np.inf),
        (Value((1,), 'a'), Value((1,), 'a'), 0),
        (Value.of([1.0, 0.0], largest=2.0, norm=3.0), Value.of([1.0, 0.5], largest=2.0, norm=3.0), 0.25),
        (Value.of([1.0, 0.0], largest=2.0, norm=3.0), Value.of([1.0, 1e-9], largest=2.0, norm=4.0), 0.25),
    ],
)
def test_difference(one, other, expected):
    assert value_differences.difference(one, other) == expected


def results(rate):
    one, other = record(name='--from'), record(rate=rate, name='--to')
    found = value_differences.differences(one, other)
    rows = judgements.rows(found, {}, {}, 1e-5)
    comparison = verify_results.Comparison('From and to', rows, first_difference.explain(one, other, found, rows))
    return verify_results.Results(
        'program.py: A <and> B',
        ['how'],
        [comparison],
        ['a note'],
        STEPS,
        1e-5,
        losses={'--from': one.losses()},
        pairs={'from and to': found},
    )


class Text(html.parser.HTMLParser):
    text = ''

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize(
    'rate, word, said', [(0.1, 'EQUAL', 'bit for bit'), (0.101, 'DIFFERENT', 'the learning rate is not the same')]
)
def test_text_json_and_page_say_the_same(rate, word, said):
    found = results(rate)
    shown = verify_results.shown(found)
    text = report.text(shown)
    assert f'{word}: ' in text and said in ' '.join(text.split()) and 'a note' in text
    written = json.loads(json.dumps(verify_results.to_json(found), allow_nan=False))
    assert written['verdict'] == word.lower() and written['losses']['--from']['0']['1'] == 3
    reader = Text()
    reader.feed(report.page(shown))
    assert word in reader.text and 'A <and> B' in reader.text and said in reader.text


def test_why_an_export_was_not_called():
    """The line of TensorFlow's text that tells something; the first one does not."""
    nodes = ''.join(f'  File "/env/python/site-packages/x.py", line {line}, in f\n' for line in range(200))
    text = f"Graph execution error:\n\nDetected at node 'P' defined at (most recent call last):\n{nodes}Node: 'P'\n"
    one = record()
    one.not_called = [
        ('export', 'serving_default', recording.text_of(OpError(f'{text}Could not parse example input.\n\t[[{{')))
    ]
    one.not_called += [('export', 'predict', recording.text_of(ValueError('a feature is sparse')))]
    one.not_called += [('export', '', recording.text_of(OpError('')))]
    assert [note for note in verify_results.notes(one, []) if 'called' in note] == [
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
    one, other = record(), record(**change)
    found = value_differences.differences(one, other)
    rows = judgements.rows(found, {}, {}, 1e-5, ever=True)
    sentences = first_difference.explain(one, other, found, rows, 'Continued, the runs part ', known=True)
    assert sentences[0].startswith('Continued, the runs part ') and said in sentences[1]


def write_run(folder, rate, begins):
    """What the recorder leaves of two steps on one weight."""
    folder.mkdir()
    made, where = recording.Recording(folder), dict(estimator=0, model_dir='model', call=0)
    for step in range(begins, begins + 3):
        if step > begins:
            loss = made.array(np.float32(1.0 / step), 9)
            made.write('step', step=step, loss=loss, inputs={'x': made.array(np.float32([1, 2]), 9)}, rows=[], **where)
        kernel = made.array(np.float32([1 - rate * step, 2 - rate * step]), 9)
        made.write('weights', step=step, variables={'kernel': kernel}, trainable=['kernel'], **where)


@pytest.mark.parametrize('rate, state', [(0.1, judgements.EQUAL), (0.11, judgements.DIFFERS)])
def test_runs_of_two_environments_are_read_and_compared(tmp_path, rate, state):
    interpreter = verify_runs.Interpreter('python', {'tensorflow': '2.21.0'})
    sides = [verify_runs.Side(name, interpreter, ('program.py',), ()) for name in ('from', 'to')]
    for run in verify_runs.plan(*sides, continued=True):
        by_from = 'from' in (run.side.name, run.after)
        write_run(tmp_path / run.name, 0.1 if by_from else rate, 2 if run.after else 0)
    found = verify_results.compare_runs(str(tmp_path), sides, True, 2, 1e-5)
    assert found.state == state and [each.title.partition(':')[0] for each in found.comparisons] == [
        '--from and --to, 2 steps',
        'Continued from the checkpoint of --from',
        'Continued from the checkpoint of --to',
    ]
    shown = verify_results.shown(found)
    assert [each.title for each in shown.curves] == [
        'Loss of each step',
        'Largest difference of the weights at each step',
    ]
    if state == judgements.DIFFERS:
        assert 'The updates in --to are 1.1 times those in --from' in ' '.join(shown.says)
        continued = found.comparisons[2].sentences[0]
        assert continued.startswith(
            'Continued from the checkpoint of --to: in --to, and in --from, the runs part before'
        )


@pytest.mark.parametrize('anew', ['from', 'to'])
@pytest.mark.parametrize('makes_steps', [True, False])
def test_only_one_environment_goes_on_from_its_checkpoint(tmp_path, anew, makes_steps):
    interpreter = verify_runs.Interpreter('python', {'tensorflow': '2.21.0'})
    sides = [verify_runs.Side(name, interpreter, ('program.py',), ()) for name in ('from', 'to')]
    for run in verify_runs.plan(*sides, continued=True):
        if run.after != anew:
            write_run(tmp_path / run.name, 0.1, 2 if run.after else 0)
        elif makes_steps:
            write_run(tmp_path / run.name, 0.1, 0)
        else:
            (tmp_path / run.name).mkdir()
            recording.Recording(tmp_path / run.name)
    found = verify_results.compare_runs(str(tmp_path), sides, True, 2, 1e-5)
    assert [each.state for each in found.comparisons].count(judgements.DIFFERS) == 1
    said = verify_results.says(found)[0]
    why = 'begins anew' if makes_steps else 'makes no step'
    assert said.startswith('DIFFERENT: Started again') and f'--{anew} {why}' in said
    assert json.loads(json.dumps(verify_results.to_json(found), allow_nan=False))['verdict'] == 'different'
    report.text(verify_results.shown(found))
