"""One task's part of a run, whichever loop trains: who trains, who evaluates, when all of it is over."""

import contextlib
import dataclasses
import logging
import math
import os
import time

import tensorflow as tf

from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation import continuous_evaluation, early_stopping, evaluation, exact_evaluation, exporters
from estimator_trainer.lifecycle import training_watch
from estimator_trainer.run_dir import checkpoints, metrics_log, protocol, run_files
from estimator_trainer.sync import barriers
from estimator_trainer.training import parameter_server, watched_step

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
    metrics: dict | None
    exports: bool
    why: str | None = None
    stopped_by: int | None = None


class Loop:
    """One task's part of a run. A loop fills in how it trains and how it evaluates.

    Args:
        plan: training.plan.Plan.
        lifeline: lifecycle.lifeline.Lifeline.
        started: when the run was first started, seconds since the epoch.
        run_configs: training.runtime.RunConfigs.
        job: jobs.Job.
        params: jobs.run_params.RunParams.
        input_fn: (mode, params, input_context) -> tf.data.Dataset.
        serving_input_fn: () -> ServingInputReceiver, or None.
    """

    _watch_class = watched_step.StepWatch
    _evaluates_at_once = False  # the first checkpoint that training saves, or only after --eval_throttle_secs
    _evaluate_at = math.inf  # monotonic seconds; from then on this process evaluates on the way

    def __init__(self, plan, lifeline, started, run_configs, job, params, input_fn, serving_input_fn):
        self._plan, self._run_configs, self._job, self._params = plan, run_configs, job, params
        self._lifeline, self._started, self._input_fn = lifeline, started, input_fn
        model_dir = plan.config.model_dir
        self._metrics = metrics_log.MetricsLog(os.path.join(model_dir, 'metrics.jsonl'))
        self._exports = exporters.Exports(model_dir, exporters.make(plan.config.export, job, serving_input_fn))
        self._evaluation = evaluation.Evaluation(
            model_dir,
            self._make_evaluator,
            self._exports,
            early_stopping.rule_of(plan.config),
            params.start_step if plan.trains else None,
        )
        self._step_watch = self._watch_class(
            lifeline, plan.is_chief, plan.asynchronous, self._reason_to_stop, params.start_step
        )

    def _train(self) -> None:
        """Trains, in one process or as one of several tasks. Calls `_saved` after each checkpoint."""
        raise NotImplementedError

    def _make_evaluator(self) -> evaluation.Evaluator:
        """Of this process alone."""
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
        return Outcome(
            step,
            self._evaluation.results.get(step),
            bool(self._exports),
            self._why(step) if plan.trains else None,
            self._lifeline.stopped_by,
        )

    def _train_alone(self) -> None:
        """Trains in one process, which evaluates as well unless another does."""
        with self._evaluating() as mine:
            if mine:
                self._evaluation.make_up()
                self._evaluate_at = time.monotonic() + (
                    0 if self._evaluates_at_once else self._plan.config.eval_throttle_secs
                )
            self._train()
            if mine and not self._lifeline.stopped_by:
                self._evaluate_last()
        self._training_ended()

    def _train_in_cluster(self) -> None:
        """Trains as one of several tasks; the chief evaluates at the end if there is no evaluator."""
        plan = self._plan
        self._train()
        in_sync = plan.strategy == 'multi_worker_mirrored'
        if in_sync:
            barriers.wait_for_all('trained', _TRAINED_SECS)
        else:
            parameter_server.tell_left(plan.cluster.ps, plan.training_index, done=not self._lifeline.stopped_by)
        if plan.is_chief or not in_sync or self._lifeline.stopped_by or plan.has_evaluator:
            self._lifeline.release_peers()  # the chief evaluates alone
        if self._lifeline.stopped_by or plan.has_evaluator:
            self._training_ended()
            return
        self._lifeline.enter(protocol.EVALUATING)
        if plan.is_chief:
            with self._evaluating() as mine:
                if mine:
                    self._evaluation.make_up()
                    self._evaluate_last()
                else:
                    _log.info('evaluation: another process does it')
        if in_sync:  # the others stay until the chief has evaluated: it would take them for lost
            self._wait_until_evaluated()
        self._lifeline.release_peers()
        self._training_ended()

    def _wait_until_evaluated(self) -> None:
        try:
            barriers.wait_for_all('evaluated', _EVALUATED_SECS)
        except tf.errors.OpError as error:
            if not self._plan.is_chief:
                raise
            _log.warning('a worker has left before the evaluation was done: %s', error.message.splitlines()[0])

    def _training_ended(self) -> None:
        """Lets the evaluator and the supervisor know."""
        if self._lifeline.stopped_by:
            self._lifeline.finish(protocol.STOPPED)
        else:
            self._lifeline.finish(protocol.ENDED, self._why(checkpoints.last_step(self._plan.config.model_dir)))

    def _why(self, step) -> str:
        reached = step >= self._params.max_steps
        return 'max_steps' if reached else self._step_watch.why or 'end_of_data'

    def _reason_to_stop(self) -> str | None:
        config = self._plan.config
        if config.max_secs and time.time() - self._started >= config.max_secs:
            return watched_step.MAX_SECS
        rule = early_stopping.rule_of(config)
        if rule and early_stopping.decided(rule, config.model_dir):
            return watched_step.EARLY_STOPPING
        return None

    def _evaluate_continuously(self) -> None:
        config = self._plan.config
        greeting = training_watch.greeting_of(self._plan.chief_address)
        watch = training_watch.TrainingWatch(
            self._params.max_steps,
            config.join_timeout_secs,
            config.lost_peer_secs,
            os.environ.get(protocol.GENERATION, ''),
            lambda: protocol.read_json(os.path.join(config.model_dir, protocol.TRAINING_FILE)),
            greeting,
            config.step_timeout_secs or math.inf,
        )
        with self._evaluation_lock() as lock:
            run_files.take(
                lock, config.model_dir, 'evaluates this run already (list the evaluator in TF_CONFIG of every task)'
            )
            continuous_evaluation.ContinuousEvaluation(
                config.model_dir,
                self._evaluation,
                watch,
                self._params.max_steps,
                self._refuses_another_folder(watch, greeting),
            ).run()

    def _refuses_another_folder(self, watch, greeting):
        """What the evaluator asks each time round: does the chief live, and write into another model_dir?"""
        plan = self._plan
        folder = training_watch.FolderWatch(lambda: watch.seen, greeting, plan.config.join_timeout_secs / 2)

        def look():
            if folder.is_elsewhere():
                raise UsageError(
                    f'{plan.task} does not find in --model_dir={plan.config.model_dir} what the chief '
                    f'{plan.cluster.chief_task} at {plan.chief_address} writes there: the folder is '
                    'not shared. Name one on storage that every task sees at this path.'
                )

        return look

    @contextlib.contextmanager
    def _evaluating(self):
        """Holds the run's evaluation, of which one process is the owner. Yields whether it is ours.

        An evaluator that TF_CONFIG's cluster does not list is unknown to the chief otherwise.
        """
        with self._evaluation_lock() as lock:
            yield lock.take()

    def _evaluation_lock(self):
        return run_files.lock(self._plan.config.model_dir, os.path.join('eval', '.lock'))

    def _eval_input_fn(self):
        return exact_evaluation.input_fn(self._input_fn, self._params)

    def _evaluating_now(self) -> None:
        """Whatever was trained is saved."""
        self._lifeline.enter(protocol.EVALUATING)

    def _saved(self, step) -> None:
        """Evaluates a checkpoint on the way, where this process does. The last one is evaluated later."""
        ends = (
            step >= self._params.max_steps or self._lifeline.stopped_by is not None or self._step_watch.why is not None
        )
        if ends or time.monotonic() < self._evaluate_at:
            return
        self._evaluation.of(tf.train.latest_checkpoint(self._plan.config.model_dir), final=False)
        self._evaluate_at = time.monotonic() + self._plan.config.eval_throttle_secs
        self._lifeline.enter(protocol.TRAINING)

    def _evaluate_last(self) -> None:
        """Evaluates and exports the last checkpoint, unless this has been done."""
        self._lifeline.enter(protocol.EVALUATING)
        checkpoint = checkpoints.newest(self._plan.config.model_dir)
        if checkpoint:
            self._evaluation.of(checkpoint, final=True)
        else:
            _log.warning('WARNING: evaluation: there is no checkpoint in %s', self._plan.config.model_dir)
