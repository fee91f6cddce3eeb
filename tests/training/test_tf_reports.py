"""training.reports with a clock of its own."""

import logging
import math
import os

import pytest
import tensorflow as tf

from estimator_trainer.compat.patches import saver_hooks
from estimator_trainer.run_dir import metrics_log, training_file
from estimator_trainer.training import dues, loop, reports
from tests import fakes

v1 = tf.compat.v1


class Alone:
    """A trainer.Training of one task."""

    def __init__(self, write_rate, read_step):
        self.write_rate, self.read_step = write_rate, read_step

    def agree(self, wishes, steps):
        return wishes()

    def next_due(self, step):
        return None


def made(folder, times, training, bar=False, asynchronous=False, max_steps=10, log_every_steps=2):
    """Reports, and the plan that they are of."""
    clock = iter(times)
    config = fakes.config(
        log_every_steps=log_every_steps, save_summary_steps=0, model_dir=str(folder), progress='on' if bar else 'off'
    )
    plan = fakes.Plan(config=config, asynchronous=asynchronous)
    setup = fakes.Setup(plan, fakes.params(max_steps=max_steps))
    return reports.Reports(setup, training, lambda: next(clock)), plan


def train(folder, times, start=0, steps_each_run=1, runs=5, bar=False):
    """Drives a Loop that reports every two steps of this task; the loss at a step is the step halved."""
    training = Alone(saver_hooks.scalar_writer(str(folder), 'examples_per_sec'), lambda: step)
    shown, plan = made(folder, times, training, bar, asynchronous=steps_each_run > 1)
    params = fakes.params(max_steps=10**6, start_step=start)
    its = loop.Loop(plan, params, fakes.Watchdog(), lambda: None)
    with tf.Graph().as_default():
        its.begin(start, dues.Saves(dues.SaveRule()), training, shown)
        step = start
        for _ in range(runs):
            step += steps_each_run
            its.after(step, [(step - steps_each_run) / 2])
        its.ends(training_file.HOOK, step, 0)
        its.finish()
    v1.summary.FileWriterCache.clear()


def lines(folder):
    return [
        (line['kind'], line['step'], line['loss'], line.get('examples_per_sec'))
        for line in metrics_log.MetricsLog(os.path.join(folder, 'metrics.jsonl')).read()
    ]


@pytest.mark.parametrize(
    'start, steps_each_run, expected',
    [
        (0, 1, [('train', 2, 0.5, None), ('train', 4, 1.5, 128), ('train', 5, 2.0, 64)]),
        (100, 1, [('train', 102, 50.5, None), ('train', 104, 51.5, 128), ('train', 105, 52.0, 64)]),  # a resumed run
        (
            0,
            3,
            [('train', 6, 1.5, 96), ('train', 12, 4.5, 384), ('train', 15, 6.0, 96)],
        ),  # others move the step as well
    ],
)
@pytest.mark.parametrize('bar', [False, True])
def test_metrics_lines(tmp_path, start, steps_each_run, expected, bar):
    train(tmp_path, [100.0, 102.0, 103.0, 105.0], start, steps_each_run, bar=bar)
    assert lines(tmp_path) == expected
    events = [
        value
        for path in tmp_path.glob('events*')
        for event in v1.train.summary_iterator(str(path))
        for value in event.summary.value
    ]
    assert [(value.tag, value.simple_value) for value in events] == [
        ('examples_per_sec', rate) for *_, rate in expected if rate
    ]


def test_log_lines_and_bar(tmp_path, capsys, caplog):
    caplog.set_level(logging.INFO, 'estimator_trainer')
    train(tmp_path / 'lines', [0.0, 2.0, 3.0, 5.0])
    assert [record.getMessage() for record in caplog.records] == [
        'step 2/10  loss 0.5000',
        'step 4/10  loss 1.5000  128 examples/s  3s left',
        'step 5/10  loss 2.0000  64 examples/s',
    ]
    assert capsys.readouterr().err == ''
    caplog.clear()
    train(tmp_path / 'bar', [0.0, 2.0, 3.0, 5.0], start=2, bar=True)
    assert not caplog.records
    drawn = capsys.readouterr().err
    assert '2/10' in drawn and '7/10' in drawn


def test_one_step_gives_no_speed_and_no_step_is_beyond_the_end(tmp_path, caplog):
    caplog.set_level(logging.INFO, 'estimator_trainer')
    training = Alone(lambda step, rate: None, lambda: 0)
    shown, _ = made(tmp_path, [0.0, 5.0, 6.0, 7.0], training, max_steps=3, log_every_steps=1)
    shown.start(0)
    for before, step in ((0, 1), (1, 3), (3, 4)):  # another worker with parameter servers moves the step as well
        shown.after_call(before, [step], [0.5], step)
    assert [record.getMessage() for record in caplog.records] == [
        'step 1/3  loss 0.5000',
        'step 3/3  loss 0.5000  128 examples/s  0s left',
        'step 3/3  loss 0.5000  96 examples/s  0s left',
    ]


def test_a_clock_that_stands_still_divides_by_nothing(tmp_path):
    train(tmp_path, [5.0, 5.0, 5.0, 5.0])
    assert len(lines(tmp_path)) == 3


def test_the_waits_so_far_and_those_since_the_last_report():
    for_peers = iter([1.0, 1.5, 4.0])
    waited = reports.Waits(lambda: next(for_peers))
    assert waited.since_last() == {'peer_wait_secs': 1.0}
    waited.for_input(math.nan)  # it is not measured
    assert waited.since_last() == {'peer_wait_secs': 0.5}
    waited.for_input(0.25)
    waited.for_input(0.5)
    assert waited.since_last() == {'input_wait_secs': 0.75, 'peer_wait_secs': 2.5}


def test_no_wait_is_reported_that_is_not_measured():
    waited = reports.Waits()
    assert waited.totals() == waited.since_last() == {}


def test_a_line_that_cannot_be_written_costs_no_steps(tmp_path, monkeypatch, caplog):
    def full(*_):
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(metrics_log.MetricsLog, 'write', full)
    train(tmp_path, range(100))
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert said == ['WARNING: lines of metrics.jsonl are missing: [Errno 28] No space left on device']
