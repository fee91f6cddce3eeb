"""The Keras model of a job: what make_model gives is checked as it is made."""

import functools
import logging
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from estimator_trainer.errors import UsageError
from estimator_trainer.jobs.job_types import KerasModel, Params

_log = logging.getLogger('estimator_trainer')
_OVERRIDDEN = ('train_step', 'compute_loss', 'compute_metrics', 'test_step')


def made(make_model: Callable[[Params], KerasModel], params: Params) -> KerasModel:
    """What make_model gives.

    Raises:
        UsageError: that is no model of Keras 2.
    """
    model = make_model(params)
    if isinstance(model, tf.keras.Model):
        return model
    kind = type(model)
    cure = 'let it return a tf.keras.Model'
    if any(base.__module__.partition('.')[0] == 'keras' for base in kind.__mro__):
        cure = 'Keras 3 is what `import keras` gives; write `from tensorflow import keras` in the job'
    raise UsageError(
        f'make_model gives a {kind.__module__}.{kind.__qualname__}, and a model of Keras 2 is needed: {cure}.'
    )


def check_trained(model: KerasModel, is_scaled: bool = False) -> None:
    """Looks at a model that is to be trained. Warns of methods of its own that no loop calls.

    Args:
        is_scaled: the loss is scaled, as float16 needs it.

    Raises:
        UsageError: a layer computes in float16, and the loss is not scaled: small gradients would be 0, in silence.
    """
    narrow = [layer.name for layer in _layers(model) if layer.compute_dtype == 'float16']
    if narrow and not is_scaled:
        raise UsageError(
            f'the layer {narrow[0]} computes in float16, as a policy of the job says, and nothing scales the loss, so '
            'that small gradients would be lost. Leave the policy out: --mixed_precision=float16 (with '
            '--loop=keras_fit or custom_loop) sets it, and scales the loss; --mixed_precision=bfloat16 needs no scale.'
        )
    own = [name for name in _OVERRIDDEN if _has_own(type(model), name)]
    if own:
        _warn_of_methods(type(model).__name__, own[0])


def check_pairs(spec: Any, taker: str) -> None:
    """Raises UsageError for batches that are not (features, labels).

    Args:
        spec: the element_spec of their data set.
        taker: who takes them.
    """
    if not isinstance(spec, tuple) or len(spec) != 2:
        has = f'{len(spec)} parts' if isinstance(spec, tuple) else 'features alone'
        raise UsageError(
            f'{taker}: each batch of the input_fn has {has}, and (features, labels) are needed. Give weights of the '
            'examples as a feature, and let the loss of the job multiply by it.'
        )


def rnn_states(model: KerasModel) -> list[tf.Variable]:
    """What the stateful recurrent layers of a model keep from batch to batch. It is no weight of theirs, so that
    neither a checkpoint of the model nor `model.variables` has it."""
    recurrent = (layer for layer in _layers(model) if isinstance(layer, tf.keras.layers.RNN) and layer.stateful)
    kept = [state for layer in recurrent for state in tf.nest.flatten(layer.states)]
    return [state for state in kept if isinstance(state, tf.Variable)]


def _layers(model: KerasModel) -> 'list[tf.keras.layers.Layer]':
    return [layer for layer in (model, *model.submodules) if isinstance(layer, tf.keras.layers.Layer)]


def _has_own(kind: type, method: str) -> bool:
    of_keras = getattr(tf.keras.Model, method, None)
    return of_keras is not None and getattr(kind, method) is not of_keras


@functools.cache
def _warn_of_methods(kind: str, method: str) -> None:
    _log.warning(
        'WARNING: the model %s has a %s of its own, which is not called: the loss of the job is that of KerasParts '
        '(docs/jobs.md)',
        kind,
        method,
    )
