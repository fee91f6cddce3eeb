"""An Estimator that a job has made: its model_fn, how it trains, and where.

Touches: Estimator._model_fn, _call_model_fn, _train_with_estimator_spec, _train_with_estimator_spec_distributed,
  _convert_train_steps_to_hooks, _config, _session_config, _model_dir, _train_distribution, _eval_distribution and
  _warm_start_settings, and Scaffold._summary_op
Without it: an Estimator that a job has made cannot be evaluated exactly, trained several steps a call or with
  --sync_ps, nor migrated
For: the trainer and `migrate`
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


def wrap_model_fn(estimator: tf.estimator.Estimator, wrap: Callable[..., Any], *args: Any) -> None:
    """Its model_fn becomes wrap(model_fn, *args)."""
    estimator._model_fn = wrap(estimator._model_fn, *args)


def call_model_fn(
    estimator: tf.estimator.Estimator, features: Any, labels: Any, mode: str
) -> tf.estimator.EstimatorSpec:
    """The EstimatorSpec of its model_fn."""
    return estimator._call_model_fn(features, labels, mode, estimator.config)


def replace_training(
    estimator: tf.estimator.Estimator, prepare: Callable[..., Any], in_step: Callable[..., Any]
) -> None:
    """Makes it one of a subclass of its class, which trains by other functions. The hooks that Estimator makes of
    `steps` and `max_steps` are left out: `prepare` says when training stops.

    Args:
        prepare: (original, estimator, spec, worker_hooks, hooks, global_step, saving_listeners) -> the last loss. It is
            called once the graph of a step is there; `original` takes what follows `estimator`.
        in_step: (estimator, spec, worker_hooks, saving_listeners) -> the last loss, which `original` calls under a
            MultiWorkerMirroredStrategy.
    """
    its: Any = type(estimator)

    class Replaced(its):
        _stops: Any = ()

        def _convert_train_steps_to_hooks(
            self, steps: int | None, max_steps: int
        ) -> list[tf.compat.v1.train.SessionRunHook]:
            self._stops = super()._convert_train_steps_to_hooks(steps, max_steps)
            return self._stops

        def _train_with_estimator_spec(
            self,
            spec: tf.estimator.EstimatorSpec,
            worker_hooks: list[tf.compat.v1.train.SessionRunHook],
            hooks: list[tf.compat.v1.train.SessionRunHook],
            *args: Any,
        ) -> Any:
            original = super()._train_with_estimator_spec
            hooks = [hook for hook in hooks if not any(hook is own for own in self._stops)]
            return prepare(original, self, spec, worker_hooks, hooks, *args)

        def _train_with_estimator_spec_distributed(self, *args: Any) -> Any:
            return in_step(self, *args)

    Replaced.__name__, Replaced.__qualname__ = its.__name__, its.__qualname__
    estimator.__class__ = Replaced


def replace_config(estimator: tf.estimator.Estimator, **changes: Any) -> None:
    """Changes fields of its RunConfig."""
    estimator._config = estimator.config.replace(**changes)
    estimator._session_config = estimator._config.session_config


def change_session(estimator: tf.estimator.Estimator, change: Callable[[tf.compat.v1.ConfigProto], object]) -> None:
    """Lets `change` change the configuration of the sessions in which it trains."""
    config = tf.compat.v1.ConfigProto()
    config.CopyFrom(estimator.config.session_config or config)
    change(config)
    replace_config(estimator, session_config=config)


def move(estimator: tf.estimator.Estimator, model_dir: str, **changes: Any) -> None:
    """Gives it a model_dir of its own, without any strategy and without a warm start."""
    estimator._config = estimator.config.replace(
        model_dir=model_dir, train_distribute=None, eval_distribute=None, **changes
    )
    estimator._model_dir = model_dir
    estimator._train_distribution = estimator._eval_distribution = None
    estimator._warm_start_settings = None


def replace_summary(scaffold: tf.compat.v1.train.Scaffold, summary: tf.Tensor) -> None:
    """The tensor that the hooks of a scaffold's session write as its summaries."""
    scaffold._summary_op = summary


def mend_summary_of_replicas(scaffold: tf.compat.v1.train.Scaffold) -> None:
    """Under a strategy upstream makes one operation of the `summary_op`s that a model_fn has given in each replica,
    which computes them and gives no text. In its place comes that of the first replica."""
    summary = scaffold._summary_op
    while isinstance(summary, tf.Operation) and not summary.outputs and summary.control_inputs:
        summary = summary.control_inputs[0]
    if isinstance(summary, tf.Operation) and summary.outputs:
        scaffold._summary_op = summary.outputs[0]


@contextlib.contextmanager
def export_outputs_completed(complete: Callable[..., dict]) -> Iterator[None]:
    """Lets the trainer complete the outputs of an export before Estimator makes signatures of them.

    Touches: build_all_signature_defs in the module export.export_lib of tensorflow_estimator
    Without it: an export of a classifier with raw receivers has no `serving_default`, which servers ask for
    For: the trainer

    Inside, Estimator builds the signatures of `complete(receiver_tensors, export_outputs)`.
    """
    from tensorflow_estimator.python.estimator.export import export_lib

    build = export_lib.build_all_signature_defs

    def build_completed(receiver_tensors: Any, export_outputs: Any, *args: Any, **kwargs: Any) -> Any:
        return build(receiver_tensors, complete(receiver_tensors, export_outputs), *args, **kwargs)

    export_lib.build_all_signature_defs = build_completed
    try:
        yield
    finally:
        export_lib.build_all_signature_defs = build
