"""The type of a Job's input_fn, for editors and type checkers. Imports no TensorFlow.

An input_fn takes any of four arguments by their names, so the type has a protocol for each choice of them. A protocol
admits functions with further arguments, if these have defaults.
"""

from typing import TYPE_CHECKING, Protocol, TypeAlias

from estimator_trainer.jobs.job_types import Mode, Params, RunConfig

if TYPE_CHECKING:
    import tensorflow as tf


class _Nothing(Protocol):
    def __call__(self) -> 'tf.data.Dataset': ...


class _Mode(Protocol):
    def __call__(self, *, mode: Mode) -> 'tf.data.Dataset': ...


class _Params(Protocol):
    def __call__(self, *, params: Params) -> 'tf.data.Dataset': ...


class _Config(Protocol):
    def __call__(self, *, config: RunConfig) -> 'tf.data.Dataset': ...


class _InputContext(Protocol):
    def __call__(self, *, input_context: 'tf.distribute.InputContext | None') -> 'tf.data.Dataset': ...


class _ModeParams(Protocol):
    def __call__(self, *, mode: Mode, params: Params) -> 'tf.data.Dataset': ...


class _ModeConfig(Protocol):
    def __call__(self, *, mode: Mode, config: RunConfig) -> 'tf.data.Dataset': ...


class _ModeInputContext(Protocol):
    def __call__(self, *, mode: Mode, input_context: 'tf.distribute.InputContext | None') -> 'tf.data.Dataset': ...


class _ParamsConfig(Protocol):
    def __call__(self, *, params: Params, config: RunConfig) -> 'tf.data.Dataset': ...


class _ParamsInputContext(Protocol):
    def __call__(self, *, params: Params, input_context: 'tf.distribute.InputContext | None') -> 'tf.data.Dataset': ...


class _ConfigInputContext(Protocol):
    def __call__(
        self, *, config: RunConfig, input_context: 'tf.distribute.InputContext | None'
    ) -> 'tf.data.Dataset': ...


class _ModeParamsConfig(Protocol):
    def __call__(self, *, mode: Mode, params: Params, config: RunConfig) -> 'tf.data.Dataset': ...


class _ModeParamsInputContext(Protocol):
    def __call__(
        self, *, mode: Mode, params: Params, input_context: 'tf.distribute.InputContext | None'
    ) -> 'tf.data.Dataset': ...


class _ModeConfigInputContext(Protocol):
    def __call__(
        self, *, mode: Mode, config: RunConfig, input_context: 'tf.distribute.InputContext | None'
    ) -> 'tf.data.Dataset': ...


class _ParamsConfigInputContext(Protocol):
    def __call__(
        self, *, params: Params, config: RunConfig, input_context: 'tf.distribute.InputContext | None'
    ) -> 'tf.data.Dataset': ...


class _ModeParamsConfigInputContext(Protocol):
    def __call__(
        self, *, mode: Mode, params: Params, config: RunConfig, input_context: 'tf.distribute.InputContext | None'
    ) -> 'tf.data.Dataset': ...


class _InPlace(Protocol):  # a function of exactly three arguments gets these, whatever the names of its own are
    def __call__(
        self, mode: Mode, params: Params, input_context: 'tf.distribute.InputContext | None', /
    ) -> 'tf.data.Dataset': ...


InputFn: TypeAlias = (
    _Nothing
    | _Mode
    | _Params
    | _Config
    | _InputContext
    | _ModeParams
    | _ModeConfig
    | _ModeInputContext
    | _ParamsConfig
    | _ParamsInputContext
    | _ConfigInputContext
    | _ModeParamsConfig
    | _ModeParamsInputContext
    | _ModeConfigInputContext
    | _ParamsConfigInputContext
    | _ModeParamsConfigInputContext
    | _InPlace
)
