"""The training loop of one task under MultiWorkerMirroredStrategy, in place of upstream's.

Touches: Estimator._train_with_estimator_spec_distributed, and private parts of CheckpointSaverHook
Without it: under MultiWorkerMirroredStrategy: no checkpoint at all when save_summary_steps=0, save_checkpoints_secs
  is "every 1000 steps", saving listeners are refused, model_dir/tmp_worker_N folders stay behind; where the data of one
  task end before those of another one, both wait for ever
For: every program
"""

from __future__ import annotations

import contextlib
import itertools
import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tensorflow as tf
from tensorflow.python.distribute import distribute_coordinator_context

from estimator_trainer.compat import agreement, lacks
from estimator_trainer.compat.patches import coordination_service, saver_hooks, session_mends
from estimator_trainer.errors import UsageError

v1 = tf.compat.v1
_BITS = 40  # of a number of steps that the chief tells
_BITS_AT_ONCE = 4
_END_OF_DATA_SECS = 120  # between two tasks whose data end with the same step; one may read more slowly
_LAST_DIGIT = 2**_BITS_AT_ONCE - 1
_ends = itertools.count(1)  # a program may train several times, in all tasks alike; a barrier has one name once


def mend(module: Any) -> None:
    """Mends `tensorflow_estimator.python.estimator.estimator`."""
    module.Estimator._train_with_estimator_spec_distributed = train


def train(
    self: Any,
    estimator_spec: tf.estimator.EstimatorSpec,
    worker_hooks: Iterable[tf.compat.v1.train.SessionRunHook],
    saving_listeners: Iterable[tf.compat.v1.train.CheckpointSaverListener] | None,
) -> Any:
    """Trains until a hook asks to stop or the data end.

    Summaries and checkpoints may hold collective ops, so that every task computes them at the same
    steps. Only the chief writes them. When a collective operation has failed, its error is raised:
    no other session can be had in this process.
    """
    session_mends.raise_every_error()
    config = self._config
    is_chief = distribute_coordinator_context.get_current_worker_context().is_chief
    hooks = list(worker_hooks)
    if is_chief and config.log_step_count_steps:
        hooks.append(v1.train.StepCounterHook(output_dir=self._model_dir, every_n_steps=config.log_step_count_steps))
    if config.save_summary_steps:
        where = saver_hooks.summaries_of_all(self._model_dir, is_chief)
        hooks.append(v1.train.SummarySaverHook(config.save_summary_steps, scaffold=estimator_spec.scaffold, **where))
    hooks, chief_hooks, savers = without_savers(hooks, estimator_spec.training_chief_hooks)
    if not saves_into(savers, self._model_dir) and (config.save_checkpoints_steps or config.save_checkpoints_secs):
        savers = [
            v1.train.CheckpointSaverHook(
                self._model_dir,
                save_secs=config.save_checkpoints_secs,
                save_steps=config.save_checkpoints_steps,
                scaffold=estimator_spec.scaffold,
                save_graph_def=config.checkpoint_save_graph_def,
            ),
            *savers,
        ]
    hooks.append(AgreedCheckpointSaverHook(savers, is_chief, estimator_spec.scaffold, saving_listeners))
    agreement.counts(step_after(estimator_spec.train_op))
    loss = None
    with _closed_if_well(
        v1.train.MonitoredTrainingSession(
            master=config.master,
            is_chief=config.is_chief,
            checkpoint_dir=self._model_dir,
            scaffold=estimator_spec.scaffold,
            hooks=hooks,
            chief_only_hooks=tuple(chief_hooks),
            save_checkpoint_secs=None,  # by the hooks above
            save_checkpoint_steps=None,
            save_summaries_steps=None,
            save_summaries_secs=None,
            config=self._session_config,
            max_wait_secs=config.session_creation_timeout_secs,
            log_step_count_steps=None,
        )
    ) as session:
        while not session.should_stop():
            _, loss = session.run([estimator_spec.train_op, estimator_spec.loss])
    return loss


def step_after(train_op: tf.Operation) -> tf.Tensor:
    """The global step when `train_op` has run, an int64 scalar of the same graph.

    A train_op may move the global step by any number: by 0 in most runs where it accumulates gradients, by 2 where two
    optimizers count it. So nobody counts calls.
    """
    step = v1.train.get_global_step()
    with tf.control_dependencies([train_op]):
        return tf.cast(tf.identity(step.read_value()), tf.int64)


