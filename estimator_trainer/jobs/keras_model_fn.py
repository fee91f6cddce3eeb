"""Makes a model_fn, with which an Estimator trains a job that is written as a Keras model."""

import weakref

_made: weakref.WeakSet = weakref.WeakSet()  # an attribute would be copied by functools.wraps


def make(make_model, parts):
    """Makes `model_fn(features, labels, mode, params)` from Job.make_model and Job.parts."""

    def model_fn(features, labels, mode, params):
        import tensorflow as tf

        from estimator_trainer.jobs import legacy_optimizers, losses

        modes = tf.estimator.ModeKeys
        model = make_model(params)
        if mode == modes.PREDICT:  # of what a server is asked, nothing is ever empty
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
        if mode == modes.EVAL:  # replicas do not train together here, each weighs what it has
            loss = tf.reduce_mean(losses.of_examples(of_examples))
            metrics = parts.metrics(params) if parts.metrics else {}
            for metric in metrics.values():
                metric.update_state(labels, outputs)
            return tf.estimator.EstimatorSpec(
                mode, loss=loss if penalty is None else loss + penalty, predictions=predictions, eval_metric_ops=metrics
            )

        step = tf.compat.v1.train.get_global_step()
        optimizer, rate = legacy_optimizers.of(parts.make_optimizer(params), step)
        tf.compat.v1.summary.scalar('learning_rate', rate)
        loss = losses.of_replica(of_examples, penalty)
        # Such as the averages of a BatchNormalization. In a graph Keras leaves them to whoever trains.
        with tf.control_dependencies([*model.get_updates_for(None), *model.get_updates_for(features)]):
            train_op = optimizer.minimize(loss, global_step=step, var_list=model.trainable_variables)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    _made.add(model_fn)
    return model_fn


def is_made(model_fn) -> bool:
    """Whether a model_fn comes from `make`."""
    return model_fn in _made
