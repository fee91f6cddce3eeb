"""Synchronous tasks agree on what to do next: all of them hear the same after the same step.

A task that stops or saves alone leaves the others in a collective operation that never ends. So each
says what it wishes, the wishes are added up over all tasks, and everybody does what any of them wishes.
"""

import functools
import time

import numpy as np
import tensorflow as tf

from estimator_trainer.sync import all_reduce

_EVERY_SECS = 0.5
_MOST_STEPS = 10  # ten steps that have become slow have to fit into the grace period
_MOST_WISHES = 16  # of all hooks of a task together


def with_the_loss(original):
    """Wraps `Estimator._actual_train_model_distributed`: the wishes travel with the loss.

    Estimator all-reduces the loss in each step, for its reports alone. A few more numbers in the same
    operation cost nothing that could be measured; one more all-reduce in each step makes the steps of a
    small model 15 % slower.
    """

    @functools.wraps(original)
    def train(self, strategy, *args, **kwargs):
        if not strategy.extended._in_multi_worker_mode():
            return original(self, strategy, *args, **kwargs)
        losses, call_model_fn, reduce = [], self._call_model_fn, strategy.reduce

        def call_and_keep_loss(*args, **kwargs):
            spec = call_model_fn(*args, **kwargs)
            losses.append(spec.loss)
            return spec

        def reduce_with_wishes(reduce_op, value, axis):
            first = strategy.experimental_local_results(value)[0]
            if not any(first is loss for loss in losses):
                return reduce(reduce_op, value, axis=axis)
            mine = placeholder()
            with_wishes = strategy.extended.call_for_each_replica(
                lambda loss: tf.concat([[loss], tf.cast(mine, loss.dtype)], 0), args=(value,)
            )
            with all_reduce.of_each_step():
                total = reduce(reduce_op, with_wishes, axis=None)
            wishes = total[1:]
            if reduce_op == tf.distribute.ReduceOp.MEAN:
                wishes *= tf.cast(strategy.num_replicas_in_sync, wishes.dtype)
            of_graph(lambda: _add_up(strategy, mine), mine, wishes)
            return total[0]

        self._call_model_fn, strategy.reduce = call_and_keep_loss, reduce_with_wishes
        try:
            return original(self, strategy, *args, **kwargs)
        finally:
            del self._call_model_fn, strategy.reduce

    return train


def placeholder():
    """Of this task's wishes, for `of_graph`."""
    return tf.compat.v1.placeholder_with_default(np.zeros(_MOST_WISHES, np.float32), [_MOST_WISHES], name='wishes')


def join(wishes, count: int) -> 'Voice':
    """The voice of one hook, called in its `begin`, in the strategy's scope, in every task.

    Args:
        wishes: () -> `count` values, each true where this task wishes it now, or a number that one task alone says
            (`Voice.numbers`). Called in each step.
    """
    graph, strategy = tf.compat.v1.get_default_graph(), tf.distribute.get_strategy()
    if not hasattr(graph, '_agreement'):
        if not strategy.extended._in_multi_worker_mode():
            return Voice(None, wishes, slice(0, count))
        mine = placeholder()  # nobody reduces a loss here
        of_graph(lambda: _add_up(strategy, mine), mine, None)
    return graph._agreement.join(wishes, count)


def in_step():
    """The tensor in which each training step of this graph adds up the wishes, or None."""
    found = getattr(tf.compat.v1.get_default_graph(), '_agreement', None)
    return found and found.in_step


def now_in_step(tensor) -> None:
    """From here on it is this tensor: the step has become another one."""
    tf.compat.v1.get_default_graph()._agreement.in_step = tensor


def of_graph(add_up, mine, in_step) -> None:
    """Lets the hooks of this graph agree. The arguments are those of Agreement."""
    tf.compat.v1.get_default_graph()._agreement = Agreement(add_up, mine, in_step)


def _add_up(strategy, mine):
    return strategy.reduce(
        tf.distribute.ReduceOp.SUM, strategy.extended.call_for_each_replica(lambda: tf.identity(mine)), axis=None
    )


