"""Which of the eight functions of tensorflow_estimator a canned Estimator calls, and with what.

Touches: _linear_model_fn, _dnn_model_fn and the others of tensorflow_estimator.python.estimator.canned, and its
  optimizers.get_optimizer_instance and get_optimizer_instance_v2
Without it: `migrate` would have to guess what an Estimator is made of
For: `migrate`
"""

from __future__ import annotations

import contextlib
import copy
import inspect
from collections.abc import Callable, Iterator
from typing import Any

import tensorflow as tf


@contextlib.contextmanager
def recorded_calls(calls: list[tuple[str, dict[str, Any]]]) -> Iterator[None]:
    """Appends (function, its arguments by name) to `calls` for each canned function that is called within it."""
    from tensorflow_estimator.python.estimator.canned import baseline, dnn, dnn_linear_combined, linear

    names = {
        linear: ('_linear_model_fn', '_linear_model_fn_v2'),
        dnn: ('_dnn_model_fn', 'dnn_model_fn_v2'),
        dnn_linear_combined: ('_dnn_linear_combined_model_fn', '_dnn_linear_combined_model_fn_v2'),
        baseline: ('_baseline_model_fn', '_baseline_model_fn_v2'),
    }
    with contextlib.ExitStack() as stack:
        for module, functions in names.items():
            for name in functions:
                original = getattr(module, name)
                setattr(module, name, _recorded(calls, name.strip('_'), original))
                stack.callback(setattr, module, name, original)
        yield


def _recorded(calls: list[tuple[str, dict[str, Any]]], name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        bound = inspect.signature(original).bind(*args, **kwargs)
        bound.apply_defaults()
        calls.append((name, dict(bound.arguments)))
        return original(*args, **kwargs)

    return function


@contextlib.contextmanager
def chosen_optimizers(chosen: list[Any]) -> Iterator[None]:
    """Appends to `chosen` the optimizers that a canned function makes of its arguments.

    Legacy ones can be used in one graph only: of one that the Estimator was given a copy is taken, and it may train
    afterwards.
    """
    from tensorflow_estimator.python.estimator.canned import optimizers

    with contextlib.ExitStack() as stack:
        for name in ('get_optimizer_instance', 'get_optimizer_instance_v2'):
            original = getattr(optimizers, name)
            setattr(optimizers, name, _kept(chosen, original))
            stack.callback(setattr, optimizers, name, original)
        yield


def _kept(results: list[Any], original: Callable[..., Any]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        optimizer = original(*args, **kwargs)
        if optimizer is next(iter(args), None) and isinstance(optimizer, tf.keras.optimizers.legacy.Optimizer):
            optimizer = copy.deepcopy(optimizer)
        results.append(optimizer)
        return optimizer

    return function


def head_setting(head: Any, name: str, default: Any = None) -> Any:
    """An argument with which the head of a canned Estimator was made.

    Touches: private attributes of the heads of tensorflow_estimator, such as _weight_column and _loss_reduction
    Without it: `migrate` cannot tell the loss of a canned Estimator
    For: `migrate`
    """
    return getattr(head, f'_{name}', default)
