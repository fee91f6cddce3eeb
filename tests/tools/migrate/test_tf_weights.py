"""tools.migrate.weights: what an Estimator's checkpoint has beside the weights."""

import types

import numpy as np
import pytest
import tensorflow as tf

from estimator_trainer.tools.migrate import variable_names, weights


def powers(step, **betas):
    pairs = [types.SimpleNamespace(kind=variable_names.POWER, estimator=f'{name}_power') for name in ('beta1', 'beta2')]
    optimizer = tf.keras.optimizers.legacy.Adam(**betas)
    found = weights.powers(types.SimpleNamespace(pairs=pairs, optimizer=optimizer, step=step))
    assert all(power.dtype == np.float32 for power in found.values())
    return found['beta1_power'], found['beta2_power']


@pytest.mark.parametrize('step', [0, 1, 40, 999_999, 1_000_000, 2_500_001])
def test_powers_are_those_of_step_by_step(step):
    betas = (np.float32(0.9), np.float32(0.9999999))
    expected = [np.multiply.accumulate(np.full(step + 1, beta, np.float32))[-1] for beta in betas]
    tiny = np.finfo(np.float32).tiny
    expected = [power if power >= tiny else 0 for power in expected]
    np.testing.assert_array_equal(powers(step, beta_1=0.9, beta_2=0.9999999), expected)


def test_powers_of_a_very_long_run_take_no_time_and_no_memory():
    assert powers(10**12, beta_1=0.9, beta_2=0.999) == (0, 0)
    assert powers(10**12, beta_1=1.0, beta_2=1 - 1e-9) == (1, 1)
