"""The params of a run: where it goes on in its data, and at which step it ends."""

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from estimator_trainer.jobs import run_params
from estimator_trainer.run_dir import config_file
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.training.plan import Plan

if TYPE_CHECKING:
    from estimator_trainer.jobs import job_data


def make(plan: Plan, dataset: 'job_data.Dataset | None', initial_replicas: int) -> run_params.RunParams:
    """The params of a run that starts at step 0; from where it goes on is not yet known."""
    config = plan.config
    assert plan.job is not None
    examples = dataset.num_train if dataset else plan.job.num_train_examples
    batch = plan.global_batch_size
    step = RunFolder(config.model_dir).named_step or 0
    return run_params.RunParams(
        job=plan.job_params,
        batch_size=config.batch_size,
        num_replicas=plan.batches_per_step,
        accumulate_steps=config.accumulate_steps,
        initial_replicas=initial_replicas,
        replicas_per_task=config.num_replicas,
        global_batch_size=batch,
        max_steps=end(plan, examples, step),
        num_examples=examples,
        seed=config.seed,
        image_shape=dataset.image_shape if dataset else None,
        position_shift=config_file.position_shift(config.model_dir, batch, step),
    )


def started_at(params: run_params.RunParams, plan: Plan, step: int) -> run_params.RunParams:
    """The params of a run that goes on from a step. How many examples it had trained there says when --epochs end."""
    shift = config_file.position_shift(plan.config.model_dir, plan.global_batch_size, step)
    max_steps = end(plan, params.num_examples, step)
    return dataclasses.replace(params, start_step=step, max_steps=max_steps, position_shift=shift)


def of_input_fn(params: run_params.RunParams, plan: Plan) -> dict[str, Any]:
    """What the input_fn of a task gets for training.

    A step of asynchronous workers is one batch of one of them. Their pipelines count a batch of each worker to a step,
    so that the batches interleave; `position_shift` makes up for what they would skip before `start_step`.
    """
    given = params.as_dict()
    if plan.asynchronous:
        given['position_shift'] -= (plan.num_training_tasks - 1) * params.start_step * params.batch_size
    return given


def end(plan: Plan, examples: int | None, step: int) -> int:
    """The step at which a run ends that goes on from `step`.

    Args:
        examples: of the training split; None: unknown.

    Raises:
        UsageError: --epochs is given, and `examples` is unknown.
    """
    config, batch = plan.config, plan.global_batch_size
    shift = config_file.trained_shift(config.model_dir, batch, step)
    return run_params.last_step(config.max_steps, config.epochs, examples, batch, shift)


def keep_position(plan: Plan, params: run_params.RunParams) -> Callable[[int, float, float], None] | None:
    """(step of a checkpoint, batches trained in this process, others that it has read) -> keeps how many examples are
    behind the checkpoint."""
    if plan.asynchronous:
        return None
    model_dir, batch = plan.config.model_dir, params.global_batch_size
    began = params.start_step * batch + params.position_shift
    began_beside = config_file.examples_beside(model_dir, params.start_step)

    def keep(step: int, trained: float, beside: float) -> None:
        examples = began + round((trained + beside) * batch)
        config_file.keep_examples(model_dir, batch, step, examples, began_beside + round(beside * batch))

    return keep
