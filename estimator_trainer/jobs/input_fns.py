"""Calls a job's input_fn with the arguments that it names, as Estimator does. Imports no TensorFlow.

This is the one place that calls an input_fn or a serving_input_fn of a job.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

from estimator_trainer.errors import UsageError

ARGUMENTS = ('mode', 'params', 'config', 'input_context')
_IN_PLACE = ('mode', 'params', 'input_context')  # for arguments that have other names
_BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def by_name(input_fn: Callable) -> Callable:
    """The input_fn of a job as `(mode, params, input_context=None, config=None) -> tf.data.Dataset`.

    Args:
        input_fn: takes any of ARGUMENTS. One that takes three arguments, some of other names, gets `mode`, `params` and
            `input_context` in this order.
    """
    wanted = _wanted(input_fn, ARGUMENTS, _IN_PLACE)

    def call(mode, params, input_context=None, config=None):
        given = {'mode': mode, 'params': params, 'config': config, 'input_context': input_context}
        return _call(input_fn, wanted, given, _IN_PLACE)

    return call


def data_sets_only(input_fn: Callable, needed_by: Callable[[str], str]) -> Callable:
    """An input_fn of `by_name` that refuses to give anything but a tf.data.Dataset where somebody needs one.

    Estimator takes tensors as well where one replica trains. With a strategy it also takes a function that gives them.

    Args:
        needed_by: (mode) -> who needs a data set, for a message; '': nobody.
    """

    def call(mode, params, input_context=None, config=None):
        import tensorflow as tf  # of whoever calls

        given = input_fn(mode, params, input_context, config)
        if needed_by(mode) and not isinstance(given, tf.data.Dataset) and not callable(given):
            raise UsageError(
                f'the input_fn returns {_described(given)} and no tf.data.Dataset, which {needed_by(mode)} needs: let '
                'it return the data set itself, and not the tensors that an iterator gives (get_next).'
            )
        return given

    return call


def _described(given: Any) -> str:
    return 'nothing' if given is None else f'a {type(given).__name__}'


def serving(serving_input_fn: Callable) -> Callable:
    """The serving_input_fn of a job, which takes `params` or nothing, as `(params) -> ServingInputReceiver`."""
    wanted = _wanted(serving_input_fn, ('params',), ('params',))
    return lambda params: _call(serving_input_fn, wanted, {'params': params}, ('params',))


def problem(input_fn: Callable) -> str:
    """Why nobody can call this as an input_fn, and what helps; '' if it can be called."""
    if _wanted(input_fn, ARGUMENTS, _IN_PLACE) is None:
        return ''
    unknown = [name for name, default in _parameters(input_fn).items() if not default and name not in ARGUMENTS]
    if not unknown:
        return ''
    return (
        f'the input_fn takes {", ".join(unknown)}, which nobody gives: an input_fn takes any of '
        f'{", ".join(ARGUMENTS)}, by these names. Bind the others with functools.partial, or make them params of '
        'the job.'
    )


def _call(function, wanted, given, in_place):
    if wanted is None:
        return function(*(given[name] for name in in_place))
    # As Estimator does: without a context a default stands.
    left = {name for name, has_default in wanted.items() if has_default and given[name] is None}
    return function(**{name: given[name] for name in wanted if name not in left})


def _wanted(function: Callable, known: Sequence[str], in_place: Sequence[str]) -> dict[str, bool] | None:
    """Which of the known arguments a function takes -> whether each has a default. None: they are given in place."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # of a function in C
        return None
    found = _parameters(function)
    strange = any(name not in known and not has_default for name, has_default in found.items())
    if strange or any(each.kind in _BY_PLACE for each in signature.parameters.values()):
        names = list(signature.parameters)[: len(in_place)]
        if all(name == place for name, place in zip(names, in_place) if name in known):
            with contextlib.suppress(TypeError):
                signature.bind(*in_place)
                return None
    return {name: has_default for name, has_default in found.items() if name in known}


def _parameters(function: Any) -> dict[str, bool]:
    """Arguments that can be given by name -> whether each has a default. What `functools.partial` has bound is none."""
    bound: set[str] = set()
    inner = function
    while isinstance(inner, functools.partial):
        bound |= set(inner.keywords)
        inner = inner.func
    return {
        name: each.default is not each.empty
        for name, each in inspect.signature(function).parameters.items()
        if each.kind in _BY_NAME and name not in bound
    }
