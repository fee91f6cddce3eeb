"""The parts of `Estimator._actual_eval` and TensorFlow's `_evaluate_once`, one by one.

Touches: Estimator._eval_distribution, _convert_eval_steps_to_hooks, _evaluate_build_graph and _session_config; the
  module estimator of tensorflow_estimator; tensorflow.python.training.evaluation and basic_session_run_hooks
Without it: each evaluation builds its graph anew, which takes longer than the evaluation of a small model
For: the trainer
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import tensorflow as tf
from tensorflow_estimator.python.estimator import estimator as upstream

_v1 = tf.compat.v1


def strategy(estimator: tf.estimator.Estimator) -> tf.distribute.Strategy | None:
    """The strategy of its evaluations, or None."""
    return estimator._eval_distribution


def make_steps_per_run() -> None:
    """Makes the variable that hooks of an evaluation look for."""
    from tensorflow.python.training import basic_session_run_hooks

    basic_session_run_hooks.get_or_create_steps_per_run_variable()


def stops(estimator: tf.estimator.Estimator, steps: int | None) -> list:
    """The hooks that end an evaluation after so many batches; None: at the end of the data."""
    return estimator._convert_eval_steps_to_hooks(steps)


def build(
    estimator: tf.estimator.Estimator,
    input_fn: Callable[..., Any],
    hooks: Iterable[tf.compat.v1.train.SessionRunHook],
    checkpoint: str | None,
) -> tuple[Any, ...]:
    """Calls the input_fn and the model_fn in the default graph: (scaffold, update, values, all hooks)."""
    return estimator._evaluate_build_graph(input_fn, hooks, checkpoint)


def counted(update: tf.Operation, stops: Iterable[Any]) -> list:
    """The operations of one batch, which its number is part of; the hooks that end an evaluation read it."""
    from tensorflow.python.training import evaluation

    updates = [update, _v1.assign_add(evaluation._get_or_create_eval_step(), 1, use_locking=True)]
    for stop in stops:
        stop._set_evals_completed_tensor(evaluation._get_latest_eval_step_value(updates))
    return updates


def session_creator(
    estimator: tf.estimator.Estimator, scaffold: tf.compat.v1.train.Scaffold, checkpoint: str | None
) -> tf.compat.v1.train.SessionCreator:
    """A creator of sessions that restore the checkpoint."""
    return _v1.train.ChiefSessionCreator(
        scaffold,
        master=estimator._config.evaluation_master,
        config=estimator._session_config,
        checkpoint_filename_with_path=checkpoint,
    )


def write(estimator: tf.estimator.Estimator, results: dict, checkpoint: str) -> None:
    """Writes the results of an evaluation for TensorBoard."""
    step, folder = results[_v1.GraphKeys.GLOBAL_STEP], estimator.eval_dir()
    upstream._write_dict_to_summary(folder, results, step)
    upstream._write_checkpoint_path_to_summary(folder, checkpoint, step)
