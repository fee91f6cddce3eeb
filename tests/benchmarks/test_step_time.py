"""The model of a step's seconds: what the fit finds, and what it leaves out."""

import itertools

import numpy as np
import pytest

from benchmarks import step_time

SETTINGS = [
    step_time.Setting(workers, mb * 1e6, delay, bandwidth, cores=2)
    for workers, mb, (delay, bandwidth) in itertools.product((1, 2, 4), (4, 40, 100), ((0, 0), (0.005, 0), (0, 1e8)))
]


def test_coefficients_are_found_again():
    given = np.array([0.003, 2e-10, 0.002, 1e-9, 1.5, 1.1])
    found = step_time.fit({setting: step_time.secs_of(setting, given) for setting in SETTINGS})
    assert found == pytest.approx(given, rel=1e-6)


def test_no_coefficient_is_negative():
    """Steps that become faster with the delay are a mistake of the measurement: the model has no delay then."""
    given = np.array([0.1, 2e-10, 0.002, 1e-9, -0.5, 1.1])
    found = step_time.fit({setting: step_time.secs_of(setting, given) for setting in SETTINGS})
    assert found[step_time.TERMS.index('delays')] == 0 and (found >= 0).all()


def test_the_cores_are_shared_by_the_workers_beyond_them():
    alone, few, many = (step_time.Setting(workers, 1e6, 0, 0, cores=2).terms() for workers in (1, 2, 4))
    assert (alone[0], few[0], many[0]) == (1, 1, 2)
    assert step_time.Setting(1000, 1e6, 0, 0).terms()[0] == 1


def test_a_ring_sends_nearly_twice_the_gradients_over_each_link():
    *_, delays, filled = step_time.Setting(4, 1e8, 0.001, 1e8).terms()
    assert (delays, filled) == (pytest.approx(6 * 0.001), pytest.approx(1.5))


def test_what_is_held_out_differs_from_all_that_is_fitted():
    fitted = [setting for setting in SETTINGS if not setting.held_out]
    assert fitted and not any(setting.gradients == 40e6 or setting.workers == 3 for setting in fitted)
    assert step_time.Setting(2, 4e6, 0.001, 1e8).held_out
