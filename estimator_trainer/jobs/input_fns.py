"""Calls a job's input_fn with the arguments that it names, as Estimator does. Imports no TensorFlow.

This is the one place that calls an input_fn or a serving_input_fn of a job.
"""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import source_text
from estimator_trainer.jobs.job_types import Mode, Params, RunConfig, ServingInputReceiver

if TYPE_CHECKING:
    import tensorflow as tf

_TRAIN = 'train'
ARGUMENTS = ('mode', 'params', 'config', 'input_context')
_BY_POSITION = ('mode', 'params', 'input_context')  # for arguments that have other names
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
_READING_START = ('start_step', 'array_batches', 'file_batches')
_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


class InputFnOfAll(Protocol):
    """An input_fn that takes all four arguments."""

    def __call__(
        self,
        mode: Mode,
        params: Params,
        input_context: 'tf.distribute.InputContext | None' = None,
        config: RunConfig = None,
    ) -> 'tf.data.Dataset': ...


def by_name(input_fn: Callable[..., 'tf.data.Dataset']) -> InputFnOfAll:
    """Wraps the input_fn of a job, so that it can be called with all four arguments.

    Args:
        input_fn: takes any of ARGUMENTS. If it takes three arguments, and some have other names, it gets `mode`,
            `params` and `input_context` in this order.
    """
    accepted = _accepted(input_fn, ARGUMENTS, _BY_POSITION)

    def call(
        mode: Mode, params: Params, input_context: 'tf.distribute.InputContext | None' = None, config: RunConfig = None
    ) -> 'tf.data.Dataset':
        given = {'mode': mode, 'params': params, 'config': config, 'input_context': input_context}
        return _call(input_fn, accepted, given, _BY_POSITION)

    return call


class _Params(dict[str, Any]):
    """Params that note whether `start_step` is read by its name, and whether all of them are copied: who has a copy
    reads `start_step` unseen."""

    has_read_start = is_copied = False
    _copied_next: list[str] = []  # `**params` and dict() ask for all names first, and then for each in their order

    def __getitem__(self, name: str) -> Any:
        if self._copied_next and name == self._copied_next[0]:
            self._copied_next = self._copied_next[1:]
        else:
            self._note(name)
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:  # without it, dict() and ** read past all of these
        return super().__iter__()

    def keys(self) -> Any:
        self.is_copied, self._copied_next = True, list(self)
        return super().keys()

    def get(self, name: str, default: Any = None) -> Any:
        self._note(name)
        return super().get(name, default)

    def pop(self, name: str, *default: Any) -> Any:
        self._note(name)
        return super().pop(name, *default)

    def setdefault(self, name: str, default: Any = None) -> Any:
        self._note(name)
        return super().setdefault(name, default)

    def _note(self, name: str) -> None:
        self._copied_next = []
        self.has_read_start = self.has_read_start or name == 'start_step'


def _copying(name: str) -> Callable[..., Any]:
    def method(params: _Params, *args: Any, **kwargs: Any) -> Any:
        params.is_copied = True
        return getattr(dict, name)(params, *args, **kwargs)

    return method


for _name in ('__or__', '__ror__', 'copy', 'items', 'values'):
    setattr(_Params, _name, _copying(_name))


def noticing_restart(input_fn: Callable[..., 'tf.data.Dataset'], notice: Callable[[], None]) -> InputFnOfAll:
    """An input_fn of a job, as `by_name` makes it, that calls `notice` the first time that it makes the training data
    of a run that resumes while nothing shows that it uses `start_step`: its data then begin anew.

    It shows if the input_fn has read `start_step` when it returns. If it has copied all params, the sources of its file
    and of the modules beside it decide: whether one names `start_step`, or what reads it in estimator_trainer.data.
    """
    has_noticed, called = False, by_name(input_fn)

    def call(
        mode: Mode, params: Params, input_context: 'tf.distribute.InputContext | None' = None, config: RunConfig = None
    ) -> 'tf.data.Dataset':
        nonlocal has_noticed
        if mode != _TRAIN or not params.get('start_step'):
            return called(mode, params, input_context, config)
        noted = _Params(params)
        given = called(mode, noted, input_context, config)
        if not (noted.has_read_start or (noted.is_copied and _may_read_start(input_fn)) or has_noticed):
            has_noticed = True
            notice()
        return given

    return call


def _may_read_start(input_fn: Callable[..., object]) -> bool:
    source = source_text.beside(input_fn)
    return source is None or any(name in source for name in _READING_START)


