"""An Estimator that a job has made: its model_fn, how it trains, and where.

Touches: Estimator._model_fn, _call_model_fn, _train_with_estimator_spec, _config, _model_dir, _train_distribution,
  _eval_distribution and _warm_start_settings, and Scaffold._summary_op
Without it: an Estimator that a job has made cannot be evaluated exactly, trained several steps a call or with
  --sync_ps, nor migrated
For: the trainer and `migrate`
"""

import functools
import types


def wrap_model_fn(estimator, wrap, *args) -> None:
    """Its model_fn becomes wrap(model_fn, *args)."""
    estimator._model_fn = wrap(estimator._model_fn, *args)


def call_model_fn(estimator, features, labels, mode):
    """The EstimatorSpec of its model_fn."""
    return estimator._call_model_fn(features, labels, mode, estimator.config)


def replace_training(estimator, train) -> None:
    """From here on it trains by train(original, estimator, spec, worker_hooks, hooks, global_step, saving_listeners),
    where `original` takes what follows `estimator`."""

    def train_in_place(estimator, *args):
        original = functools.partial(type(estimator)._train_with_estimator_spec, estimator)
        return train(original, estimator, *args)

    estimator._train_with_estimator_spec = types.MethodType(train_in_place, estimator)


def replace_config(estimator, **changes) -> None:
    """Changes fields of its RunConfig."""
    estimator._config = estimator.config.replace(**changes)


def move(estimator, model_dir: str, **changes) -> None:
    """Gives it a model_dir of its own, without any strategy and without a warm start."""
    estimator._config = estimator.config.replace(
        model_dir=model_dir, train_distribute=None, eval_distribute=None, **changes
    )
    estimator._model_dir = model_dir
    estimator._train_distribution = estimator._eval_distribution = None
    estimator._warm_start_settings = None


def replace_summary(scaffold, summary) -> None:
    """The tensor that the hooks of a scaffold's session write as its summaries."""
    scaffold._summary_op = summary