class Agreement:
    """What the hooks of all synchronous tasks wish. There is one in a graph.

    Args:
        add_up: () -> the sums of `mine` over all tasks, as an operation of its own.
        mine: placeholder of this task's wishes.
        in_step: the sums over all tasks, which each training step computes; None: it runs that
            operation.
    """

    def __init__(self, add_up, mine, in_step):
        self._mine, self.in_step = mine, in_step
        self._add_up, self._apart = add_up, None
        self._voices, self._count = [], 0
        self.sums = None  # of the wishes of all tasks before the last step

    def join(self, wishes, count) -> 'Voice':
        if self._apart is None:
            self._apart = self._add_up()
            if self.in_step is None:
                self.in_step = self._apart
        places = slice(self._count, self._count + count)
        self._count = places.stop
        assert self._count <= _MOST_WISHES
        self._voices.append(Voice(self, wishes, places))
        return self._voices[-1]

    def before_run(self, voice) -> tuple:
        """(what is to be fetched, what is to be fed): the first voice's part is that of all."""
        if voice is not self._voices[0]:
            return [], None
        mine = np.zeros(_MOST_WISHES, np.float32)
        for each in self._voices:
            mine[each.places] = [float(wish) for wish in each.wishes()]
        return self.in_step, {self._mine: mine}

    def after_run(self, voice, fetched) -> None:
        if voice is self._voices[0]:
            self.sums = np.asarray(fetched, np.float64)

    def meet(self, session, voice, wishes) -> list:
        mine = np.zeros(_MOST_WISHES, np.float32)
        mine[voice.places] = [bool(wish) for wish in wishes]
        return [value > 0 for value in session.run(self._apart, {self._mine: mine})[voice.places]]


class Voice:
    """What one hook has to say, and hears. Alone there is nobody to agree with, and nothing is reduced.

    Attributes:
        wishes: () -> this task's.
        places: where they stand among those of all hooks.
    """

    def __init__(self, agreement, wishes, places):
        self._agreement, self.wishes, self.places = agreement, wishes, places

    def before_run(self) -> tuple:
        """(what to fetch, what to feed) in a hook's SessionRunArgs, in each step."""
        return self._agreement.before_run(self) if self._agreement else ([], None)

    def after_run(self, fetched) -> list:
        """Takes what was fetched. Returns which of the wishes any task had before this step; alone, those
        that this one has now."""
        if not self._agreement:
            return [bool(wish) for wish in self.wishes()]
        self._agreement.after_run(self, fetched)
        return [value > 0 for value in self._agreement.sums[self.places]]

    def numbers(self) -> list:
        """The numbers that one task has wished, where the others have wished 0."""
        own_replicas = len(tf.distribute.get_strategy().extended.worker_devices)  # each adds what its task is fed
        return [round(value / own_replicas) for value in self._agreement.sums[self.places]]

    def meet(self, session, wishes) -> list:
        """Agrees between two steps. Every task must be here at the same step."""
        if not self._agreement:
            return [bool(wish) for wish in wishes]
        return self._agreement.meet(session, self, wishes)


class EagerAgreement:
    """The same for loops without a session, whose steps end in Python.

    To meet is a call of its own, of about 1.5 ms between local processes. So the tasks meet about twice a
    second, but in every tenth step at the latest: steps may become slower at any time. The chief's clock
    decides on the next meeting, and tells it in this one. A process alone looks at every step.

    Make it in the strategy's scope, in every task; then ask in each step whether it is `due`, and `meet`
    if so.

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
        @tf.function(input_signature=[tf.TensorSpec([numbers], tf.float32)])
        def add_up(mine):
            return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, (mine,)), axis=None)

        self._add_up = add_up

    def due(self, steps: int = 1) -> bool:
        """Counts steps. Whether the tasks meet now; if so, every one must call `meet`."""
        self._steps += steps
        self._left -= steps
        return self._alone or self._left <= 0

    def meet(self, wishes) -> list:
        """Which of the wishes any task has. Every task must be here at the same step."""
        mine = [float(bool(wish)) for wish in wishes]
        if self._alone:
            return [bool(wish) for wish in mine]
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
