"""What a canned Estimator is made of, taken from the object itself.

Every canned class ends in one of eight functions of `tensorflow_estimator`. They stand aside for one call of the
model_fn, and so do the optimizers, so that nothing has to be guessed from the arguments of a constructor: an
Estimator whose model_fn calls a canned one is recovered as well.
"""

import re
from typing import Any, NamedTuple

import tensorflow as tf

from estimator_trainer.compat.patches import canned_estimators, estimators, optimizer_parts

_PART = re.compile(r'/part_\d+$')


class Update(NamedTuple):
    """What is known of an optimizer, and the names of the variables that it trains, without partitions."""

    optimizer: Any
    variables: list


class Recovered(NamedTuple):
    """`function`: the canned function that was called; `arguments`: by name, with defaults; `updates`: of its step;
    `changed`: names of features that it did not get as they were given to the model_fn; `shapes`: of its variables that
    have no partitions."""

    function: str
    arguments: dict
    updates: list
    changed: list
    shapes: dict


class NotCanned(ValueError):
    """The Estimator is none that can be migrated this way. The message says why."""


def read(estimator, features, labels, known=lambda optimizer: optimizer) -> Recovered:
    """Calls the model_fn once, for training, in a graph of its own.

    Args:
        known: (optimizer) -> what is kept of it. It is called before the optimizer turns its settings into variables
            of that graph.
        features, labels: a batch: arrays, or tf.SparseTensor of them, or dicts of these.

    Raises:
        NotCanned: its model_fn calls no canned function, or several of them, or does more than one does: it changes
            the labels, or trains in another way.
    """
    calls, updates, chosen, applied = [], [], [], []
    with (
        tf.Graph().as_default(),
        canned_estimators.recorded_calls(calls),
        canned_estimators.chosen_optimizers(chosen),
        optimizer_parts.apply_gradients_replaced(_told(updates, applied, known)),
    ):
        tf.compat.v1.train.get_or_create_global_step()
        in_graph = [tf.nest.map_structure(_in_graph, batch, expand_composites=False) for batch in (features, labels)]
        estimators.call_model_fn(estimator, *in_graph, tf.estimator.ModeKeys.TRAIN)
        shapes = {variable.op.name: variable.shape.as_list() for variable in tf.compat.v1.global_variables()}
    if len(calls) != 1:
        known = 'LinearClassifier, DNNRegressor, DNNLinearCombinedEstimator, BaselineClassifier and their kin'
        raise NotCanned(
            f'its model_fn calls {len(calls) or "no"} canned model function{"s" * (len(calls) != 1)}; migrate knows '
            f'{known}, and jobs with make_model'
        )
    function, arguments = calls[0]
    if arguments['labels'] is not in_graph[1]:
        raise NotCanned('its model_fn changes the labels; let the input_fn give them as the canned Estimator gets them')
    _check_training(chosen, applied)
    given = in_graph[0]
    changed = [name for name, value in arguments['features'].items() if given.get(name) is not value]
    return Recovered(function, arguments, updates, changed, shapes)


def _check_training(chosen, applied):
    """Raises NotCanned where other optimizers update the variables than those that the Estimator was told."""
    if not applied:
        raise NotCanned(
            'no optimizer of tf.keras.optimizers.legacy or tf.compat.v1.train trains it, as with LinearSDCA'
        )
    for optimizer in chosen:
        if not any(optimizer is each for each in applied):
            raise NotCanned(
                f'its optimizer {type(optimizer).__name__} leaves the update to another one; migrate knows the '
                'optimizers of tf.keras.optimizers.legacy and tf.compat.v1.train themselves'
            )
    if len(applied) != len(chosen):
        raise NotCanned(
            'its model_fn trains with an optimizer of its own; migrate an Estimator that is told all of them'
        )


def _in_graph(value):
    if isinstance(value, tf.SparseTensor):
        return tf.SparseTensor(value.indices.numpy(), value.values.numpy(), value.dense_shape.numpy())
    return tf.constant(value.numpy() if hasattr(value, 'numpy') else value)


def _told(updates, applied, known):
    """Stands in for apply_gradients, and says what is updated."""

    def told(original):
        def apply_gradients(optimizer, grads_and_vars, *args, **kwargs):
            pairs = list(grads_and_vars)
            names = [_PART.sub('', variable.op.name) for gradient, variable in pairs if gradient is not None]
            applied.append(optimizer)
            updates.append(Update(known(optimizer), list(dict.fromkeys(names))))
            return original(optimizer, pairs, *args, **kwargs)

        return apply_gradients

    return told
