"""Synchronous tasks agree on what to do next: all of them hear the same after the same step of a session.

Touches: the attribute _agreement, which a graph gets
Without it: the hooks of a graph do not find each other: each would add up its wishes in an all-reduce of its own
For: the trainer and every program

A task that stops or saves alone leaves the others in a collective operation that never ends. So each task says what it
wishes, the wishes are added up over all tasks, and all tasks do what any of them wishes. Programs that run under
`compat` need this as well as the trainer's Estimators. `EagerAgreement` is for loops without a session.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

_MOST_WISHES = 16  # of all hooks of a task together
_EVERY_SECS = 0.5  # between two meetings without a session
_MOST_STEPS = 10  # between them: ten steps that have become slow have to fit into the grace period
_STEP_AFTER = 'estimator_trainer/step_after'


def placeholder() -> tf.Tensor:
    """A placeholder of this task's wishes, for `of_graph`."""
    return tf.compat.v1.placeholder_with_default(np.zeros(_MOST_WISHES, np.float32), [_MOST_WISHES], name='wishes')


def join(wishes: Callable[[], Sequence[Any]], count: int) -> Participant:
    """For one hook, called in its `begin`, in the strategy's scope, in every task.

    Args:
        wishes: () -> `count` values, each true where this task wishes it now, or a number that one task alone says
            (`Participant.numbers`). Called in each step.
    """
    graph, strategy = tf.compat.v1.get_default_graph(), tf.distribute.get_strategy()
    if not hasattr(graph, '_agreement'):
        if not has_several_tasks(strategy):
            return Participant(None, wishes, slice(0, count))
        own_wishes = placeholder()  # nobody reduces a loss here
        of_graph(lambda: add_up(strategy, own_wishes), own_wishes, None)
    return graph._agreement.join(wishes, count)


def counts(step_after: tf.Tensor) -> None:
    """Tells the hooks of this graph the tensor that is the global step after a call. A call may move it by any number,
    and a hook that fetches the variable may read it before the call has moved it."""
    tf.compat.v1.get_collection_ref(_STEP_AFTER)[:] = [step_after]


def step_after() -> tf.Tensor | None:
    """The global step after a call, to be fetched with it; None: nobody has told it."""
    return next(iter(tf.compat.v1.get_collection(_STEP_AFTER)), None)


def in_step() -> tf.Tensor | None:
    """The tensor in which each training step of this graph adds up the wishes, or None."""
    agreement = getattr(tf.compat.v1.get_default_graph(), '_agreement', None)
    return agreement and agreement.in_step


def now_in_step(tensor: tf.Tensor) -> None:
    """Says that it is this tensor now: the step has become another one."""
    tf.compat.v1.get_default_graph()._agreement.in_step = tensor


def of_graph(add_up: Callable[[], tf.Tensor], own_wishes: tf.Tensor, in_step: tf.Tensor | None) -> None:
    """Lets the hooks of this graph agree. The arguments are those of Agreement."""
    tf.compat.v1.get_default_graph()._agreement = Agreement(add_up, own_wishes, in_step)


def add_up(strategy: tf.distribute.Strategy, own_wishes: tf.Tensor) -> tf.Tensor:
    """The sums of `own_wishes` over all tasks, as an operation of its own."""
    return strategy.reduce(
        tf.distribute.ReduceOp.SUM, strategy.extended.call_for_each_replica(lambda: tf.identity(own_wishes)), axis=None
    )


class Agreement:
    """What the hooks of all synchronous tasks wish. There is one in a graph.

    Args:
        add_up: () -> the sums of `own_wishes` over all tasks, as an operation of its own.
        own_wishes: placeholder of this task's wishes.
        in_step: the sums over all tasks, which each training step computes; None: it runs that
            operation.
    """

    def __init__(self, add_up: Callable[[], tf.Tensor], own_wishes: tf.Tensor, in_step: tf.Tensor | None) -> None:
        self._own_wishes, self.in_step = own_wishes, in_step
        self._add_up = add_up
        self._apart: tf.Tensor | None = None
        self._participants: list[Participant] = []
        self._count = 0
        self.sums: Any = None  # of the wishes of all tasks before the last step

    def join(self, wishes: Callable[[], Sequence[Any]], count: int) -> Participant:
        if self._apart is None:
            self._apart = self._add_up()
            if self.in_step is None:
                self.in_step = self._apart
        places = slice(self._count, self._count + count)
        self._count = places.stop
        assert self._count <= _MOST_WISHES
        self._participants.append(Participant(self, wishes, places))
        return self._participants[-1]

    def before_run(self, participant: Participant) -> tuple:
        """(what is to be fetched, what is to be fed): the first one's part is that of all."""
        if participant is not self._participants[0]:
            return [], None
        own_wishes = np.zeros(_MOST_WISHES, np.float32)
        for each in self._participants:
            own_wishes[each.places] = [float(wish) for wish in each.wishes()]
        return self.in_step, {self._own_wishes: own_wishes}

    def after_run(self, participant: Participant, fetched: np.ndarray) -> None:
        if participant is self._participants[0]:
            self.sums = np.asarray(fetched, np.float64)

    def meet(self, session: tf.compat.v1.Session, participant: Participant, wishes: Sequence[Any]) -> list:
        own_wishes = np.zeros(_MOST_WISHES, np.float32)
        own_wishes[participant.places] = [bool(wish) for wish in wishes]
        return [value > 0 for value in session.run(self._apart, {self._own_wishes: own_wishes})[participant.places]]


