"""The training loop of one task under MultiWorkerMirroredStrategy, in place of upstream's."""

import contextlib

import tensorflow as tf
from tensorflow.python.distribute import distribute_coordinator_context
from tensorflow.python.training import monitored_session

from estimator_trainer.compat import agreement


def train(self, estimator_spec, worker_hooks, saving_listeners):
    """Trains until a hook asks to stop or the data end.

    Summaries and checkpoints may hold collective ops, so that every task computes them at the same
    steps. Only the chief writes them. When a collective operation has failed, its error is raised:
    no other session can be had in this process (see `raise_when_a_task_is_lost`).
    """
    raise_when_a_task_is_lost()
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
        hooks.append(AgreedCheckpointSaverHook(
            self._model_dir,
            is_chief=is_chief,
            save_secs=config.save_checkpoints_secs,
            save_steps=config.save_checkpoints_steps,
            scaffold=estimator_spec.scaffold,
            listeners=saving_listeners if is_chief else None,
            save_graph_def=config.checkpoint_save_graph_def))
    loss = None
    with _closed_if_well(tf.compat.v1.train.MonitoredTrainingSession(
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
            log_step_count_steps=None)) as session:
        while not session.should_stop():
            _, loss = session.run([estimator_spec.train_op, estimator_spec.loss])
    return loss


@contextlib.contextmanager
def _closed_if_well(session):
    """Closes a session that has come to its end. One that failed is left to the end of the process:
    to close it may mean to wait for a task that is lost."""
    try:
        yield session
    except tf.errors.OutOfRangeError:  # the data have ended
        pass
    session.close()


class _NoWriter:
    """A summary writer that keeps nothing: only the computing of a summary counts."""

    def add_summary(self, *args, **kwargs):
        pass

    add_session_log = add_graph = add_meta_graph = flush = close = add_summary


def raise_when_a_task_is_lost() -> None:
    """Lets a session raise what upstream takes for a preemption it can recover from.

    It makes a new session, for ever: with a strategy the process has to be started again, and a
    parameter server that comes back has lost its variables.
    """
    monitored_session._PREEMPTION_ERRORS = ()


class AgreedCheckpointSaverHook(tf.compat.v1.train.CheckpointSaverHook):
    """A CheckpointSaverHook whose tasks all save, and stop, at the same step.

    Steps are the same in every task anyway. Seconds are not, nor is a listener's wish to stop
    training: the tasks agree on these. A task other than the chief computes what the chief saves,
    and writes nothing.
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
        self._voice = agreement.join(lambda: [self._is_due()], 1)

    def after_create_session(self, session, coord):
        self._step = int(session.run(self._global_step_tensor))
        if self._is_chief:
            super().after_create_session(session, coord)
        else:
            self._values = [value.op for op in tf.compat.v1.get_default_graph().get_operations()
                            if op.type == 'SaveV2' for value in op.inputs[3:]]
            self._save(session, self._step)
            self._timer.update_last_triggered_step(self._step)

    def before_run(self, run_context):
        return tf.compat.v1.train.SessionRunArgs(*self._voice.before_run())

    def after_run(self, run_context, run_values):
        self._step += 1  # a synchronous step each; what was fetched may be from before it
        due, = self._voice.after_run(run_values.results)
        if not self._by_clock:
            due = self._timer.should_trigger_for_step(self._step)
        if due:
            self._timer.update_last_triggered_step(self._step)
            if self._save(run_context.session, self._step):
                run_context.request_stop()

    def _is_due(self) -> bool:
        """Whether this task wishes to save after the next step."""
        return self._by_clock and self._is_chief and self._timer.should_trigger_for_step(self._step)

    def _save(self, session, step):
        stop = False
        if self._is_chief:
            stop = super()._save(session, step)
        else:
            session.run(self._values)
        return self._voice.meet(session, [stop])[0]
