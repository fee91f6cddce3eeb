"""One task's part of a run, whichever loop trains: who trains, who evaluates, when all of it is over."""

import contextlib
import dataclasses
import fcntl
import logging
import os
import time
from typing import Optional

import tensorflow as tf

from estimator_trainer import checkpoints, early_stopping, protocol
from estimator_trainer.config import UsageError
from estimator_trainer.distribute import runtime
from estimator_trainer.export import exporters
from estimator_trainer.hooks import metrics_log, parameter_server, watched_step
from estimator_trainer.loops import continuous_evaluation, exact_evaluation
from estimator_trainer.watch import peers, training

_log = logging.getLogger('estimator_trainer')
_TRAINED_SECS = 600  # between the first and the last worker that has done its last step
_EVALUATED_SECS = 6 * 3600  # the chief's evaluation and export after it


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a task has to show at its end.

    Attributes:
        metrics: of the last checkpoint, if this task evaluated it.
        exports: whether the run has any.
        why: what ended training: max_steps, early_stopping, max_secs, end_of_data; None for a task
            that does not train.
        stopped_by: the signal that did, with a checkpoint saved.
    """
    step: int
    metrics: Optional[dict]
    exports: bool
    why: Optional[str] = None
    stopped_by: Optional[int] = None


class Loop:
    """One task's part of a run. A loop fills in how it trains and how it evaluates.

    Args:
        plan: distribute.plan.Plan.
        lifeline: watch.lifeline.Lifeline.
        started: when the run was first started, seconds since the epoch.
        run_configs: distribute.runtime.RunConfigs.
        job: jobs.Job.
        params: the job's params and the run's (jobs.job.RUN_PARAMS).
        input_fn: (mode, params, input_context) -> tf.data.Dataset.
        serving_input_fn: () -> ServingInputReceiver, or None.
    """
    # Whether _train_and_evaluate exports the checkpoint of max_steps as the final one.
    _exports_the_last_itself = False
    _watch_class = watched_step.StepWatch

    def __init__(self, plan, lifeline, started, run_configs, job, params, input_fn,
                 serving_input_fn):
        self._plan, self._run_configs, self._job, self._params = plan, run_configs, job, params
        self._lifeline, self._started, self._input_fn = lifeline, started, input_fn
        self._evaluated = {}  # step -> metrics
        model_dir = plan.config.model_dir
        self._metrics = metrics_log.MetricsLog(os.path.join(model_dir, 'metrics.jsonl'))
        self._eval_metrics = metrics_log.MetricsLog(os.path.join(model_dir, 'eval', 'metrics.jsonl'))
        self._exporters = [exporters.EvalListener(self._heard),
                           *exporters.make(plan.config.export, job, serving_input_fn)]
        self._step_watch = self._watch_class(
            lifeline, plan.is_chief, plan.asynchronous, self._reason_to_stop, params.get('start_step', 0))

    def _train_and_evaluate(self) -> None:
        """Trains in one process, and evaluates on the way."""
        raise NotImplementedError

    def _train(self) -> None:
        """Trains in one process, which another evaluates."""
        raise NotImplementedError

    def _train_as_task(self) -> None:
        """Trains as one of several tasks."""
        raise NotImplementedError

    def _model_to_evaluate(self):
        """An Estimator, or what evaluates and exports checkpoints like one, of this process alone."""
        raise NotImplementedError

    def run(self) -> Outcome:
        """Does what this task has to do, and returns when it is done."""
        plan = self._plan
        if plan.role == 'evaluator':
            self._evaluate_continuously()
        elif plan.num_training_tasks > 1 or plan.cluster.ps:
            self._train_in_cluster()
        elif plan.has_evaluator:
            self._train()
            self._training_ended()
        else:
            self._train_alone()
        step = checkpoints.last_step(plan.config.model_dir)
        return Outcome(step, self._evaluated.get(step), len(self._exporters) > 1,
                       self._why(step) if plan.trains else None, self._lifeline.stopped_by)

    def _train_alone(self) -> None:
        """Trains in one process, which evaluates as well unless another does."""
        with self._evaluating() as mine:
            if mine:
                self._train_and_evaluate()
                if not self._lifeline.stopped_by:
                    self._evaluate_last()
            else:
                self._train()
        self._training_ended()

    def _train_in_cluster(self) -> None:
        """Trains as one of several tasks; the chief evaluates at the end if there is no evaluator."""
        plan = self._plan
        self._train_as_task()
        in_sync = plan.strategy == 'multi_worker_mirrored'
        if in_sync:
            runtime.wait_for_all('trained', _TRAINED_SECS)
        else:
            parameter_server.tell_left(plan.cluster.ps, plan.training_index,
                                       done=not self._lifeline.stopped_by)
        if plan.is_chief or not in_sync or self._lifeline.stopped_by or plan.has_evaluator:
            self._lifeline.release_peers()  # the chief evaluates alone
        if self._lifeline.stopped_by or plan.has_evaluator:
            self._training_ended()
            return
        self._lifeline.enter(protocol.EVALUATING)
        if plan.is_chief:
            with self._evaluating() as mine:
                if mine:
                    self._evaluate_last()
                else:
                    _log.info('evaluation: another process does it')
        if in_sync:  # the others stay until the chief has evaluated: it would take them for lost
            self._wait_until_evaluated()
        self._lifeline.release_peers()
        self._training_ended()

    def _wait_until_evaluated(self) -> None:
        try:
            runtime.wait_for_all('evaluated', _EVALUATED_SECS)
        except tf.errors.OpError as error:
            if not self._plan.is_chief:
                raise
            _log.warning('a worker has left before the evaluation was done: %s',
                         error.message.splitlines()[0])

    def _training_ended(self) -> None:
        """Lets the evaluator and the supervisor know."""
        if self._lifeline.stopped_by:
            self._lifeline.finish(protocol.STOPPED)
        else:
            self._lifeline.finish(
                protocol.ENDED, self._why(checkpoints.last_step(self._plan.config.model_dir)))

    def _why(self, step) -> str:
        reached = step >= self._params['max_steps']
        return 'max_steps' if reached else self._step_watch.why or 'end_of_data'

    def _reason_to_stop(self) -> Optional[str]:
        config = self._plan.config
        if config.max_secs and time.time() - self._started >= config.max_secs:
            return watched_step.MAX_SECS
        rule = config.stop_rule
        if rule and early_stopping.decided(rule, config.model_dir):
            return watched_step.EARLY_STOPPING
        return None

    def _evaluate_continuously(self) -> None:
        config = self._plan.config
        watch = training.TrainingWatch(
            self._params['max_steps'], config.join_timeout_secs, config.lost_peer_secs,
            os.environ.get(protocol.GENERATION, ''),
            lambda: protocol.read_json(os.path.join(config.model_dir, protocol.TRAINING_FILE)))
        with self._evaluating() as mine:
            if not mine:
                raise UsageError(f'--model_dir={config.model_dir}: another process evaluates this run '
                                 'already. List the evaluator in TF_CONFIG of every task.')
            continuous_evaluation.ContinuousEvaluation(
                self._model_to_evaluate, self._eval_spec(), watch,
                self._params['max_steps'], self._evaluated_before(), self._refuses_another_folder(watch)).run()

    def _refuses_another_folder(self, watch):
        """What the evaluator asks each time round: does the chief live, and write into another model_dir?"""
        plan = self._plan
        chief = plan.cluster.chief_task
        if chief is None:
            return lambda: None
        address = plan.cluster.addresses(chief.role)[chief.index]
        folder = training.FolderWatch(
            lambda: watch.seen, lambda: peers.answers(address), plan.config.join_timeout_secs / 2)

        def look():
            if folder.is_elsewhere():
                raise UsageError(f'{plan.task} does not find in --model_dir={plan.config.model_dir} what the chief '
                                 f'{chief} at {address} writes there: the folder is not shared. Name one on '
                                 'storage that every task sees at this path.')

        return look

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

    def _eval_spec(self):
        config = self._plan.config

        def input_fn(input_context=None):
            batches = self._input_fn(tf.estimator.ModeKeys.EVAL, dict(self._params), input_context)
            return exact_evaluation.for_all(
                batches, input_context.num_replicas_in_sync if input_context else 1)

        return tf.estimator.EvalSpec(
            input_fn, steps=config.eval_steps, exporters=self._exporters,
            hooks=[watched_step.EvaluatingHook(self._lifeline)], start_delay_secs=0,
            throttle_secs=config.eval_throttle_secs)

    def _evaluate_last(self) -> None:
        """Evaluates and exports the last checkpoint, unless this has been done."""
        self._lifeline.enter(protocol.EVALUATING)
        step = checkpoints.last_step(self._plan.config.model_dir)
        # Nothing was trained in this run: it had ended before.
        if step == self._evaluated_before() == self._params['start_step']:
            return
        estimator, spec = self._model_to_evaluate(), self._eval_spec()
        checkpoint = estimator.latest_checkpoint()
        exporters_left = spec.exporters
        results = self._evaluated.get(step)
        if results is None:
            results = estimator.evaluate(spec.input_fn, steps=spec.steps, hooks=spec.hooks,
                                         checkpoint_path=checkpoint)
        elif self._exports_the_last_itself and step >= self._params['max_steps']:
            return
        else:
            results, exporters_left = {**results, 'global_step': step}, spec.exporters[1:]
        for exporter in exporters_left:
            exporter.export(estimator, os.path.join(estimator.model_dir, 'export', exporter.name),
                            checkpoint, results, is_the_final_export=True)

    def _evaluated_before(self) -> Optional[int]:
        """The step of the last evaluation that this model_dir has seen."""
        lines = self._eval_metrics.read()
        return lines[-1]['step'] if lines else None

    def _heard(self, step, results) -> None:
        self._evaluated[step] = results
        self._eval_metrics.write('eval', step, results)
        _log.info('evaluation at step %d: %s', step, metrics_log.shown(results))
        config = self._plan.config
        if config.stop_rule:
            verdict = early_stopping.decide(config.stop_rule, self._eval_metrics.read(),
                                            config.model_dir)
            if verdict:
                _log.info('early stopping: %(metric)s has not improved on %(best)s of step '
                          '%(best_step)s for %(patience)d evaluations', verdict)
