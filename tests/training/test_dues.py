"""training.dues: which flags say when a checkpoint is saved, in which words --dry_run says it, where calls end, and how
long they become."""

from unittest import mock

import pytest

from estimator_trainer.config import trainer_config
from estimator_trainer.training import dues, loop
from estimator_trainer.training.dues import SaveRule
from tests import fakes

FIT, CUSTOM = '--loop=keras_fit', '--loop=custom_loop'


@pytest.mark.parametrize(
    'given, rule, words',
    [
        ([], SaveRule(secs=600), 'every 600 s'),
        (['--save_checkpoints_steps=5'], SaveRule(steps=5), 'every 5 steps'),
        (['--save_checkpoints_secs=9'], SaveRule(secs=9), 'every 9 s'),
        ([CUSTOM], SaveRule(secs=600), 'every 600 s'),
        ([CUSTOM, '--save_checkpoints_epochs=2'], SaveRule(epochs=2), 'every 2 epoch(s)'),
        ([FIT], SaveRule(secs=600, epochs=1), 'every 600 s, and every 1 epoch(s)'),
        ([FIT, '--save_checkpoints_epochs=2'], SaveRule(epochs=2), 'every 2 epoch(s)'),
        ([FIT, '--save_checkpoints_steps=5'], SaveRule(steps=5, epochs=1), 'every 5 steps, and every 1 epoch(s)'),
    ],
)
def test_of_flags(given, rule, words):
    found = dues.save_rule(trainer_config.parse(['trainer', '--model_dir=m', '--max_steps=9', *given]))
    assert (found, str(found)) == (rule, words)


class Clock:
    """`secs` a step."""

    def __init__(self, secs):
        self.now, self.secs = 0.0, secs

    def __call__(self):
        return self.now


def calls(lengths, clock, start, end):
    """The step after each call, from `start` to `end`."""
    step, ends = start, []
    while step < end:
        steps = lengths.of_call_after(step)
        lengths.begin()
        clock.now += steps * clock.secs
        lengths.took(steps)
        step += steps
        ends.append(step)
    return ends


@pytest.mark.parametrize('start', [0, 1, 37, 100])
@pytest.mark.parametrize('steps', [None, 1, 7, 1000])
def test_a_call_ends_at_each_step_after_which_something_is_due(start, steps):
    clock = Clock(0.001)
    due = (
        {start + 1 + 70 * n for n in range(9)}
        | {start + 100 * n for n in range(9)}
        | {start + 45 * n for n in range(1, 9)}
    )
    lengths = dues.CallLengths(
        steps, lambda step: min(each for each in (*due, start + 333) if each > step), clock=clock
    )
    ends = calls(lengths, clock, start, start + 333)
    assert ends[-1] == start + 333
    assert {step for step in due if start < step <= start + 333} <= set(ends)


@pytest.mark.parametrize(
    ('secs', 'longest'), [(1e-5, dues.MOST_STEPS_OF_CALL), (0.001, 200), (0.03, 6), (0.3, 1), (7.0, 1)]
)
def test_calls_grow_until_they_take_a_fifth_of_a_second(secs, longest):
    clock = Clock(secs)
    ends = calls(dues.CallLengths(None, lambda step: 20_000, clock=clock), clock, 0, 20_000 if secs < 0.01 else 500)
    sizes = [b - a for a, b in zip([0, *ends], ends)][:-1]
    assert sizes[0] == 1 and sizes[-1] == longest == max(sizes)
    assert all(b <= 2 * a for a, b in zip(sizes, sizes[1:]))


def test_they_shrink_where_steps_become_slow():
    clock = Clock(0.001)
    lengths = dues.CallLengths(None, lambda step: 10**6, clock=clock)
    calls(lengths, clock, 0, 5000)
    clock.secs = 0.1
    calls(lengths, clock, 5000, 5001)
    assert lengths.of_call_after(6000) == 2


def test_a_bound_for_workers_in_step():
    clock = Clock(0.001)
    lengths = dues.CallLengths(None, lambda step: 10**6, 10, clock=clock)
    calls(lengths, clock, 0, 100)
    assert lengths.of_call_after(100) == 10


@pytest.mark.parametrize('taken', [0, 4])
def test_a_call_planned_ahead_ends_where_epochs_end(taken):
    """Of several tasks the chief says, before a call, how long the one after it is."""
    config = trainer_config.parse(['trainer', '--model_dir=m', '--epochs=1'])
    its = loop.Loop(fakes.Plan(config=config), fakes.params(max_steps=10), fakes.Watchdog(), lambda: None)
    alone = mock.Mock(agree=lambda wishes, steps: None, next_due=lambda step: None)
    its.begin(0, dues.Saves(SaveRule()), alone)
    if taken:
        its.after(taken, [0.5] * taken)
    assert [its.next_due(step, alone=False) for step in (taken, 6, 9)] == [10, 10, 10]
