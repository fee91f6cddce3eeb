"""jobs.schedules.learning_rate against hand-computed rates."""

import math

import pytest
import tensorflow as tf

from estimator_trainer.jobs import schedules


def rate(step, in_graph=False, **changes):
    params = dict(
        schedules.SCHEDULE_PARAMS,
        learning_rate=0.4,
        num_replicas=2,
        initial_replicas=3,
        steps_per_epoch=10.4,
        max_steps=100,
        **changes,
    )
    schedules.check(params)

    def compute(at):
        return schedules.learning_rate(params, at)

    if in_graph:
        compute = tf.function(compute)
    result = compute(tf.constant(step, tf.int64))
    assert result.dtype == tf.float32 and result.shape == []
    return float(result)


STEP = dict(schedule='step', decay_epochs='1,2.5')  # at steps 10 (10.4) and 26
COSINE = dict(schedule='cosine')
WARM = dict(warmup_steps=20)
CASES = [
    (dict(), 0, 0.4),
    (dict(), 10**6, 0.4),
    (STEP, 0, 0.4),
    (STEP, 9, 0.4),
    (STEP, 10, 0.04),
    (STEP, 25, 0.04),
    (STEP, 26, 0.004),
    (STEP, 1000, 0.004),
    (dict(STEP, decay_factor=0.5), 26, 0.1),
    (COSINE, 0, 0.4),
    (COSINE, 25, 0.2 * (1 + math.cos(math.pi / 4))),
    (COSINE, 50, 0.2),
    (COSINE, 100, 0.0),
    (COSINE, 200, 0.0),
    (WARM, 0, 0.02),
    (WARM, 9, 0.2),
    (WARM, 19, 0.4),
    (WARM, 20, 0.4),
    (WARM, 99, 0.4),
    (dict(WARM, **STEP), 9, 0.2),
    (dict(WARM, **STEP), 10, 0.04 * 11 / 20),
    (dict(WARM, **COSINE), 9, 0.2),
    (dict(WARM, **COSINE), 20, 0.4),
    (dict(WARM, **COSINE), 60, 0.2),
    (dict(WARM, **COSINE), 100, 0.0),
    (dict(scale_rate_with_replicas=True), 5, 1.2),
    (dict(WARM, scale_rate_with_replicas=True), 9, 0.6),
    (dict(COSINE, scale_rate_with_replicas=True), 50, 0.6),
    (dict(COSINE, warmup_steps=100), 49, 0.2),  # never leaves the warm-up
]


@pytest.mark.parametrize('changes, step, expected', CASES)
def test_rate(changes, step, expected):
    assert rate(step, **changes) == pytest.approx(expected, rel=1e-5, abs=1e-7)


@pytest.mark.parametrize('changes', [STEP, dict(WARM, **COSINE)])
def test_the_same_in_a_graph(changes):
    for step in (0, 10, 77):
        assert rate(step, in_graph=True, **changes) == pytest.approx(rate(step, **changes), rel=1e-6)
