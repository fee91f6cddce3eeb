"""training.calls: where calls end, and how long they become."""

import pytest

from estimator_trainer.training.calls import MOST_STEPS, CallLengths


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
    lengths = CallLengths(steps, lambda step: min(each for each in (*due, start + 333) if each > step), clock=clock)
    ends = calls(lengths, clock, start, start + 333)
    assert ends[-1] == start + 333
    assert {step for step in due if start < step <= start + 333} <= set(ends)


@pytest.mark.parametrize(('secs', 'longest'), [(1e-5, MOST_STEPS), (0.001, 200), (0.03, 6), (0.3, 1), (7.0, 1)])
def test_calls_grow_until_they_take_a_fifth_of_a_second(secs, longest):
    clock = Clock(secs)
    ends = calls(CallLengths(None, lambda step: 20_000, clock=clock), clock, 0, 20_000 if secs < 0.01 else 500)
    sizes = [b - a for a, b in zip([0, *ends], ends)][:-1]
    assert sizes[0] == 1 and sizes[-1] == longest == max(sizes)
    assert all(b <= 2 * a for a, b in zip(sizes, sizes[1:]))


def test_they_shrink_where_steps_become_slow():
    clock = Clock(0.001)
    lengths = CallLengths(None, lambda step: 10**6, clock=clock)
    calls(lengths, clock, 0, 5000)
    clock.secs = 0.1
    calls(lengths, clock, 5000, 5001)
    assert lengths.of_call_after(6000) == 2


def test_a_bound_for_workers_in_step():
    clock = Clock(0.001)
    lengths = CallLengths(None, lambda step: 10**6, 10, clock=clock)
    calls(lengths, clock, 0, 100)
    assert lengths.of_call_after(100) == 10