@contextlib.contextmanager
def _closed_if_well(session: tf.compat.v1.Session) -> Iterator[tf.compat.v1.Session]:
    """Closes a session that has come to its end. One that failed is left to the end of the process:
    to close it may mean to wait for a task that is lost."""
    try:
        yield session
    except tf.errors.OutOfRangeError:
        wait_for_the_end_of_all_data()
    session.close()


def wait_for_the_end_of_all_data() -> None:
    """The data of this task have ended: waits until those of all others have.

    A task that has one more batch than another one waits for the sum of their gradients, without an end.

    Raises:
        UsageError: those of another task go on.
    """
    with lacks.or_without():
        try:
            barrier = f'estimator_trainer/end_of_data/{next(_ends)}'
            coordination_service.wait_at_barrier(barrier, _END_OF_DATA_SECS * 1000)
        except tf.errors.FailedPreconditionError:  # without eager execution there is no service that could be asked
            return
        except tf.errors.DeadlineExceededError:
            raise UsageError(
                'the training data of this task have ended, and those of another task have not, '
                f'{_END_OF_DATA_SECS} s later. Synchronous tasks take each step together: let the input_fn repeat its '
                'data, or give each task the same number of batches'
            ) from None


def saves_into(savers: Iterable[tf.compat.v1.train.CheckpointSaverHook], folder: str) -> bool:
    """Whether one of them saves into this folder."""
    folders = [os.path.abspath(os.fsdecode(each)) for each in (folder, *(saver._checkpoint_dir for saver in savers))]
    return folders[0] in folders[1:]


def without_savers(
    hooks: Iterable[tf.compat.v1.train.SessionRunHook], chief_hooks: Iterable[tf.compat.v1.train.SessionRunHook]
) -> tuple[
    list[tf.compat.v1.train.SessionRunHook],
    list[tf.compat.v1.train.SessionRunHook],
    list[tf.compat.v1.train.CheckpointSaverHook],
]:
    """(hooks, chief_hooks, savers): the CheckpointSaverHooks of a job's own apart from its other hooks."""

    def is_saver(hook: tf.compat.v1.train.SessionRunHook) -> bool:
        return isinstance(hook, v1.train.CheckpointSaverHook)

    hooks, chief_hooks = list(hooks), list(chief_hooks)
    savers = [hook for hook in (*hooks, *chief_hooks) if is_saver(hook)]
    saver_hooks.warn_of_overrides(savers)
    return [hook for hook in hooks if not is_saver(hook)], [hook for hook in chief_hooks if not is_saver(hook)], savers


