"""Hooks that save and write summaries when their owner says so, in every task that has a part in it.

Touches: CheckpointSaverHook._timer, _get_saver, _save and _listeners, SummarySaverHook._next_step
Without it: these hooks ask the session for the step after each call, miss steps within one, and one task alone computes
  what needs all of them
For: the trainer and every program
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf

v1 = tf.compat.v1
_log = logging.getLogger('estimator_trainer')


class CheckpointSaver(tf.compat.v1.train.CheckpointSaverHook):
    """Upstream's, whose owner says when it saves.

    Args:
        folder: of the checkpoints.
        scaffold: of the training.
        listeners: CheckpointSaverListeners.
        writes: whether this task writes. Others compute what the one that writes saves: a variable that is averaged
            over the replicas as it is saved needs all of them.
        graph_too: whether the graph is written as well.
    """

    def __init__(
        self,
        folder: str,
        scaffold: tf.compat.v1.train.Scaffold,
        listeners: Iterable[tf.compat.v1.train.CheckpointSaverListener],
        writes: bool,
        graph_too: bool,
    ) -> None:
        super().__init__(folder, save_steps=1, scaffold=scaffold, listeners=listeners, save_graph_def=graph_too)
        self._writes = writes

    def begin(self) -> None:
        if self._writes:
            super().begin()

    def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
        if self._writes:
            super().after_create_session(session, coord)
        else:
            session.run(values_of(self))
            self._timer.update_last_triggered_step(int(session.run(v1.train.get_global_step())))

    def save(self, session: tf.compat.v1.Session, step: int) -> None:
        """Saves after this step, unless it has saved it already. Every task that takes part calls it."""
        if step != self._timer.last_triggered_step():
            self._timer.update_last_triggered_step(step)
            self._save(session, step)

    def _save(self, session: tf.compat.v1.Session, step: int) -> Any:
        if self._writes:
            return super()._save(session, step)
        session.run(values_of(self))
        return False

    def end(self, session: tf.compat.v1.Session) -> None:
        step = int(session.run(v1.train.get_global_step()))
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        if self._writes:
            for listener in self._listeners:
                listener.end(session, step)


def watch_listeners(hooks: Iterable[tf.compat.v1.train.SessionRunHook], stops: Callable[[], object]) -> None:
    """Calls `stops()` when a listener of one of the CheckpointSaverHooks among `hooks` asks to stop training."""
    for saver in hooks:
        if isinstance(saver, v1.train.CheckpointSaverHook):
            saver._listeners = [_Watched(listener, stops) for listener in saver._listeners]


class _Watched(tf.compat.v1.train.CheckpointSaverListener):
    """A listener, and who is told when it asks to stop."""

    def __init__(self, listener: tf.compat.v1.train.CheckpointSaverListener, stops: Callable[[], object]) -> None:
        self._listener, self._stops = listener, stops
        self.begin, self.before_save, self.end = listener.begin, listener.before_save, listener.end

    def after_save(self, session: tf.compat.v1.Session, global_step_value: int) -> Any:
        stop = self._listener.after_save(session, global_step_value)
        if stop:
            self._stops()
        return stop

    def __eq__(self, other: object) -> bool:  # Estimator adds a listener only once
        return other is self or other is self._listener

    def __hash__(self) -> int:
        return hash(self._listener)


def numbers_kept(scaffold: tf.compat.v1.train.Scaffold, hooks: Iterable[tf.compat.v1.train.SessionRunHook]) -> set[int]:
    """How many checkpoints the job's own Savers keep; 0: all. Those of its CheckpointSaverHooks, or, if it has none,
    that of its Scaffold or of the collection SAVERS.

    Touches: Saver._max_to_keep, CheckpointSaverHook._saver and _scaffold
    Without it: nothing says that --keep_checkpoints does not count
    For: the trainer
    """
    own = [hook for hook in hooks if isinstance(hook, v1.train.CheckpointSaverHook)]
    given = [hook._saver or getattr(hook._scaffold, 'saver', None) for hook in own]
    savers = given or [scaffold.saver or next(iter(v1.get_collection(v1.GraphKeys.SAVERS)), None)]
    numbers = {
        saver.saver_def.max_to_keep if saver.saver_def else saver._max_to_keep
        for saver in savers
        if isinstance(saver, v1.train.Saver)
    }
    return {number or 0 for number in numbers}


def warn_of_overrides(savers: Iterable[tf.compat.v1.train.CheckpointSaverHook]) -> None:
    """Says which methods of a job's own savers nobody calls, where the tasks agree on when to save."""
    for kind in {type(saver): None for saver in savers}:
        plain = v1.train.CheckpointSaverHook
        own = [name for name in ('before_run', 'after_run', 'end') if getattr(kind, name) is not getattr(plain, name)]
        if own:
            _log.warning(
                'WARNING: %s of the CheckpointSaverHook %s: not called under MultiWorkerMirroredStrategy, where such a '
                'hook only saves, at steps that all tasks agree on. What else it does belongs into a hook of another '
                'class, or into a CheckpointSaverListener',
                ' and '.join(own),
                kind.__name__,
            )


def values_of(saver: tf.compat.v1.train.CheckpointSaverHook | None) -> list:
    """What a CheckpointSaverHook of the task that writes reads, in this task's graph. None: of any saver there."""
    scope = saver._get_saver().saver_def.save_tensor_name.rpartition('/')[0] if saver else ''
    return [
        value.op
        for op in v1.get_default_graph().get_operations()
        if op.type == 'SaveV2' and op.name.startswith(scope and f'{scope}/')
        for value in op.inputs[3:]
    ]


class SummarySaver(tf.compat.v1.train.SummarySaverHook):
    """Upstream's, told of the steps by its owner. Upstream's own takes the global step from beside the update: which of
    its steps have summaries depends on chance.

    Args:
        next_step: () -> the global step with which the next call ends.
        kwargs: of v1.train.SummarySaverHook.
    """

    _next_step: int | None

    def __init__(self, next_step: Callable[[], int], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._given = next_step

    def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> tf.compat.v1.train.SessionRunArgs:
        if self._next_step is not None:  # else it is the first call
            self._next_step = self._given()
        return super().before_run(run_context)


class _NoWriter:
    """A summary writer that keeps nothing: only the computing of a summary counts."""

    def add_summary(self, *args: Any, **kwargs: Any) -> None:
        pass

    add_session_log = add_graph = add_meta_graph = flush = close = add_summary


def summaries_of_all(folder: str, writes: bool) -> dict:
    """Arguments of a SummarySaverHook that every task has, and of which one writes: summaries may hold collectives."""
    return {'output_dir': folder} if writes else {'summary_writer': _NoWriter()}


def scalar_writer(folder: str, tag: str) -> Callable[[int, float], None]:
    """(step, value) -> None, writes a number into the events of a session."""

    def write(step: int, value: float) -> None:
        summary = v1.Summary(value=[v1.Summary.Value(tag=tag, simple_value=value)])
        v1.summary.FileWriterCache.get(folder).add_summary(summary, step)

    return write
