"""What `run_task` and the loop ask of a trainer, and what `run_task` gives it."""

import dataclasses
import importlib
import logging
from collections.abc import Callable
from typing import Protocol

import tensorflow as tf

from estimator_trainer.compat.patches import seeds
from estimator_trainer.config import job_flags
from estimator_trainer.evaluation import evaluation, evaluation_journal, exact_evaluation
from estimator_trainer.jobs import input_fns, job_data
from estimator_trainer.jobs.input_fns import InputFnOfAll
from estimator_trainer.jobs.job import Job
from estimator_trainer.jobs.run_params import RunParams
from estimator_trainer.lifecycle.watchdog import Watchdog
from estimator_trainer.run_dir import training_file
from estimator_trainer.training import batch_sizes, runtime
from estimator_trainer.training.loop import Loop
from estimator_trainer.training.plan import Plan
from estimator_trainer.training.reports import Waits

_log = logging.getLogger('estimator_trainer')


@dataclasses.dataclass(frozen=True)
class Setup:
    """What a trainer and an evaluator work with.

    Attributes:
        input_fn: (mode, params, input_context, config) -> tf.data.Dataset; the job's own or the data set's.
        loop: is told of each call, and says what follows.
        waits: is told how long the steps have waited.
        dataset: of jobs.job_data; None for a job with an input_fn of its own.
    """

    plan: Plan
    watchdog: Watchdog
    job: Job
    params: RunParams
    run_configs: runtime.RunConfigs
    input_fn: InputFnOfAll
    loop: Loop
    waits: Waits
    dataset: 'job_data.Dataset | None' = None

    def counts(self) -> dict[str, float]:
        """What a report in metrics.jsonl tells of the waits since the last one, and of the data."""
        return {**self.waits.since_last(), **(self.dataset.counts() if self.dataset else {})}


class Trainer(Protocol):
    """Trains this task's part of a run.

    Attributes:
        evaluates_first_checkpoint: whether the first checkpoint that training saves is evaluated on the way,
            or only one after --eval_throttle_secs.
    """

    evaluates_first_checkpoint: bool

    def train(self, saved: Callable[[int], object]) -> None:
        """Trains from params.start_step to the end, or until `loop` says to stop, and saves the last step.

        Args:
            saved: called on the chief with the step of each checkpoint that it has saved.
        """


class Training(Protocol):
    """The training of a trainer, as far as the loop and the reports ask for it."""

    def agree(self, wishes: Callable[[], list[bool]], steps: int) -> list[bool] | None:
        """Which wishes any of the tasks has that train in step; None where they do not meet after these steps.

        Args:
            wishes: () -> this task's.
            steps: since the last call of this.
        """

    def next_due(self, step: int) -> int | None:
        """The next step after `step` after which a call has to end, for what the trainer itself does there."""

    def read_step(self) -> int:
        """The global step, which other tasks may move as well."""

    def write_rate(self, step: int, examples_per_sec: float) -> None:
        """For TensorBoard, with each report. The chief's."""

    def write_step(self, step: int, loss: float) -> None:
        """For TensorBoard, every --save_summary_steps. The chief's."""


def input_fn_of(plan: Plan, dataset: 'job_data.Dataset | None') -> InputFnOfAll:
    """What the trainers and evaluators of a plan with a job call: the `input_fn` of Setup.

    Args:
        dataset: of jobs.job_data; None for a job with an input_fn of its own.
    """
    assert plan.job
    config, input_fn = plan.config, plan.job.input_fn or (dataset and dataset.input_fn)
    assert input_fn  # a job without one has a data set

    def needed_by(mode: str) -> str:
        if config.loop != 'estimator':
            return f'--loop={config.loop}'
        if mode != tf.estimator.ModeKeys.TRAIN:
            return '--eval_strategy=mirrored' if config.eval_strategy == 'mirrored' else ''
        return f'the strategy {plan.strategy}' if plan.is_mirrored or plan.is_multi_worker else ''

    if plan.job.input_fn and plan.is_chief:
        called = input_fns.noticing_restart(input_fn, _warn_of_restart)
    else:
        called = input_fns.by_name(input_fn)
    called = input_fns.data_sets_only(called, needed_by)
    return batch_sizes.watched(called, config.batch_size) if plan.job.input_fn and plan.is_chief else called


def _warn_of_restart() -> None:
    _log.warning(
        "WARNING: this run resumes, and nothing shows that the input_fn uses params['start_step']. Unless its data "
        'read it later, they begin anew, and their first examples are trained again. Let it skip '
        "params['start_step'] batches, or use array_batches or file_batches (docs/jobs.md)."
    )


def make_trainer(setup: Setup) -> Trainer:
    """The trainer of --loop."""
    module, name = job_flags.LOOPS[setup.plan.config.loop].split(':')
    return getattr(importlib.import_module(module), name)(setup)


def make_evaluator(setup: Setup) -> evaluation.Evaluator:
    """An evaluator of the checkpoints of --loop, in this process alone."""
    from estimator_trainer.evaluation import estimator_evaluator, keras_evaluator

    plan, config = setup.plan, setup.plan.config
    params = dataclasses.replace(setup.params, batch_size=config.batch_of_evaluation)
    input_fn = exact_evaluation.input_fn(setup.input_fn, params, setup.run_configs.local)

    def started() -> None:
        setup.watchdog.enter(training_file.EVALUATING)

    replicas = config.num_replicas if config.eval_strategy == 'mirrored' else 1
    progress_of_batches = evaluation_journal.EvaluationProgress(
        params.batch_size * replicas, params.num_examples, config.eval_steps, ends=setup.dataset is not None
    )
    same_data = setup.dataset is not None or setup.job.same_eval_data
    if config.loop == 'estimator':
        # The default graph may be that of a training, which is final. Who trains draws as if nothing were made here.
        with seeds.kept(), tf.Graph().as_default():
            estimator = exact_evaluation.estimator_of(setup.job, params, setup.run_configs.local)
        return estimator_evaluator.EstimatorEvaluator(
            estimator, input_fn, config.eval_steps, started, same_data, progress_of_batches
        )
    strategy = setup.run_configs.local.eval_distribute
    if strategy and plan.is_mirrored and setup.run_configs.own.train_distribute:
        strategy = setup.run_configs.own.train_distribute  # the collectives of a second one would get in its way
    return keras_evaluator.KerasEvaluator(
        setup.job,
        params.as_dict(),
        config.model_dir,
        input_fn,
        config.eval_steps,
        strategy,
        started,
        progress_of_batches,
        same_data,
    )
