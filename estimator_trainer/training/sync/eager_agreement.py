"""Synchronous tasks agree on what to do next, in loops without a session. For sessions: compat/agreement.py."""

import time

import tensorflow as tf

_EVERY_SECS = 0.5
_MOST_STEPS = 10  # ten steps that have become slow have to fit into the grace period


class EagerAgreement:
    """The same for loops without a session, whose steps end in Python.

    To meet is a call of its own, of about 1.5 ms between local processes. So the tasks meet about twice a
    second, but in every tenth step at the latest: steps may become slower at any time. The chief's clock
    decides on the next meeting, and tells it in this one.

    Make it in the strategy's scope, in every task; then call `agree` after each step or call of several.

    Args:
        wishes: how many there are.
        is_chief: of the tasks exactly one.
    """

    def __init__(self, wishes: int, is_chief: bool, clock=time.monotonic):
        self._is_chief, self._clock = is_chief, clock
        self._left = 1  # steps until the tasks meet
        self._met = None  # (steps, time) at the last meeting
        self._steps = 0
        self._build(tf.distribute.get_strategy(), wishes + 1)

    def _build(self, strategy, numbers) -> None:
        self._own_replicas = len(strategy.extended.worker_devices)  # each adds what it is fed

        @tf.function(input_signature=[tf.TensorSpec([numbers], tf.float32)])
        def add_up(mine):
            return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, (mine,)), axis=None)

        self._add_up = add_up

    def agree(self, wishes, steps: int) -> list | None:
        """Which of the wishes any task has; None where the tasks do not meet after these steps.

        Args:
            wishes: () -> this task's, where they meet.
            steps: since the last call of this.
        """
        self._steps += steps
        self._left -= steps
        return self._meet(wishes()) if self._left <= 0 else None

    def _meet(self, wishes) -> list:
        mine = [float(bool(wish)) for wish in wishes]
        # Only the chief's number counts: rates are not the same in every task, and a task that met
        # at another step than the others would wait for ever.
        *sums, steps = self._sum([*mine, float(self._next()) if self._is_chief else 0.0])
        self._left = round(float(steps) / self._own_replicas)
        return [value > 0 for value in sums]

    def _sum(self, mine) -> list:
        return self._add_up(tf.constant(mine, tf.float32)).numpy().tolist()

    def _next(self) -> int:
        now, steps = self._clock(), 1
        if self._met:
            secs_per_step = max(now - self._met[1], 1e-6) / max(1, self._steps - self._met[0])
            steps = min(_MOST_STEPS, max(1, int(_EVERY_SECS / secs_per_step)))
        self._met = (self._steps, now)
        return steps
