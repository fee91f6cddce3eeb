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
        self._alone = not strategy.extended._in_multi_worker_mode()
        if not self._alone:
            self._own_replicas = len(strategy.extended.worker_devices)  # each adds what it is fed
            self._build(strategy, wishes + 1)

    def _build(self, strategy, numbers) -> None:
        self._mine = tf.compat.v1.placeholder(tf.float32, [numbers])
        self._all = strategy.reduce(
            tf.distribute.ReduceOp.SUM,
            strategy.extended.call_for_each_replica(lambda: tf.identity(self._mine)), axis=None)

    def _sum(self, session, mine) -> list:
        return session.run(self._all, {self._mine: mine})

    @property
    def left(self) -> int:
        """Steps until the tasks meet, at least 1."""
        return max(1, self._left)

    def due(self, steps: int = 1) -> bool:
        """Counts steps. Whether the tasks meet now; if so, every one must call `meet`."""
        self._steps += steps
        self._left -= steps
        return self._left <= 0

    def meet(self, session, wishes) -> list:
        """Which of the wishes any task has. Every task must be here at the same step."""
        mine = [float(bool(wish)) for wish in wishes]
        if self._alone:
            self._left = self._next()
            return [bool(wish) for wish in mine]
        # Only the chief's number counts: rates are not the same in every task, and a task that met
        # at another step than the others would wait for ever.
        *sums, steps = self._sum(session, [*mine, float(self._next()) if self._is_chief else 0.0])
        self._left = round(float(steps) / self._own_replicas)
        return [value > 0 for value in sums]

    def _next(self) -> int:
        now, steps = self._clock(), 1
        if self._met:
            secs_per_step = max(now - self._met[1], 1e-6) / max(1, self._steps - self._met[0])
            steps = min(_MOST_STEPS, max(1, int(_EVERY_SECS / secs_per_step)))
        self._met = (self._steps, now)
        return steps


class EagerAgreement(Agreement):
    """The same where there is no session: `meet` is given None."""

    def _build(self, strategy, numbers):
        @tf.function(input_signature=[tf.TensorSpec([numbers], tf.float32)])
        def add_up(mine):
            return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, (mine,)),
                                   axis=None)

        self._add_up = add_up

    def _sum(self, session, mine):
        return self._add_up(tf.constant(mine, tf.float32)).numpy().tolist()
