"""Trains, evaluates and exports a job with `tf.estimator.train_and_evaluate`."""

import contextlib
import dataclasses
import fcntl
import inspect
import logging
import os
from typing import Optional

import tensorflow as tf

from estimator_trainer.compat import fixes
from estimator_trainer.config import UsageError
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
    evaluated it; `exports` says whether the run has any."""
    step: int
    metrics: Optional[dict]
    exports: bool


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
        in_cluster = plan.num_training_tasks > 1 or bool(plan.cluster.ps)
        estimator = self._estimator(self._run_configs.own)
        if plan.role == 'evaluator' or (not in_cluster and not plan.has_evaluator):
            with self._evaluating() as mine:
                if mine:
                    tf.estimator.train_and_evaluate(estimator, self._train_spec(), self._eval_spec())
                    self._evaluate_last()
                elif plan.role == 'evaluator':
                    raise UsageError(f'--model_dir={estimator.model_dir}: another process evaluates this '
                                     'run already. List the evaluator in TF_CONFIG of every task.')
                else:
                    self._train(estimator)
        elif in_cluster:
            self._train_in_cluster(estimator)
        else:
            self._train(estimator)
        step = last_step(plan.config.model_dir)
        return Outcome(step, self._evaluated.get(step), len(self._exporters) > 1)

    def _train(self, estimator) -> None:
        """Trains in one process, which another evaluates."""
        spec = self._train_spec()
        estimator.train(spec.input_fn, hooks=list(spec.hooks), max_steps=spec.max_steps)

    def _train_in_cluster(self, estimator) -> None:
        """Trains as one of several tasks; the chief evaluates at the end if there is no evaluator."""
        plan = self._plan
        tf.estimator.train_and_evaluate(estimator, self._train_spec(), self._eval_spec())
        in_sync = plan.strategy == 'multi_worker_mirrored'
        if in_sync:
            runtime.wait_for_all('trained', _TRAINED_SECS)
        else:
            parameter_server.tell_done(plan.cluster.ps, plan.num_training_tasks)
        if plan.has_evaluator:
            return
        if plan.is_chief:
            with self._evaluating() as mine:
                if mine:
                    self._evaluate_last()
                else:
                    _log.info('evaluation: another process does it')
        if in_sync:  # the others stay until the chief has evaluated: it would take them for lost
            runtime.wait_for_all('evaluated', _EVALUATED_SECS)

    @contextlib.contextmanager
    def _evaluating(self):
        """Holds the run's evaluation, of which one process is the owner. Yields whether it is ours.

        An evaluator that TF_CONFIG's cluster does not list is unknown to the chief otherwise.
        """
        folder = os.path.join(self._plan.config.model_dir, 'eval')
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, '.lock'), 'w') as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
            else:
                yield True

    def _estimator(self, run_config):
        if self._job.make_estimator is None:
            return tf.estimator.Estimator(_with_exact_loss(self._job.model_fn), config=run_config,
                                          params=dict(self._params))
        estimator = self._job.make_estimator(run_config, dict(self._params))
        if estimator.config.model_dir != run_config.model_dir:
            raise ValueError('make_estimator must pass its run_config to the Estimator: '
                             f'its model_dir is {estimator.config.model_dir}.')
        estimator._model_fn = _with_exact_loss(estimator._model_fn)
        return estimator

    def _train_spec(self):
        plan, config = self._plan, self._plan.config
        hooks = []
        if plan.is_chief:
            hooks.append(progress.ProgressHook(
                max_steps=self._params['max_steps'], batch_size=plan.global_batch_size,
                every_steps=config.log_every_steps, metrics=self._metrics,
                summary_dir=config.model_dir, bar=progress.wants_bar(config.progress)))
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
            batches = self._input_fn(tf.estimator.ModeKeys.EVAL, dict(self._params), input_context)
            return _for_all(batches, input_context.num_replicas_in_sync if input_context else 1)

        in_evaluator = self._plan.role == 'evaluator'
        return tf.estimator.EvalSpec(
            input_fn, steps=config.eval_steps, exporters=self._exporters, start_delay_secs=0,
            throttle_secs=_EVALUATOR_POLL_SECS if in_evaluator else config.eval_throttle_secs)

    def _evaluate_last(self) -> None:
        """Evaluates and exports the last checkpoint, unless this has been done."""
        step = last_step(self._plan.config.model_dir)
        done_before = [line['step'] for line in self._eval_metrics.read()[-1:]]
        if step in self._evaluated or (done_before == [step] and self._params['start_step'] == step):
            return
        estimator, spec = self._estimator(self._run_configs.local), self._eval_spec()
        checkpoint = estimator.latest_checkpoint()
        results = estimator.evaluate(spec.input_fn, steps=spec.steps, checkpoint_path=checkpoint)
        for exporter in spec.exporters:
            exporter.export(estimator, os.path.join(estimator.model_dir, 'export', exporter.name),
                            checkpoint, results, is_the_final_export=True)

    def _heard(self, step, results) -> None:
        self._evaluated[step] = results
        self._eval_metrics.write('eval', step, results)
        _log.info('evaluation at step %d: %s', step, metrics_log.shown(results))


def last_step(model_dir: str) -> int:
    """The global step of the newest checkpoint, 0 where there is none."""
    checkpoint = tf.train.latest_checkpoint(model_dir)
    return int(tf.train.load_variable(checkpoint, 'global_step')) if checkpoint else 0


def _for_all(batches, replicas: int):
    """The batches of an evaluation, and empty ones for replicas that would get none in the last step.

    Where one replica is at the end of the data, Estimator ends the step for all of them, and the last
    examples may or may not have been counted.
    """
    if replicas == 1:
        return batches
    empty = batches.take(1).map(lambda *batch: tf.nest.map_structure(
        lambda tensor: tensor[:0], batch if len(batch) > 1 else batch[0]))
    return batches.concatenate(empty.repeat(replicas - 1))


def _with_exact_loss(model_fn):
    """A model_fn whose evaluation weighs the loss of each batch by its number of examples.

    Estimator's own metric `loss` is the mean over batches: it counts a short last batch as a full
    one. Replicas that got no examples at the end of the data count nothing.
    """
    takes = inspect.signature(model_fn).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in takes.values())

    def wrapped(features, labels, mode, params, config):
        given = dict(labels=labels, mode=mode, params=params, config=config)
        if labels is not None and 'labels' not in takes and not takes_all:
            raise ValueError('The model_fn takes no labels, but the input_fn gives some.')
        spec = model_fn(features, **{name: value for name, value in given.items()
                                     if takes_all or name in takes})
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