def data_sets_only(input_fn: InputFnOfAll, needed_by: Callable[[Mode], str]) -> InputFnOfAll:
    """An input_fn of `by_name` that refuses to give anything but a tf.data.Dataset where somebody needs one.

    Estimator takes tensors as well where one replica trains. With a strategy it also takes a function that gives them.

    Args:
        needed_by: (mode) -> who needs a data set, for a message; '': nobody.
    """

    def call(
        mode: Mode, params: Params, input_context: 'tf.distribute.InputContext | None' = None, config: RunConfig = None
    ) -> 'tf.data.Dataset':
        import tensorflow as tf  # of whoever calls

        given = input_fn(mode, params, input_context, config)
        if needed_by(mode) and not isinstance(given, tf.data.Dataset) and not callable(given):
            raise UsageError(
                f'the input_fn returns {described(given)} and no tf.data.Dataset, which {needed_by(mode)} needs: let '
                'it return the data set itself, and not the tensors that an iterator gives (get_next).'
            )
        return given

    return call


def described(given: Any) -> str:
    """What a function of a job has returned, for a message."""
    return 'nothing' if given is None else f'a {type(given).__name__}'


def serving(serving_input_fn: Callable[..., ServingInputReceiver]) -> Callable[[Params], ServingInputReceiver]:
    """Wraps the serving_input_fn of a job, which takes `params` or nothing, so that it can be called with `params`."""
    accepted = _accepted(serving_input_fn, ('params',), ('params',))
    return lambda params: _call(serving_input_fn, accepted, {'params': params}, ('params',))


def problem(input_fn: Callable[..., object]) -> str:
    """Why the trainer cannot call this as an input_fn, and what helps; '' if it can."""
    if _accepted(input_fn, ARGUMENTS, _BY_POSITION) is None:
        return ''
    unknown = [name for name, default in _parameters(input_fn).items() if not default and name not in ARGUMENTS]
    if not unknown:
        return ''
    return (
        f'the input_fn takes {", ".join(unknown)}, which nobody gives: an input_fn takes any of '
        f'{", ".join(ARGUMENTS)}, by these names. Bind the others with functools.partial, or make them params of '
        'the job.'
    )


def _call(
    function: Callable[..., Any],
    accepted: Mapping[str, bool] | None,
    given: Mapping[str, object],
    by_position: Sequence[str],
) -> Any:
    if accepted is None:
        return function(*(given[name] for name in by_position))
    # Without a context the default of an argument stays, as in Estimator.
    left_out = {name for name, has_default in accepted.items() if has_default and given[name] is None}
    return function(**{name: given[name] for name in accepted if name not in left_out})


def _accepted(
    function: Callable[..., object], known: Sequence[str], by_position: Sequence[str]
) -> dict[str, bool] | None:
    """Which of the known arguments a function takes by name, and whether each has a default.

    None: the function takes the arguments `by_position`.
    """
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a function in C
        return None
    parameters = _parameters(function)
    has_unknown = any(name not in known and not has_default for name, has_default in parameters.items())
    if has_unknown or any(each.kind in _POSITIONAL for each in signature.parameters.values()):
        names = list(signature.parameters)[: len(by_position)]
        if all(name == expected for name, expected in zip(names, by_position) if name in known):
            with contextlib.suppress(TypeError):
                signature.bind(*by_position)
                return None
    return {name: has_default for name, has_default in parameters.items() if name in known}


def _parameters(function: Callable[..., object]) -> dict[str, bool]:
    """The arguments that can be given by name, and whether each has a default. Those of `bound` are left out."""
    left_out = bound(function)
    return {
        name: each.default is not each.empty
        for name, each in inspect.signature(function).parameters.items()
        if each.kind in _NAMED and name not in left_out
    }


def taken(function: Callable[..., object], given: Mapping[str, Any]) -> dict[str, Any]:
    """Those of these arguments that a function takes by their names, and that nobody has bound."""
    takes = inspect.signature(function).parameters
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in takes.values())
    has_bound = bound(function)  # such as params: the job's own value stays, as with Estimator
    return {name: each for name, each in given.items() if (takes_all or name in takes) and name not in has_bound}


def bound(function: Callable[..., object]) -> set[str]:
    """The names of the arguments that `functools.partial` has bound by name. The signature of a function still has
    them, and a call may replace their values."""
    names: set[str] = set()
    inner: Any = function
    while True:
        if isinstance(inner, functools.partial):
            names |= set(inner.keywords)
            inner = inner.func
        elif hasattr(inner, '__wrapped__'):  # of functools.wraps, as inspect.signature sees it
            inner = inner.__wrapped__
        else:
            return names
