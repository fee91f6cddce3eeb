"""Trains a job with an Estimator: one call of train, or of train_and_evaluate in a cluster."""

import os

import tensorflow as tf

from estimator_trainer import log
from estimator_trainer.compat.patches import estimators, sync_training, training_end
from estimator_trainer.evaluation import exact_evaluation
from estimator_trainer.run_dir import metrics_log
from estimator_trainer.sync import barriers
from estimator_trainer.training import progress, several_steps, sync_ps, watched_step


class EstimatorTrainer:
    """A trainer.Trainer."""

    evaluates_first_checkpoint = True

    def __init__(self, setup):
        self._setup = setup

    def train(self, saved) -> None:
        setup = self._setup
        estimator = exact_evaluation.estimator_of(setup.job, setup.params, setup.run_configs.own)
        if setup.plan.config.sync_ps:
            estimators.wrap_model_fn(
                estimator,
                sync_ps.with_sync_updates,
                setup.plan.training_index,
                setup.plan.num_training_tasks,
                setup.params.start_step,
                setup.plan.config.step_timeout_secs or barriers.UNBOUNDED_SECS,
            )
        several_steps.install(estimator, setup)
        spec = self._train_spec(saved)
        if not (setup.plan.is_multi_worker or setup.plan.uses_parameter_servers):
            estimator.train(
                spec.input_fn,
                hooks=list(spec.hooks),
                max_steps=spec.max_steps,
                saving_listeners=list(spec.saving_listeners),
            )
        else:  # it brings up this task's server, and evaluates nothing
            sync_training.raise_when_a_task_is_lost()
            training_end.withhold()  # our evaluator reads training.json
            eval_input_fn = exact_evaluation.input_fn(setup.input_fn, setup.params, setup.run_configs.own)
            eval_spec = tf.estimator.EvalSpec(eval_input_fn)
            tf.estimator.train_and_evaluate(estimator, spec, eval_spec)

    def _train_spec(self, saved):
        setup, plan, config = self._setup, self._setup.plan, self._setup.plan.config
        hooks, listeners = [watched_step.WatchedStepHook(setup.watch)], []
        if plan.is_chief:
            listeners += [watched_step.SavedListener(setup.lifeline), _LaterCheckpoints(saved)]
            hooks.append(
                progress.ProgressHook(
                    max_steps=setup.params.max_steps,
                    batch_size=plan.global_batch_size,
                    every_steps=config.log_every_steps,
                    metrics=metrics_log.MetricsLog(os.path.join(config.model_dir, 'metrics.jsonl')),
                    summary_dir=config.model_dir,
                    bar=log.wants_bar(config.progress),
                    heard=setup.lifeline.heard_rate,
                    counts=setup.counts,
                    waited=setup.waits.for_input,
                )
            )
        own_context = None
        if plan.uses_parameter_servers:  # no tf.distribute strategy gives one
            own_context = tf.distribute.InputContext(
                num_input_pipelines=plan.num_training_tasks,
                input_pipeline_id=plan.training_index,
                num_replicas_in_sync=plan.num_replicas,
            )

        def input_fn(input_context=None):
            context = input_context or own_context
            return setup.input_fn(tf.estimator.ModeKeys.TRAIN, setup.params.as_dict(), context, setup.run_configs.own)

        return tf.estimator.TrainSpec(
            input_fn, max_steps=setup.params.max_steps, hooks=hooks, saving_listeners=listeners
        )


class _LaterCheckpoints(tf.estimator.CheckpointSaverListener):
    """Tells `saved(step)` of each checkpoint but the first, which holds what training began with."""

    def __init__(self, saved):
        self._saved, self._began = saved, False

    def after_save(self, session, global_step_value):
        if self._began:
            self._saved(int(global_step_value))
        self._began = True
