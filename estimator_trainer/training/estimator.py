"""Trains a job with an Estimator: one call of train, or of train_and_evaluate in a cluster."""

import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from estimator_trainer.compat import agreement, lacks
from estimator_trainer.compat.patches import estimators, optimizer_parts, saver_hooks, sync_training, training_end
from estimator_trainer.evaluation import exact_evaluation
from estimator_trainer.jobs.job_types import Estimator, EstimatorSpec
from estimator_trainer.training import (
    batch_reads,
    coordination,
    from_memory,
    graph_rewrites,
    messages,
    params_of_run,
    replica_effects,
    several_steps,
    step_graph,
    sync_ps,
    transfers,
    unrun_updates,
)
from estimator_trainer.training.accumulated_steps import Accumulation
from estimator_trainer.training.dues import save_rule
from estimator_trainer.training.loop import Loop
from estimator_trainer.training.plan import Plan
from estimator_trainer.training.session_hook import SessionHook
from estimator_trainer.training.trainer import Setup

_log = logging.getLogger('estimator_trainer')
v1 = tf.compat.v1


class EstimatorTrainer:
    """A trainer.Trainer."""

    evaluates_first_checkpoint = True

    def __init__(self, setup: Setup):
        self._setup = setup
        self._batches: list[tf.data.Dataset] = []  # what the input_fn has returned

    def train(self, saved: Callable[[int], object]) -> None:
        setup, plan = self._setup, self._setup.plan
        estimator = exact_evaluation.estimator_of(setup.job, setup.params, setup.run_configs.own)
        accumulation = None
        if plan.config.accumulate_steps > 1:
            accumulation = Accumulation(plan.config.accumulate_steps)
            estimators.wrap_model_fn(estimator, accumulation.of_model_fn)
        if plan.config.sync_ps:
            estimators.wrap_model_fn(
                estimator,
                sync_ps.with_sync_updates,
                plan.training_index,
                plan.num_training_tasks,
                setup.params.start_step,
                plan.config.step_timeout_secs or coordination.UNBOUNDED_SECS,
            )
        optimizer_parts.note_gradients()
        train_by_loop(estimator, setup, saved, accumulation, self._batches)
        max_steps = setup.params.max_steps
        if not (plan.is_multi_worker or plan.uses_parameter_servers):
            estimator.train(self._input_fn, max_steps=max_steps)
        else:  # it brings up this task's server, and evaluates nothing
            training_end.withhold()  # our evaluator reads training.json
            eval_input_fn = exact_evaluation.input_fn(setup.input_fn, setup.params, setup.run_configs.own)
            tf.estimator.train_and_evaluate(
                estimator,
                tf.estimator.TrainSpec(self._input_fn, max_steps=max_steps),
                tf.estimator.EvalSpec(eval_input_fn),
            )
        setup.loop.check_trained()

    def _input_fn(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        setup, plan = self._setup, self._setup.plan
        if plan.uses_parameter_servers and not input_context:  # no tf.distribute strategy gives one
            input_context = tf.distribute.InputContext(
                num_input_pipelines=plan.num_training_tasks,
                input_pipeline_id=plan.training_index,
                num_replicas_in_sync=plan.num_replicas,
            )
        params = params_of_run.of_input_fn(setup.params, plan)
        batches = setup.input_fn(tf.estimator.ModeKeys.TRAIN, params, input_context, setup.run_configs.own)
        self._batches.append(batches)
        return batches


def train_by_loop(
    estimator: Estimator,
    setup: Setup,
    saved: Callable[[int], object],
    accumulation: Accumulation | None = None,
    batches: Sequence[tf.data.Dataset] = (),
) -> None:
    """Lets `estimator` train as `setup.loop` says.

    Args:
        setup: trainer.Setup.
        saved: (step) -> None, called on the chief when it has saved a checkpoint after the first one, which holds what
            training began with.
        accumulation: Accumulation of its model_fn; None: each batch is a step.
        batches: what its input_fn has returned when the graph of a step is there; none: tf.data reads them.
    """
    training = _Training(setup, saved, accumulation, batches)
    estimators.replace_training(estimator, training.prepare, training.in_step)


class _Training:
    """What our Estimator does in place of upstream's private methods."""

    def __init__(
        self,
        setup: Setup,
        saved: Callable[[int], object],
        accumulation: Accumulation | None,
        batches: Sequence[tf.data.Dataset],
    ):
        self._setup, self._plan, self._saved, self._accumulation = setup, setup.plan, saved, accumulation
        self._batches = batches

    def prepare(
        self,
        original: Callable[..., Any],
        estimator: Estimator,
        spec: EstimatorSpec,
        worker_hooks: Sequence[tf.compat.v1.train.SessionRunHook],
        hooks: Sequence[tf.compat.v1.train.SessionRunHook],
        global_step: tf.Tensor,
        saving_listeners: Sequence[tf.compat.v1.train.CheckpointSaverListener],
    ) -> Any:
        """The graph of a step is there. `original` makes a session, and trains; with a MultiWorkerMirroredStrategy
        it calls `in_step` for that."""
        plan, config = self._plan, estimator.config
        hooks_of_job = [*hooks, *spec.training_hooks, *spec.training_chief_hooks]  # worker_hooks are Estimator's own
        estimators.mend_summary_of_replicas(spec.scaffold)
        has_savers = any(isinstance(hook, v1.train.CheckpointSaverHook) for hook in hooks_of_job)
        train_op = spec.train_op if isinstance(spec.train_op, tf.Operation) else spec.train_op.op
        if plan.is_chief:
            unrun_updates.warn(spec, hooks_of_job)
            replica_effects.warn([train_op], plan, self._setup.job.model_fn or self._setup.job.make_estimator)
            replica_effects.say_batch_normalization((variable.name for variable in v1.global_variables()), plan)
            with lacks.or_without():
                messages.say_kept(saver_hooks.numbers_kept(spec.scaffold, hooks_of_job), config.keep_checkpoint_max)
        ends, may_read_batches = [train_op, spec.loss.op], several_steps.may_read_batches(hooks_of_job, spec.scaffold)
        counts = self._accumulation and self._accumulation.counts_examples
        taken = None if may_read_batches or counts else from_memory.take_over(self._batches, plan, ends)
        if not plan.uses_parameter_servers:
            step_graph.wait_for_batch(ends, hooks_of_job)
        reads = None
        if may_read_batches and plan.num_replicas == 1 and not plan.uses_parameter_servers:
            reads = batch_reads.count_reads(ends)
        wait = step_graph.measured_wait(step_graph.needed(ends)) if plan.is_chief else None
        if self._accumulation:
            wait = self._accumulation.build(train_op, wait, taken.reads if taken else ())
            if self._accumulation.has_ordered_calls:
                several_steps.keep_calls_together(estimator)
        several, why = several_steps.make(
            self._setup, config, spec, hooks_of_job, wait, sync_training.step_after(train_op)
        )
        if plan.in_sync:
            has_savers, why = _of_all(plan, has_savers, why)
        summaries: list[tf.compat.v1.train.SessionRunHook] = []
        calls = None
        if several and why is None:
            spec, wait, summaries = several.take_over(estimator)
            calls = several.calls
        elif why and plan.is_chief:
            _log.info('one step a call: %s', why)
        if why is not None and config.save_summary_steps and not plan.uses_parameter_servers:
            summaries = [self._summaries_of_steps(estimator, spec)]
        step_after = sync_training.step_after(spec.train_op)
        agreement.counts(step_after)
        if plan.uses_parameter_servers:
            with lacks.or_without():
                transfers.bundle([spec.train_op, spec.loss])
        rewrites = graph_rewrites.ask_for(estimator, plan)
        rule = save_rule(plan.config)._replace(steps=config.save_checkpoints_steps, secs=config.save_checkpoints_secs)
        if taken and from_memory.wait() is not None:
            wait = tf.constant(from_memory.wait())
        self._hook = SessionHook(self._setup, rule, step_after, wait, calls, reads, taken)
        saver_hooks.watch_listeners(hooks_of_job, self._hook.listener_stops)
        listeners = []
        if plan.is_chief or plan.in_sync:
            listeners = [_SavedListener(self._setup.loop, self._saved, self._hook.batches_beside)]
        if not has_savers and any(rule):
            if listeners:
                self._hook.saver = saver_hooks.CheckpointSaver(
                    estimator.model_dir, spec.scaffold, listeners, plan.is_chief, config.checkpoint_save_graph_def
                )
            listeners = []
            estimators.replace_config(estimator, save_checkpoints_steps=None, save_checkpoints_secs=None)
        # Ours come before the hooks of the job, one of which may save what a step has computed. Upstream has those of
        # the chief first, but last under a MultiWorkerMirroredStrategy.
        ours = [self._hook, *summaries, *rewrites]
        if plan.is_multi_worker or plan.uses_parameter_servers:
            hooks = [*ours, *hooks]
        else:
            spec = spec._replace(training_chief_hooks=[*ours, *spec.training_chief_hooks])
        return original(spec, worker_hooks, hooks, global_step, listeners)

    def _summaries_of_steps(self, estimator: Estimator, spec: EstimatorSpec) -> tf.compat.v1.train.SessionRunHook:
        """The hook that writes them, in the place of the one that Estimator would make."""
        steps = estimator.config.save_summary_steps
        estimators.replace_config(estimator, save_summary_steps=0)
        where = saver_hooks.summaries_of_all(estimator.model_dir, self._plan.is_chief)
        return saver_hooks.SummarySaver(
            lambda: self._setup.loop.step + 1, save_steps=steps, scaffold=spec.scaffold, **where
        )

    def in_step(
        self,
        estimator: Estimator,
        spec: EstimatorSpec,
        worker_hooks: Sequence[tf.compat.v1.train.SessionRunHook],
        saving_listeners: Sequence[tf.compat.v1.train.CheckpointSaverListener],
    ) -> float | None:
        """Trains under a MultiWorkerMirroredStrategy until a hook asks to stop or the data end.

        Summaries and checkpoints may hold collective operations, so that every task computes them at the same steps.
        Only the chief writes them.
        """
        config, hooks, chief_hooks = estimator.config, list(worker_hooks), spec.training_chief_hooks
        if saving_listeners:  # the job has savers of its own, at least in another task
            hooks, chief_hooks, savers = sync_training.without_savers(hooks, chief_hooks)
            hooks.append(
                sync_training.AgreedCheckpointSaverHook(savers, self._plan.is_chief, spec.scaffold, saving_listeners)
            )
        session = v1.train.MonitoredTrainingSession(
            master=config.master,
            is_chief=config.is_chief,
            checkpoint_dir=estimator.model_dir,
            scaffold=spec.scaffold,
            hooks=hooks,
            chief_only_hooks=tuple(chief_hooks),
            save_checkpoint_secs=None,  # by the hooks above
            save_checkpoint_steps=None,
            save_summaries_steps=None,
            save_summaries_secs=None,
            config=config.session_config,
            max_wait_secs=config.session_creation_timeout_secs,
            log_step_count_steps=config.log_step_count_steps,
        )
        loss = None
        try:
            while not session.should_stop():
                _, loss = session.run([spec.train_op, spec.loss])
        except tf.errors.OutOfRangeError:
            sync_training.wait_for_the_end_of_all_data()
        # A session that has failed is left to the end of the process: to close it may mean to wait for a lost task.
        session.close()
        return loss


class _SavedListener(tf.estimator.CheckpointSaverListener):
    """Lets no weight that is not finite any more into a checkpoint, and tells of each.

    Args:
        loop: loop.Loop.
        saved: (step) -> None, is told of each but the first, which holds what training began with.
        batches_beside: of SessionHook.
    """

    def __init__(
        self, loop: Loop, saved: Callable[[int], object], batches_beside: Callable[[tf.compat.v1.Session], float]
    ):
        self._loop, self._saved, self._batches_beside, self._began = loop, saved, batches_beside, False

    def begin(self) -> None:
        self._finite = {
            variable.op.name: tf.reduce_all(tf.math.is_finite(variable))
            for variable in v1.trainable_variables()
            if variable.dtype.base_dtype.is_floating
        }

    def before_save(self, session: tf.compat.v1.Session, global_step_value: int) -> None:
        weights = [(name, bool(np.all(finite))) for name, finite in sorted(session.run(self._finite).items())]
        if not self._loop.batches:
            self._loop.not_finite = {name for name, is_finite in weights if not is_finite}
        self._loop.saves(int(global_step_value), weights, self._batches_beside(session))

    def after_save(self, session: tf.compat.v1.Session, global_step_value: int) -> None:
        self._loop.saved(int(global_step_value))
        if self._began:
            self._saved(int(global_step_value))
        self._began = True


def _of_all(plan: Plan, has_savers: bool, why: str | None) -> tuple[bool, str | None]:
    """Whether any of the synchronous tasks has a CheckpointSaverHook of the job's, and what any of them has against
    calls of several steps: all of them do the same. A job may have hooks on the chief alone."""
    coordination.tell(f'calls/{plan.training_index}', json.dumps([has_savers, why]))
    coordination.wait_for_all('calls', plan.config.step_timeout_secs or coordination.UNBOUNDED_SECS)
    of_tasks = [json.loads(coordination.hear(f'calls/{index}')) for index in range(plan.num_training_tasks)]
    return any(has for has, _ in of_tasks), next((reason for _, reason in of_tasks if reason is not None), None)