class Participant:
    """What one hook has to say, and hears. Alone there is nobody to agree with, and nothing is reduced.

    Attributes:
        wishes: () -> this task's.
        places: where they stand among those of all hooks.
    """

    def __init__(self, agreement: Agreement | None, wishes: Callable[[], Sequence[Any]], places: slice) -> None:
        self._agreement, self.wishes, self.places = agreement, wishes, places

    def before_run(self) -> tuple:
        """(what to fetch, what to feed) in a hook's SessionRunArgs, in each step."""
        return self._agreement.before_run(self) if self._agreement else ([], None)

    def after_run(self, fetched: np.ndarray) -> list:
        """Takes what was fetched. Returns which of the wishes any task had before this step; alone, those
        that this one has now."""
        if not self._agreement:
            return [bool(wish) for wish in self.wishes()]
        self._agreement.after_run(self, fetched)
        return [value > 0 for value in self._agreement.sums[self.places]]

    def numbers(self) -> list:
        """The numbers that one task has wished, where the others have wished 0."""
        assert self._agreement is not None
        own_replicas = 1  # each adds what its task is fed
        if tf.distribute.has_strategy():  # there is none with parameter servers
            own_replicas = len(tf.distribute.get_strategy().extended.worker_devices)
        return [round(value / own_replicas) for value in self._agreement.sums[self.places]]

    def meet(self, session: tf.compat.v1.Session, wishes: Sequence[Any]) -> list:
        """Agrees between two steps. Every task must be here at the same step."""
        if not self._agreement:
            return [bool(wish) for wish in wishes]
        return self._agreement.meet(session, self, wishes)


class EagerAgreement:
    """Lets tasks without a session agree, whose steps end in Python.

    To meet is a call of its own, of about 1.5 ms between local processes. So the tasks meet about twice a
    second, but in every tenth step at the latest: steps may become slower at any time. The chief's clock
    decides on the next meeting, and tells it in this one.

    Make it in the strategy's scope, in every task; then call `agree` after each step or call of several.

    Args:
        wishes: how many there are.
        is_chief: of the tasks exactly one.
    """

    def __init__(self, wishes: int, is_chief: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._is_chief, self._clock = is_chief, clock
        self._left = 1  # steps until the tasks meet
        self._met: tuple[int, float] | None = None  # (steps, time) at the last meeting
        self._steps = 0
        self._build(tf.distribute.get_strategy(), wishes + 1)

    def _build(self, strategy: tf.distribute.Strategy, numbers: int) -> None:
        self._own_replicas = len(strategy.extended.worker_devices)  # each adds what it is fed

        @tf.function(input_signature=[tf.TensorSpec([numbers], tf.float32)])
        def add_up(own_wishes: tf.Tensor) -> tf.Tensor:
            return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(tf.identity, (own_wishes,)), axis=None)

        self._add_up = add_up

    def agree(self, wishes: Callable[[], Sequence[Any]], steps: int) -> list | None:
        """Which of the wishes any task has; None where the tasks do not meet after these steps.

        Args:
            wishes: () -> this task's, where they meet.
            steps: since the last call of this.
        """
        self._steps += steps
        self._left -= steps
        return self._meet(wishes()) if self._left <= 0 else None

    def _meet(self, wishes: Sequence[Any]) -> list:
        own_wishes = [float(bool(wish)) for wish in wishes]
        # Only the chief's number counts: rates are not the same in every task, and a task that met
        # at another step than the others would wait for ever.
        *sums, steps = self._sum([*own_wishes, float(self._next()) if self._is_chief else 0.0])
        self._left = round(float(steps) / self._own_replicas)
        return [value > 0 for value in sums]

    def _sum(self, own_wishes: list[float]) -> list:
        return self._add_up(tf.constant(own_wishes, tf.float32)).numpy().tolist()

    def _next(self) -> int:
        now, steps = self._clock(), 1
        if self._met:
            secs_per_step = max(now - self._met[1], 1e-6) / max(1, self._steps - self._met[0])
            steps = min(_MOST_STEPS, max(1, int(_EVERY_SECS / secs_per_step)))
        self._met = (self._steps, now)
        return steps


def has_several_tasks(strategy: tf.distribute.Strategy) -> bool:
    """Whether the replicas of a strategy are in several tasks.

    Touches: StrategyExtended._in_multi_worker_mode, which TensorFlow asks itself
    Without it: the tasks agree in an all-reduce of their own also where there is one task, or never where there are
      several
    For: the trainer and every program
    """
    return strategy.extended._in_multi_worker_mode()
