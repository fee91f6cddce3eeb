"""Synchronous tasks agree on what to do next, at the same step, in band."""

import time

import tensorflow as tf

_EVERY_SECS = 0.5
_MOST_STEPS = 1000


class Agreement:
    """All-reduces what each task wishes, about twice a second.

    Make it in a hook's `begin`, in the strategy's scope, in every task; then ask in each step whether
    it is `due`, and `meet` if so. At which steps the tasks meet is decided by the chief's clock, and told in
    the same all-reduce: about 1.5 ms between local processes. Without a multi-worker strategy there is
    nobody to agree with, and nothing is reduced.

    Args:
        wishes: how many there are.
        is_chief: of the tasks exactly one.
    """

    def __init__(self, wishes: int, is_chief: bool, clock=time.monotonic):
        self._is_chief, self._clock = is_chief, clock
        self._left = 1  # steps until the tasks meet
        self._met = None  # (steps, time) at the last meeting
        self._steps = 0
        strategy = tf.distribute.get_strategy()
        self._mine = None
        if strategy.extended._in_multi_worker_mode():
            self._own_replicas = len(strategy.extended.worker_devices)  # each adds what it is fed
            self._mine = tf.compat.v1.placeholder(tf.float32, [wishes + 1])
            self._all = strategy.reduce(
                tf.distribute.ReduceOp.SUM,
                strategy.extended.call_for_each_replica(lambda: tf.identity(self._mine)), axis=None)

    def due(self) -> bool:
        """Counts a step. Whether the tasks meet now; if so, every one must call `meet`."""
        self._steps += 1
        self._left -= 1
        return self._left <= 0

    def meet(self, session, wishes) -> list:
        """Which of the wishes any task has. Every task must be here at the same step."""
        mine = [float(bool(wish)) for wish in wishes]
        if self._mine is None:
            self._left = self._next()
            return [bool(wish) for wish in mine]
        # Only the chief's number counts: rates are not the same in every task, and a task that met
        # at another step than the others would wait for ever.
        *sums, steps = session.run(self._all, {self._mine: [*mine, self._next() if self._is_chief else 0]})
        self._left = round(float(steps) / self._own_replicas)
        return [value > 0 for value in sums]

    def _next(self) -> int:
        now, steps = self._clock(), 1
        if self._met:
            secs_per_step = max(now - self._met[1], 1e-6) / max(1, self._steps - self._met[0])
            steps = min(_MOST_STEPS, max(1, int(_EVERY_SECS / secs_per_step)))
        self._met = (self._steps, now)
        return steps
