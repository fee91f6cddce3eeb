"""Curves of any length in bounded memory, and the times between their lines."""

import json

import numpy as np
import pytest

from estimator_trainer.run_dir import metrics_log
from estimator_trainer.tools.report.curves import Series, Stretches
from estimator_trainer.tools.report.run_files import RunFiles


def test_a_short_curve_is_kept_as_it_is():
    series = Series()
    series.add(np.array([5, 10, 15]), np.array([3.0, 2.0, 1.5]))
    points = series.points()
    assert points.steps.tolist() == [5, 10, 15] and points.values.tolist() == [3.0, 2.0, 1.5]
    assert points.least.tolist() == points.most.tolist() == points.values.tolist()
    assert series.last == (15, 1.5) and series.width == 1


@pytest.mark.parametrize('block', [7, 1000, 100_000])
def test_a_long_curve_keeps_means_and_extremes(block):
    steps, values = np.arange(1, 100_001), np.sin(np.arange(100_000))
    series = Series(most=100)
    for start in range(0, len(steps), block):
        series.add(steps[start : start + block], values[start : start + block])
    points = series.points()
    assert 50 <= len(points.steps) <= 100 and series.width == 1024
    cell = (steps // 1024) == 3
    place = 3
    assert points.steps[place] == steps[cell].mean()
    assert points.values[place] == pytest.approx(values[cell].mean())
    assert (points.least[place], points.most[place]) == (values[cell].min(), values[cell].max())
    assert series.last == (100_000, values[-1])


def test_what_is_not_finite_is_counted():
    series = Series()
    series.add(np.array([1, 2, 3]), np.array([1.0, np.nan, 3.0]))
    assert (len(series), series.not_finite) == (2, 1)


def test_steps_far_apart_make_no_cells_in_between():
    series = Series(most=10)
    series.add(np.array([1, 2, 3, 10**12]), np.array([1.0, 2.0, 3.0, 4.0]))
    assert (len(series), series.width) == (4, 1)


def test_stretches_end_at_a_pause_and_at_a_step_back():
    found = Stretches()
    found.add(np.array([10, 20, 30]), np.array([0.0, 1.0, 2.0]))
    found.add(np.array([20, 30]), np.array([3.0, 4.0]))  # a restart from step 10
    found.add(np.array([40, 50]), np.array([100.0, 101.0]))  # a pause
    assert [(each.began, each.ended, each.first, each.last, each.lines) for each in found.all] == [
        (0.0, 2.0, 10, 30, 3),
        (3.0, 4.0, 20, 30, 2),
        (100.0, 101.0, 40, 50, 2),
    ]
    assert found.steps_again == 11


def test_stretches_end_where_a_process_began():
    found = Stretches(starts=[99.5])
    found.add(np.arange(10, 60, 10), np.array([98.0, 99, 100, 101, 102]))
    assert [(each.first, each.last, each.again) for each in found.all] == [(10, 20, 0), (30, 50, 0)]


def test_stretches_do_not_depend_on_the_blocks():
    steps, times = np.arange(0, 1000, 5), np.arange(200) * 0.5
    times[120:] += 500
    whole, parts = Stretches(), Stretches()
    whole.add(steps, times)
    for start in range(0, 200, 3):
        parts.add(steps[start : start + 3], times[start : start + 3])
    assert whole.all == parts.all and len(whole.all) == 2


LINES = [
    {'kind': 'train', 'step': 10, 'time': 1.5, 'loss': 2, 'examples_per_sec': 100.5},
    {'kind': 'train', 'step': 20, 'time': 2.5, 'loss': None, 'examples_per_sec': 99.5, 'bad_examples': 1},
    {'kind': 'train', 'step': 30, 'time': 3.5, 'loss': 1.25, 'examples_per_sec': 101.5, 'names': ['a']},
]


@pytest.mark.parametrize('damage', [b'', b'{"kind": "tra\n', b'\n[1, 2]\n"text"\n{"step": "x"}\n{"loss": 1}\n'])
def test_metrics_file(tmp_path, damage):
    path = tmp_path / 'metrics.jsonl'
    path.write_bytes(''.join(json.dumps(line) + '\n' for line in LINES).encode() + damage + b'{"step": 40, "time": 9')
    log = RunFiles(str(tmp_path)).train
    assert (log.lines, log.damaged) == (3, {0: 1, 14: 2}.get(len(damage), 5))
    loss = log.series['loss'].points()
    assert loss.steps.tolist() == [10, 30] and loss.values.tolist() == [2.0, 1.25]
    assert log.series['loss'].not_finite == 1 and log.last('bad_examples') == 1
    assert log.series['examples_per_sec'].last == (30, 101.5)
    assert (log.began, log.ended, log.last_step) == (1.5, 3.5, 30)


def test_metrics_file_of_many_blocks(tmp_path):
    path, blocks = tmp_path / 'metrics.jsonl', 3
    steps = range(blocks * metrics_log.BLOCK_BYTES // 1000)
    path.write_text(
        ''.join(f'{{"step": {step}, "time": {step}, "loss": {step}, "x": "{"x" * 950}"}}\n' for step in steps)
    )
    run = RunFiles(str(tmp_path))
    assert len(list(run.metrics())) >= blocks
    assert run.train.lines == len(steps) and run.train.damaged == 0
    assert run.train.series['loss'].points().values.tolist() == list(steps) and 'x' not in run.train.series


def test_no_metrics_file(tmp_path):
    assert len(RunFiles(str(tmp_path)).train) == 0
