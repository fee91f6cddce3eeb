"""Trains, evaluates and exports a job with an Estimator."""

import tensorflow as tf

from estimator_trainer.compat.fixes import sync_training, training_end
from estimator_trainer.evaluation import estimator_evaluator, exact_evaluation
from estimator_trainer.training import progress, task, watched_step


class EstimatorLoop(task.Loop):
    """One task's part of a run that Estimator trains."""

    _watch_class = watched_step.WatchedStepHook
    _evaluates_at_once = True

    def _train(self) -> None:
        estimator, spec = self._estimator(self._run_configs.own), self._train_spec()
        if self._plan.strategy in ('none', 'mirrored'):
            estimator.train(
                spec.input_fn,
                hooks=list(spec.hooks),
                max_steps=spec.max_steps,
                saving_listeners=list(spec.saving_listeners),
            )
        else:  # it brings up this task's server, and evaluates nothing
            sync_training.raise_when_a_task_is_lost()
            training_end.withhold()  # our evaluator reads training.json
            tf.estimator.train_and_evaluate(estimator, spec, tf.estimator.EvalSpec(self._eval_input_fn()))

    def _make_evaluator(self):
        return estimator_evaluator.EstimatorEvaluator(
            self._estimator(self._run_configs.local),
            self._eval_input_fn(),
            self._plan.config.eval_steps,
            self._evaluating_now,
        )

    def _estimator(self, run_config):
        return exact_evaluation.estimator_of(self._job, self._params, run_config)

    def _train_spec(self):
        plan, config = self._plan, self._plan.config
        hooks, listeners = [self._step_watch], []
        if plan.is_chief:
            listeners += [watched_step.SavedListener(self._lifeline), _EvaluatingListener(self._saved)]
            hooks.append(
                progress.ProgressHook(
                    max_steps=self._params.max_steps,
                    batch_size=plan.global_batch_size,
                    every_steps=config.log_every_steps,
                    metrics=self._metrics,
                    summary_dir=config.model_dir,
                    bar=progress.wants_bar(config.progress),
                    heard=self._lifeline.heard_rate,
                )
            )
        own_context = None
        if plan.strategy == 'parameter_server':  # no tf.distribute strategy gives one
            own_context = tf.distribute.InputContext(
                num_input_pipelines=plan.num_training_tasks,
                input_pipeline_id=plan.training_index,
                num_replicas_in_sync=1,
            )

        def input_fn(input_context=None):
            return self._input_fn(tf.estimator.ModeKeys.TRAIN, self._params.as_dict(), input_context or own_context)

        return tf.estimator.TrainSpec(
            input_fn, max_steps=self._params.max_steps, hooks=hooks, saving_listeners=listeners
        )


class _EvaluatingListener(tf.estimator.CheckpointSaverListener):
    """Tells `saved(step)` of each checkpoint but the first, which holds what training began with."""

    def __init__(self, saved):
        self._saved, self._began = saved, False

    def after_save(self, session, global_step_value):
        if self._began:
            self._saved(int(global_step_value))
        self._began = True
