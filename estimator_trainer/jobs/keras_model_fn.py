"""Makes a model_fn, with which an Estimator trains a job that is written as a Keras model."""

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from estimator_trainer.jobs.job_types import EstimatorSpec, KerasModel, Mode, Params, Tensors

if TYPE_CHECKING:
    from estimator_trainer.jobs.job import KerasParts

KerasModelFn = Callable[[Tensors, Tensors, Mode, Params], EstimatorSpec]

_made: weakref.WeakSet[KerasModelFn] = weakref.WeakSet()  # functools.wraps would copy an attribute of the function


def make(make_model: Callable[[Params], KerasModel], parts: 'KerasParts') -> KerasModelFn:
    """Makes `model_fn(features, labels, mode, params)` from Job.make_model and Job.parts."""

    def model_fn(features: Tensors, labels: Tensors, mode: Mode, params: Params) -> EstimatorSpec:
        import tensorflow as tf

        from estimator_trainer.jobs import keras_models, losses, optimizers

        modes = tf.estimator.ModeKeys
        model = keras_models.made(make_model, params)
        if mode == modes.PREDICT:  # a batch that a server is asked about is never empty
            outputs = model(features, training=False)
        else:
            outputs = losses.outputs_of(model, features, training=mode == modes.TRAIN)
        predictions = parts.predictions(outputs)
        if mode == modes.PREDICT:
            return tf.estimator.EstimatorSpec(
                mode,
                predictions=predictions,
                export_outputs={'serving_default': tf.estimator.export.PredictOutput(predictions)},
            )

        of_examples = parts.loss(labels, outputs, params)
        penalty = parts.penalty(model, params) if parts.penalty else None
        if mode == modes.EVAL:  # the replicas evaluate apart, and each weighs its own examples
            loss = tf.reduce_mean(losses.of_examples(of_examples))
            metrics = losses.metrics_of(parts, params)
            for metric in metrics.values():
                metric.update_state(labels, outputs)
            return tf.estimator.EstimatorSpec(
                mode, loss=loss if penalty is None else loss + penalty, predictions=predictions, eval_metric_ops=metrics
            )

        keras_models.check_trained(model)
        step = tf.compat.v1.train.get_global_step()
        optimizer, rate = optimizers.of_estimator(optimizers.of_job(parts, params), step)
        tf.compat.v1.summary.scalar('learning_rate', rate)
        loss = losses.of_replica(of_examples, penalty)
        # Updates such as the averages of a BatchNormalization. In a graph Keras does not run them by itself.
        with tf.control_dependencies([*model.get_updates_for(None), *model.get_updates_for(features)]):
            train_op = optimizer.minimize(loss, global_step=step, var_list=model.trainable_variables)
        losses.warn_of_unused(model, parts)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    _made.add(model_fn)
    return model_fn


def is_made(model_fn: object) -> bool:
    """Whether a model_fn comes from `make`."""
    return any(each is model_fn for each in _made)  # a model_fn of a job may be without a hash, such as a dataclass
