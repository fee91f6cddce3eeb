"""Lets Estimator's hooks for early stopping work under every strategy.

Touches: early_stopping.make_early_stopping_hook of Estimator, _StopOnPredicateHook and _CheckForStoppingHook
Without it: stop_if_*_hook with default arguments raises under any strategy
For: every program

`make_early_stopping_hook` tests a generator expression, which is always true: under any strategy it takes the path of
MultiWorkerMirroredStrategy, and that refuses its own default of `run_every_secs`.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import tensorflow as tf

_MULTI_WORKER = ('CollectiveAllReduceStrategy', 'MultiWorkerMirroredStrategy')


def mend(upstream: Any) -> None:
    """Mends `tensorflow_estimator.python.estimator.early_stopping`."""
    original = upstream.make_early_stopping_hook

    @functools.wraps(original)
    def make_early_stopping_hook(
        estimator: tf.estimator.Estimator,
        should_stop_fn: Callable[[], bool],
        run_every_secs: float | None = 60,
        run_every_steps: int | None = None,
    ) -> tf.compat.v1.train.SessionRunHook:
        config: Any = getattr(estimator, 'config', None)
        strategy = getattr(config, 'train_distribute', None)
        refused = not isinstance(estimator, upstream.estimator_lib.Estimator) or (
            run_every_secs is not None and run_every_steps is not None
        )
        if strategy is None or refused:
            return original(estimator, should_stop_fn, run_every_secs, run_every_steps)
        if type(strategy).__name__.startswith(_MULTI_WORKER) or not config.cluster_spec:
            return _agreed_hook_class()(should_stop_fn, run_every_secs, run_every_steps)
        if config.is_chief:
            return upstream._StopOnPredicateHook(should_stop_fn, run_every_secs, run_every_steps)
        return upstream._CheckForStoppingHook()

    upstream.make_early_stopping_hook = make_early_stopping_hook


@functools.cache
def _agreed_hook_class() -> type:
    import tensorflow as tf

    from estimator_trainer.compat import agreement

    class AgreedStopHook(tf.compat.v1.train.SessionRunHook):
        """Stops all workers at the same step, as soon as one of them would stop.

        Where steps decide when to look, the workers ask each other after these. Where a clock does, a wish
        is known to all after the next step. No variable is made for it, so that it works on a model_dir that was
        begun without it.
        """

        def __init__(
            self, should_stop_fn: Callable[[], bool], every_secs: float | None, every_steps: int | None
        ) -> None:
            if not callable(should_stop_fn):
                raise TypeError('`should_stop_fn` must be callable.')
            tf.compat.v1.train.SecondOrStepTimer(every_secs, every_steps)  # refuses what upstream's refuses
            self._should_stop = should_stop_fn
            self._every_secs = every_secs
            self._every_steps = every_steps
            self._looked: float | None = None

        def begin(self) -> None:
            self._global_step, self._step_after = tf.compat.v1.train.get_global_step(), agreement.step_after()
            self._participant = agreement.join(
                lambda: [not self._every_steps and self._is_time() and self._should_stop()], 1
            )

        def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
            self._step = int(session.run(self._global_step))

        def before_run(self, run_context: tf.compat.v1.train.SessionRunContext) -> tf.compat.v1.train.SessionRunArgs:
            fetches, feeds = self._participant.before_run()
            return tf.compat.v1.train.SessionRunArgs([fetches, self._steps_after()], feeds)

        def after_run(
            self, run_context: tf.compat.v1.train.SessionRunContext, run_values: tf.compat.v1.train.SessionRunValues
        ) -> None:
            heard, step = run_values.results
            before = self._step
            self._step = int(step[0] if step else run_context.session.run(self._global_step))
            (stop,) = self._participant.after_run(heard)
            if self._every_steps and self._step // self._every_steps > before // self._every_steps:
                (stop,) = self._participant.meet(run_context.session, [self._should_stop()])
            if stop:
                tf.compat.v1.logging.info('Stops early at step %d.', self._step)
                run_context.request_stop()

        def _steps_after(self) -> list:
            """What a call has to fetch to know the global step after it; []: it is read after the call."""
            return [] if self._step_after is None else [self._step_after]

        def _is_time(self) -> bool:
            now = time.monotonic()
            if self._every_secs and self._looked is not None and now - self._looked < self._every_secs:
                return False
            self._looked = now
            return True

    return AgreedStopHook
