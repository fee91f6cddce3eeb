"""Trains, evaluates and exports a job with `tf.estimator.train_and_evaluate`."""

import dataclasses
import logging
import os
from typing import Optional

import numpy as np
import tensorflow as tf

from estimator_trainer.compat import fixes
from estimator_trainer.distribute import runtime
from estimator_trainer.export import exporters
from estimator_trainer.hooks import metrics_log, parameter_server, progress

_log = logging.getLogger('estimator_trainer')
_EVALUATOR_POLL_SECS = 1
_TRAINED_SECS = 600  # between the first and the last worker that has done its last step
_EVALUATED_SECS = 6 * 3600  # the chief's evaluation and export after it


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a task has to show at its end. `metrics` are those of the last checkpoint, if this task
    evaluated it."""
    step: int
    metrics: Optional[dict]


class EstimatorLoop:
    """One task's part of a run.

    Args:
        plan: distribute.plan.Plan.
        run_configs: distribute.runtime.RunConfigs.
        job: jobs.Job.
        params: the job's params and the run's (jobs.job.RUN_PARAMS).
        input_fn: (mode, params, input_context) -> tf.data.Dataset.
        serving_input_fn: () -> ServingInputReceiver, or None.
    """

    def __init__(self, plan, run_configs, job, params, input_fn, serving_input_fn):
        self._plan, self._run_configs, self._job, self._params = plan, run_configs, job, params
        self._input_fn = input_fn
        self._evaluated = {}  # step -> metrics
        model_dir = plan.config.model_dir
        self._metrics = metrics_log.MetricsLog(os.path.join(model_dir, 'metrics.jsonl'))
        self._eval_metrics = metrics_log.MetricsLog(os.path.join(model_dir, 'eval', 'metrics.jsonl'))
        self._exporters = [exporters.EvalListener(self._heard),
                           *exporters.make(plan.config.export, job, serving_input_fn)]

    def run(self) -> Outcome:
        """Does what this task has to do, and returns when it is done."""
        plan = self._plan
        estimator = self._estimator(self._run_configs.own)
        if plan.role == 'evaluator' or not plan.has_evaluator or plan.num_training_tasks > 1 or (
                plan.cluster.ps):
            tf.estimator.train_and_evaluate(estimator, self._train_spec(), self._eval_spec())
        else:  # one process trains, another evaluates
            spec = self._train_spec()
            estimator.train(spec.input_fn, hooks=list(spec.hooks), max_steps=spec.max_steps)
        in_sync = plan.trains and plan.strategy == 'multi_worker_mirrored'
        if in_sync:
            runtime.wait_for_all('trained', _TRAINED_SECS)
        step = self._step()
        if plan.is_chief and not plan.has_evaluator and step not in self._evaluated:
            self._evaluate_last(self._estimator(self._run_configs.local))
        if in_sync and not plan.has_evaluator:  # until the chief has evaluated: it looks for us
            runtime.wait_for_all('evaluated', _EVALUATED_SECS)
        return Outcome(step, self._evaluated.get(step))

    def _estimator(self, run_config):
        if self._job.make_estimator is not None:
            estimator = self._job.make_estimator(run_config, dict(self._params))
            if estimator.config.model_dir != run_config.model_dir:
                raise ValueError('make_estimator must pass its run_config to the Estimator: '
                                 f'its model_dir is {estimator.config.model_dir}.')
            return estimator
        return tf.estimator.Estimator(_with_exact_loss(self._job.model_fn), config=run_config,
                                      params=dict(self._params))

    def _train_spec(self):
        plan, config = self._plan, self._plan.config
        hooks = []
        if plan.is_chief:
            hooks.append(progress.ProgressHook(
                max_steps=self._params['max_steps'], batch_size=plan.global_batch_size,
                every_steps=config.log_every_steps, metrics=self._metrics,
                summary_dir=config.model_dir, bar=progress.wants_bar(config.progress)))
        if plan.strategy == 'parameter_server':
            hooks.append(parameter_server.DoneHook(len(plan.cluster.ps), plan.num_training_tasks))
        own_context = None
        if plan.strategy == 'parameter_server':  # no tf.distribute strategy gives one
            own_context = tf.distribute.InputContext(
                num_input_pipelines=plan.num_training_tasks, input_pipeline_id=plan.training_index,
                num_replicas_in_sync=1)

        def input_fn(input_context=None):
            return self._input_fn(tf.estimator.ModeKeys.TRAIN, dict(self._params),
                                  input_context or own_context)

        return tf.estimator.TrainSpec(input_fn, max_steps=self._params['max_steps'], hooks=hooks)

    def _eval_spec(self):
        config = self._plan.config

        def input_fn(input_context=None):
            return self._input_fn(tf.estimator.ModeKeys.EVAL, dict(self._params), input_context)

        in_evaluator = self._plan.role == 'evaluator'
        return tf.estimator.EvalSpec(
            input_fn, steps=config.eval_steps, exporters=self._exporters, start_delay_secs=0,
            throttle_secs=_EVALUATOR_POLL_SECS if in_evaluator else config.eval_throttle_secs)

    def _evaluate_last(self, estimator) -> None:
        """Evaluates and exports the last checkpoint, as the executor of Estimator would."""
        spec = self._eval_spec()
        checkpoint = estimator.latest_checkpoint()
        results = estimator.evaluate(spec.input_fn, steps=spec.steps, checkpoint_path=checkpoint)
        for exporter in spec.exporters:
            exporter.export(estimator, os.path.join(estimator.model_dir, 'export', exporter.name),
                            checkpoint, results, is_the_final_export=True)

    def _heard(self, step, results) -> None:
        self._evaluated[step] = results
        self._eval_metrics.write('eval', step, **results)
        shown = '  '.join(f'{name} {value:.4f}' for name, value in sorted(results.items())
                          if np.ndim(value) == 0 and not isinstance(value, (bytes, str)))
        _log.info('evaluation at step %d: %s', step, shown)

    def _step(self) -> int:
        return last_step(self._plan.config.model_dir)


def last_step(model_dir: str) -> int:
    """The global step of the newest checkpoint, 0 where there is none."""
    checkpoint = tf.train.latest_checkpoint(model_dir)
    return int(tf.train.load_variable(checkpoint, 'global_step')) if checkpoint else 0


def _with_exact_loss(model_fn):
    """A model_fn whose evaluation weighs the loss of each batch by its number of examples.

    Estimator's own metric `loss` is the mean over batches: it counts a short last batch as a full
    one. Replicas that got no examples at the end of the data count nothing.
    """

    def wrapped(features, labels, mode, params):
        spec = model_fn(features, labels, mode, params)
        if mode != tf.estimator.ModeKeys.EVAL or 'loss' in (spec.eval_metric_ops or {}):
            return spec
        first = tf.nest.flatten(features)[0]
        examples = tf.cast(tf.shape(first)[0], tf.float32)
        loss = tf.where(examples > 0, tf.cast(spec.loss, tf.float32), 0.0)
        tf.compat.v1.add_to_collection(fixes.OWN_LOSS_METRIC, 1)
        return spec._replace(eval_metric_ops={
            **(spec.eval_metric_ops or {}),
            'loss': tf.compat.v1.metrics.mean(loss, weights=examples)})

    return wrapped
