"""Upstream's defects, mended in place, the same on every TensorFlow.

Under MultiWorkerMirroredStrategy upstream
- saves no checkpoint at all when `save_summary_steps=0`,
- turns `save_checkpoints_secs` into "every 1000 steps",
- drops `TrainSpec.saving_listeners`,
- leaves `model_dir/tmp_worker_N` folders behind.

Everywhere, the metric `loss` of an evaluation counts a short last batch as much as a full one
(mended where the model_fn supplies the metric, see `keep_own_loss_metric`), and with parameter
servers a worker looks only every 30 s whether the chief has initialised the variables.
"""

import functools

OWN_LOSS_METRIC = 'estimator_trainer/own_loss_metric'
_AGREE_EVERY_STEPS = 10  # an all-reduce of one number, about 1.5 ms between local processes
_READY_POLL_SECS = 1


def apply() -> None:
    """Mends all of the above; a second call changes nothing."""
    from tensorflow.python.training import session_manager
    from tensorflow_estimator.python.estimator import estimator as estimator_lib
    from tensorflow_estimator.python.estimator import run_config, training

    from estimator_trainer.compat import estimator_training

    if getattr(estimator_lib, '_mended_by_estimator_trainer', False):
        return
    estimator_lib._mended_by_estimator_trainer = True
    for module in (estimator_lib, run_config, training):
        module.distribute_coordinator_training = estimator_training
    estimator_lib.Estimator._train_with_estimator_spec_distributed = _train_with_estimator_spec
    estimator_lib._verify_and_create_loss_metric = keep_own_loss_metric(
        estimator_lib._verify_and_create_loss_metric)
    session_manager.SessionManager.__init__ = _poll_readiness(
        session_manager.SessionManager.__init__)


def keep_own_loss_metric(original):
    """Lets a model_fn supply the evaluation metric `loss` itself.

    It says so by adding anything to the graph's collection OWN_LOSS_METRIC.
    """

    @functools.wraps(original)
    def verify(eval_metric_ops, loss, distribution=None):
        import tensorflow as tf
        if 'loss' in eval_metric_ops and tf.compat.v1.get_collection(OWN_LOSS_METRIC):
            return eval_metric_ops
        return original(eval_metric_ops, loss, distribution)

    return verify


def _poll_readiness(original):
    @functools.wraps(original)
    def init(self, *args, **kwargs):
        original(self, *args, **kwargs)
        self._recovery_wait_secs = min(self._recovery_wait_secs, _READY_POLL_SECS)

    return init


def _train_with_estimator_spec(self, estimator_spec, worker_hooks, saving_listeners):
    """The training loop of one task under MultiWorkerMirroredStrategy.

    Summaries and checkpoints may hold collective ops, so that every task computes them at the same
    steps. Only the chief writes them.
    """
    import tensorflow as tf
    from tensorflow.python.distribute import distribute_coordinator_context

    config = self._config
    is_chief = distribute_coordinator_context.get_current_worker_context().is_chief
    hooks = list(worker_hooks)
    if is_chief and config.log_step_count_steps:
        hooks.append(tf.compat.v1.train.StepCounterHook(
            output_dir=self._model_dir, every_n_steps=config.log_step_count_steps))
    if config.save_summary_steps:
        writer = None if is_chief else _NoWriter()
        hooks.append(tf.compat.v1.train.SummarySaverHook(
            scaffold=estimator_spec.scaffold, save_steps=config.save_summary_steps,
            output_dir=self._model_dir if is_chief else None, summary_writer=writer))
    own_saver = any(isinstance(h, tf.compat.v1.train.CheckpointSaverHook) for h in hooks)
    if (config.save_checkpoints_steps or config.save_checkpoints_secs) and not own_saver:
        hooks.append(_agreed_saver_class()(
            self._model_dir,
            is_chief=is_chief,
            save_secs=config.save_checkpoints_secs,
            save_steps=config.save_checkpoints_steps,
            scaffold=estimator_spec.scaffold,
            listeners=saving_listeners if is_chief else None,
            save_graph_def=config.checkpoint_save_graph_def))
    loss = None
    with tf.compat.v1.train.MonitoredTrainingSession(
            master=config.master,
            is_chief=config.is_chief,
            checkpoint_dir=self._model_dir,
            scaffold=estimator_spec.scaffold,
            hooks=hooks,
            chief_only_hooks=tuple(estimator_spec.training_chief_hooks),
            save_checkpoint_secs=None,  # by the hooks above
            save_checkpoint_steps=None,
            save_summaries_steps=None,
            save_summaries_secs=None,
            config=self._session_config,
            max_wait_secs=config.session_creation_timeout_secs,
            log_step_count_steps=None) as session:
        while not session.should_stop():
            _, loss = session.run([estimator_spec.train_op, estimator_spec.loss])
    return loss


class _NoWriter:
    """A summary writer that keeps nothing: only the computing of a summary counts."""

    def add_summary(self, *args, **kwargs):
        pass

    add_session_log = add_graph = add_meta_graph = flush = close = add_summary


@functools.lru_cache(maxsize=None)
def _agreed_saver_class():
    import tensorflow as tf

    class AgreedCheckpointSaverHook(tf.compat.v1.train.CheckpointSaverHook):
        """A CheckpointSaverHook whose tasks all save, and stop, at the same step.

        Steps are the same in every task anyway. Seconds are not: every few steps the tasks
        all-reduce what the chief's clock says. So is a listener's wish to stop training. A task
        other than the chief computes what the chief saves, and writes nothing.
        """

        def __init__(self, checkpoint_dir, is_chief, save_secs, save_steps, **kwargs):
            super().__init__(checkpoint_dir, save_secs=save_secs, save_steps=save_steps, **kwargs)
            self._is_chief = is_chief
            self._by_clock = bool(save_secs)

        def begin(self):
            if self._is_chief:
                super().begin()
            else:
                self._global_step_tensor = tf.compat.v1.train.get_global_step()
            strategy = tf.distribute.get_strategy()
            self._mine = tf.compat.v1.placeholder(tf.float32, [])
            self._all = strategy.reduce(
                tf.distribute.ReduceOp.SUM,
                strategy.extended.call_for_each_replica(lambda: tf.identity(self._mine)), axis=None)

        def after_create_session(self, session, coord):
            self._step = int(session.run(self._global_step_tensor))
            if self._is_chief:
                super().after_create_session(session, coord)
            else:
                self._values = [value.op for op in tf.compat.v1.get_default_graph().get_operations()
                                if op.type == 'SaveV2' for value in op.inputs[3:]]
                self._save(session, self._step)
                self._timer.update_last_triggered_step(self._step)

        def after_run(self, run_context, run_values):
            self._step += 1  # a synchronous step each; what was fetched may be from before it
            if self._by_clock:
                if self._step % _AGREE_EVERY_STEPS:
                    return
                wish = self._is_chief and self._timer.should_trigger_for_step(self._step)
                due = self._agree(run_context.session, wish)
            else:
                due = self._timer.should_trigger_for_step(self._step)
            if due:
                self._timer.update_last_triggered_step(self._step)
                if self._save(run_context.session, self._step):
                    run_context.request_stop()

        def before_run(self, run_context):
            return None  # the step is counted

        def _save(self, session, step):
            if self._is_chief:
                return self._agree(session, super()._save(session, step))
            session.run(self._values)
            return self._agree(session, False)

        def _agree(self, session, wish) -> bool:
            """Whether any task wishes it; every task must ask at the same step."""
            return session.run(self._all, {self._mine: float(bool(wish))}) > 0

    return AgreedCheckpointSaverHook