class AgreedCheckpointSaverHook(tf.compat.v1.train.SessionRunHook):
    """Lets the chief's CheckpointSaverHooks save, and stop, at steps at which every task takes part.

    Only the chief writes. The other tasks compute what the chief saves: a variable that is averaged over the
    replicas as it is saved needs all of them. Steps are the same in every task. Seconds are not, nor is a
    listener's wish to stop training: the tasks agree on these. The chief tells the others its own steps, so
    that a hook which a job makes on the chief alone is no reason to wait for ever.

    Args:
        savers: CheckpointSaverHooks: their folders, frequencies, savers and listeners count.
        is_chief: of the tasks exactly one.
        scaffold: of the training.
        listeners: more of them, for the first of `savers`, as Estimator has it in a single process.
    """

    def __init__(
        self,
        savers: Iterable[tf.compat.v1.train.CheckpointSaverHook],
        is_chief: bool,
        scaffold: tf.compat.v1.train.Scaffold,
        listeners: Iterable[tf.compat.v1.train.CheckpointSaverListener] | None = (),
    ) -> None:
        self._savers, self._is_chief, self._scaffold = list(savers), is_chief, scaffold
        if is_chief and self._savers:
            first = self._savers[0]
            first._listeners = [*first._listeners, *(one for one in listeners or () if one not in first._listeners)]

    def begin(self) -> None:
        if self._is_chief:
            for saver in self._savers:
                saver.begin()
        self._global_step, self._step_after = v1.train.get_global_step(), agreement.step_after()
        self._participant = agreement.join(
            lambda: [self._is_due_by_clock()] + [False] * (_BITS_AT_ONCE - 1), _BITS_AT_ONCE
        )

    def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
        self._step = self._first = int(session.run(self._global_step))
        for saver in self._savers:  # under a strategy the model_fn's scaffold is another one, and never finalized
            if saver._scaffold is not None and saver._scaffold.saver is None:
                saver._scaffold = self._scaffold
        self._every_steps = self._hear_frequency(session)
        self._save(session, self._savers, lambda saver: saver.after_create_session(session, coord))

    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> tf.compat.v1.train.SessionRunArgs:
        fetches, feeds = self._participant.before_run()
        return v1.train.SessionRunArgs([fetches, self._step_after], feeds)

    def after_run(
        self, run_context: tf.compat.v1.train.SessionRunContext, run_values: tf.compat.v1.train.SessionRunValues
    ) -> None:
        heard, step = run_values.results
        before, self._step = self._step, int(step)
        by_clock = any(self._participant.after_run(heard))
        by_steps = bool(self._every_steps) and self._periods(self._step) > self._periods(before)
        if not (by_steps or by_clock):
            return
        due = [saver for saver in self._savers if saver._timer.should_trigger_for_step(self._step)]
        for saver in due:
            saver._timer.update_last_triggered_step(self._step)
        if self._save(run_context.session, due, lambda saver: saver._save(run_context.session, self._step)):
            run_context.request_stop()

    def end(self, session: tf.compat.v1.Session) -> None:
        step = int(session.run(self._global_step))
        late = [saver for saver in self._savers if saver._timer.last_triggered_step() != step]
        self._save(session, late, lambda saver: saver._save(session, step))
        if self._is_chief:
            for saver in self._savers:
                for listener in saver._listeners:
                    listener.end(session, step)

    def _periods(self, step: int) -> int:
        return (step - self._first) // self._every_steps

    def _is_due_by_clock(self) -> bool:
        """Whether any saver is the chief's, and due by the clock after the next step."""
        return self._is_chief and any(
            saver._timer._every_secs and saver._timer.should_trigger_for_step(self._step) for saver in self._savers
        )

    def _hear_frequency(self, session: tf.compat.v1.Session) -> int:
        """The greatest number of steps that divides those of all the chief's savers; 0 if none goes by steps. The
        chief tells it, a few bits at a time."""
        steps = math.gcd(*(_whole(saver._timer._every_steps) for saver in self._savers)) if self._is_chief else 0
        return sum(
            self._hear_digit(session, steps >> first & _LAST_DIGIT) << first for first in range(0, _BITS, _BITS_AT_ONCE)
        )

    def _hear_saver(self, session: tf.compat.v1.Session, number: int | None) -> int | None:
        """The number of the chief's saver that saves next, None where none is left: one digit for up to 14 savers."""
        left, heard = 0 if number is None else number + 1, 0
        while True:
            digit = self._hear_digit(session, min(left, _LAST_DIGIT))
            left, heard = max(0, left - digit), heard + digit
            if digit < _LAST_DIGIT:
                return heard - 1 if heard else None

    def _hear_digit(self, session: tf.compat.v1.Session, digit: int) -> int:
        """The chief's `digit`; the others say 0."""
        agreed = self._participant.meet(session, [bool(digit >> bit & 1) for bit in range(_BITS_AT_ONCE)])
        return sum(1 << bit for bit, is_set in enumerate(agreed) if is_set)

    def _save(
        self,
        session: tf.compat.v1.Session,
        savers: Iterable[tf.compat.v1.train.CheckpointSaverHook],
        save: Callable[[tf.compat.v1.train.CheckpointSaverHook], Any],
    ) -> bool:
        """Lets each of the chief's `savers` save, while the others compute what it does. Whether a listener wants
        to stop training."""
        left, stops = [self._savers.index(saver) for saver in savers] if self._is_chief else [], False
        while True:
            number = self._hear_saver(session, left.pop(0) if left else None)
            if number is None:
                return stops
            stop = False
            if self._is_chief:
                stop = save(self._savers[number])
            else:
                session.run(self._values(number))
            stops = bool(self._hear_digit(session, int(bool(stop)))) or stops

    def _values(self, number: int) -> list[tf.Operation]:
        """What the chief's saver of this number reads, in this task's graph."""
        return saver_hooks.values_of(self._savers[number] if number < len(self._savers) else None)


def _whole(steps: float | None) -> int:
    """Steps between two checkpoints, which may be a number such as 1e3; 0: never."""
    return math.ceil(steps) if steps and math.isfinite(steps) else 0
