"""Early stopping under strategies.

`make_early_stopping_hook` tests a generator expression, which is always true: under any strategy it
takes the path of MultiWorkerMirroredStrategy, and that refuses its own default of `run_every_secs`.
"""

import functools
import time

_AGREE_EVERY_STEPS = 10  # an all-reduce of one number, about 1.5 ms between local processes
_MULTI_WORKER = ('CollectiveAllReduceStrategy', 'MultiWorkerMirroredStrategy')


def make_hook(upstream):
    """`make_early_stopping_hook` for the module `upstream`."""
    original = upstream.make_early_stopping_hook

    @functools.wraps(original)
    def make_early_stopping_hook(estimator, should_stop_fn, run_every_secs=60, run_every_steps=None):
        config = getattr(estimator, 'config', None)
        strategy = getattr(config, 'train_distribute', None)
        if strategy is None or (run_every_secs and run_every_steps):
            return original(estimator, should_stop_fn, run_every_secs, run_every_steps)
        if type(strategy).__name__.startswith(_MULTI_WORKER) or not config.cluster_spec:
            return _agreed_hook_class()(should_stop_fn, run_every_secs, run_every_steps)
        if config.is_chief:
            return upstream._StopOnPredicateHook(should_stop_fn, run_every_secs, run_every_steps)
        return upstream._CheckForStoppingHook()

    return make_early_stopping_hook


@functools.lru_cache(maxsize=None)
def _agreed_hook_class():
    import tensorflow as tf

    class AgreedStopHook(tf.compat.v1.train.SessionRunHook):
        """Stops all workers at the same step, as soon as one of them would stop.

        They ask each other at the same steps, which they count themselves: a step that is fetched may
        be from before the step. A clock only decides whether a worker looks. No variable is made for
        it, so that it works on a model_dir that was begun without it.
        """

        def __init__(self, should_stop_fn, every_secs, every_steps):
            if not callable(should_stop_fn):
                raise TypeError('`should_stop_fn` must be callable.')
            self._should_stop = should_stop_fn
            self._every_secs = every_secs
            self._every_steps = every_steps
            self._looked = None

        def begin(self):
            self._global_step = tf.compat.v1.train.get_global_step()
            strategy = tf.distribute.get_strategy()
            self._alone = not strategy.extended._in_multi_worker_mode()
            if self._alone:
                return
            self._mine = tf.compat.v1.placeholder(tf.float32, [])
            self._all = strategy.reduce(
                tf.distribute.ReduceOp.SUM,
                strategy.extended.call_for_each_replica(lambda: tf.identity(self._mine)), axis=None)

        def after_create_session(self, session, coord):
            self._step = int(session.run(self._global_step))

        def after_run(self, run_context, run_values):
            self._step += 1
            if self._step % (self._every_steps or (1 if self._alone else _AGREE_EVERY_STEPS)):
                return
            wish = self._is_time() and self._should_stop()
            if not self._alone:
                wish = run_context.session.run(self._all, {self._mine: float(bool(wish))}) > 0
            if wish:
                tf.compat.v1.logging.info('Stops early at step %d.', self._step)
                run_context.request_stop()

        def _is_time(self) -> bool:
            now = time.monotonic()
            if self._every_secs and self._looked is not None and now - self._looked < self._every_secs:
                return False
            self._looked = now
            return True

    return AgreedStopHook
