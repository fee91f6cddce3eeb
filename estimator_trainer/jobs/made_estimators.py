"""Checks the Estimator that a job's make_estimator returns, and warns of tables that it does not train."""

import logging
from collections.abc import Callable

import tensorflow as tf

from estimator_trainer.errors import UsageError
from estimator_trainer.jobs.job_types import Estimator, EstimatorSpec, Mode, RunConfig, Tensors

_log = logging.getLogger('estimator_trainer')
v1 = tf.compat.v1
_OWN_VARIABLES = (  # Estimators of TensorFlow 2 that give their optimizer the variables of their own layers only
    *(tf.estimator.DNNClassifier, tf.estimator.DNNRegressor, tf.estimator.DNNEstimator),
    *(tf.estimator.DNNLinearCombinedClassifier, tf.estimator.DNNLinearCombinedRegressor),
    tf.estimator.DNNLinearCombinedEstimator,
)
_SHARED = 'shared_embedding'  # a part of the names of the tables that `shared_embeddings` makes

_ModelFn = Callable[..., EstimatorSpec]


def check(estimator: Estimator, model_dir: str) -> None:
    """Checks that the trainer can train an Estimator.

    Raises:
        UsageError: it is a TPUEstimator.
        ValueError: it saves in another folder than `model_dir`.
    """
    tpu = getattr(v1.estimator, 'tpu', None)
    if tpu and isinstance(estimator, tpu.TPUEstimator):
        raise UsageError(
            'make_estimator has given a TPUEstimator, which is trained on a TPU only: let it give a '
            'tf.estimator.Estimator with the same model_fn, and the model_fn a tf.estimator.EstimatorSpec.'
        )
    if estimator.config.model_dir != model_dir:
        raise ValueError(
            f'make_estimator must pass its run_config to the Estimator: its model_dir is {estimator.config.model_dir}.'
        )


def warning_of(estimator: Estimator) -> Callable[[_ModelFn], _ModelFn]:
    """Makes a decorator of a model_fn, which warns of tables that the Estimator does not train. TensorFlow does not."""

    def wrap(model_fn: _ModelFn) -> _ModelFn:
        if not isinstance(estimator, _OWN_VARIABLES):
            return model_fn

        def wrapped(features: Tensors, labels: Tensors, mode: Mode, config: RunConfig) -> EstimatorSpec:
            spec = model_fn(features=features, labels=labels, mode=mode, config=config)
            if mode == tf.estimator.ModeKeys.TRAIN and config.is_chief:
                tf.autograph.experimental.do_not_convert(_warn)(type(estimator).__name__)
            return spec

        return wrapped

    return wrap


def _warn(name: str) -> None:
    tables = sorted({each.op.name for each in v1.trainable_variables() if _SHARED in each.op.name})
    if tables:
        _log.warning(
            'WARNING: %s: not trained, because a tf.estimator.%s gives its optimizer the variables of its own layers '
            'only. Use tf.compat.v1.estimator.%s and tf.compat.v1.feature_column.shared_embedding_columns, or '
            'embedding_column for each column',
            ', '.join(tables),
            name.removesuffix('V2'),
            name.removesuffix('V2'),
        )
