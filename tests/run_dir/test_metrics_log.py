"""metrics.jsonl: what is written, and what is read after a process died in the middle of a line."""

import json
import time

import numpy
import pytest

from estimator_trainer.run_dir import metrics_log


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'eval' / 'metrics.jsonl'


def test_lines(path):
    log = metrics_log.MetricsLog(str(path))
    log.write('train', 100, {'loss': 0.5, 'examples_per_sec': 10}, now=12.34567)
    metrics_log.MetricsLog(str(path)).write('eval', 200, {'accuracy': 0.25}, now=13)  # a later process
    assert path.read_text().splitlines() == [
        '{"kind": "train", "step": 100, "time": 12.346, "loss": 0.5, "examples_per_sec": 10.0}',
        '{"kind": "eval", "step": 200, "time": 13, "accuracy": 0.25}',
    ]
    assert metrics_log.MetricsLog(str(path)).read() == [json.loads(line) for line in path.read_text().splitlines()]


def test_the_time_is_now(path):
    before = time.time()
    metrics_log.MetricsLog(str(path)).write('train', 1, {})
    (line,) = metrics_log.MetricsLog(str(path)).read()
    assert before - 0.001 <= line['time'] <= time.time() + 0.001


@pytest.mark.parametrize(
    'value, written',
    [
        (float('nan'), None),
        (float('inf'), None),
        (float('-inf'), None),
        ('0.5', 0.5),
        (True, 1.0),
        (None, 'None'),
        ('text', 'text'),
        (b'text', 'text'),
        ([1, float('nan')], [1.0, None]),
    ],
)
def test_values(path, value, written):
    metrics_log.MetricsLog(str(path)).write('train', 1, {'loss': value}, now=0)
    line = json.loads(path.read_text(), parse_constant=lambda name: pytest.fail(f'{name} is no JSON'))
    assert line['loss'] == written and type(line['loss']) is type(written)


def test_a_last_line_cut_short_is_left_out(path):
    metrics_log.MetricsLog(str(path)).write('train', 1, {}, now=0)
    whole = path.read_text()
    for length in range(1, len(whole) - 1):
        path.write_text(whole + whole[:length])
        assert metrics_log.MetricsLog(str(path)).read() == [{'kind': 'train', 'step': 1, 'time': 0}]


def test_a_damaged_line_is_left_out(path):
    path.parent.mkdir()
    with open(path, 'wb') as file:
        file.write(b'{"step": 1}\n{"st\xff": \n7\n{"step": 2}\n')
    assert metrics_log.MetricsLog(path).read() == [{'step': 1}, {'step': 2}]


@pytest.mark.parametrize('numbers', [10, 20_000, 300_000])
@pytest.mark.parametrize('before', [0, 1, 2])
@pytest.mark.parametrize('after', ['', '{"step": 9, "of_classes": ['])
def test_the_last_line_is_read_however_long_it_is(path, numbers, before, after):
    log, values = metrics_log.MetricsLog(str(path)), {'of_classes': [0.5] * numbers}
    for step in range(before + 1):
        log.write('eval', step, values)
    with open(path, 'a') as file:
        file.write(after + '1.0, ' * numbers if after else '')
    assert metrics_log.last(str(path))['step'] == metrics_log.tail(str(path))[-1]['step'] == before
    assert metrics_log.last(str(path))['of_classes'] == values['of_classes']


def test_a_line_beyond_all_bounds_is_not_read(path):
    metrics_log.MetricsLog(str(path)).write('eval', 1, {})
    with open(path, 'a') as file:
        file.write('x' * metrics_log.MOST_TAIL_BYTES)
    assert metrics_log.last(str(path)) == {} and metrics_log.tail(str(path)) == []


def test_no_file(path):
    assert metrics_log.MetricsLog(str(path)).read() == []


def test_shown():
    metrics = {'loss': 0.12346, 'accuracy': 1, 'nan': float('nan'), 'list': [1], 'text': 'x'}
    assert metrics_log.in_words(metrics) == 'accuracy 1.0000, loss 0.1235, nan is not finite'


@pytest.mark.parametrize(
    'evaluation, may_be',
    [
        ({'mae': 0.5}, True),
        ({'mae': numpy.float32(0.5), 'loss': 2}, True),
        ({'mae': 0.5, 'loss': [1.0, 2.0]}, True),
        ({'mae': 0.5, 'loss': None}, False),
        ({'mae': 0.5, 'loss': float('nan')}, False),
        ({'mae': float('inf'), 'loss': 1.0}, False),
        ({'mae': None, 'loss': 1.0}, False),
        ({'mae': '0.5'}, False),
        ({'mae': [0.5]}, False),
        ({'loss': 1.0}, False),
    ],
)
def test_which_evaluation_may_be_the_best(evaluation, may_be):
    assert metrics_log.may_be_best(evaluation, 'mae') is may_be


def test_a_resumed_run_starts_a_new_line(path):
    log = metrics_log.MetricsLog(str(path))
    log.write('train', 1, {}, now=0)
    with open(path, 'a') as file:
        file.write('{"kind": "tr')  # and it died
    log.write('train', 2, {}, now=0)
    assert [line['step'] for line in metrics_log.MetricsLog(str(path)).read()] == [1, 2]


@pytest.mark.parametrize('name', ['kind', 'step', 'self'])
def test_a_metric_of_any_name(path, name):
    metrics_log.MetricsLog(str(path)).write('eval', 7, {name: 0.5}, now=0)
    (line,) = metrics_log.MetricsLog(str(path)).read()
    assert (line['kind'], line['step']) == ('eval', 7)


@pytest.mark.parametrize(
    'value, in_line',
    [
        (numpy.float32([0.5]), 0.5),
        (numpy.float64(0.5), 0.5),
        (numpy.float32([[numpy.inf]]), None),
        (numpy.float32([1, 2]), [1.0, 2.0]),
    ],
)
def test_an_array_of_one_number_is_a_number(path, value, in_line):
    metrics_log.MetricsLog(str(path)).write('eval', 7, {'mae': value}, now=0)
    (line,) = metrics_log.MetricsLog(str(path)).read()
    assert line['mae'] == in_line and metrics_log.may_be_best(line, 'mae') == (in_line == 0.5)
