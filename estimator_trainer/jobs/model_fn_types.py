"""The type of a Job's model_fn, for editors and type checkers. Imports no TensorFlow.

A model_fn takes the features and any of four arguments by their names, so the type has a protocol for each choice of
them. A protocol admits functions with further arguments, if these have defaults.
"""

from typing import Any, Protocol, TypeAlias

from estimator_trainer.jobs.job_types import EstimatorSpec, Mode, Params, RunConfig


class _Nothing(Protocol):
    def __call__(self, features: Any, /) -> EstimatorSpec: ...


class _Labels(Protocol):
    def __call__(self, features: Any, /, *, labels: Any) -> EstimatorSpec: ...


class _Mode(Protocol):
    def __call__(self, features: Any, /, *, mode: Mode) -> EstimatorSpec: ...


class _Params(Protocol):
    def __call__(self, features: Any, /, *, params: Params) -> EstimatorSpec: ...


class _Config(Protocol):
    def __call__(self, features: Any, /, *, config: RunConfig) -> EstimatorSpec: ...


class _LabelsMode(Protocol):
    def __call__(self, features: Any, /, *, labels: Any, mode: Mode) -> EstimatorSpec: ...


class _LabelsParams(Protocol):
    def __call__(self, features: Any, /, *, labels: Any, params: Params) -> EstimatorSpec: ...


class _LabelsConfig(Protocol):
    def __call__(self, features: Any, /, *, labels: Any, config: RunConfig) -> EstimatorSpec: ...


class _ModeParams(Protocol):
    def __call__(self, features: Any, /, *, mode: Mode, params: Params) -> EstimatorSpec: ...


class _ModeConfig(Protocol):
    def __call__(self, features: Any, /, *, mode: Mode, config: RunConfig) -> EstimatorSpec: ...


class _ParamsConfig(Protocol):
    def __call__(self, features: Any, /, *, params: Params, config: RunConfig) -> EstimatorSpec: ...


class _LabelsModeParams(Protocol):
    def __call__(self, features: Any, /, *, labels: Any, mode: Mode, params: Params) -> EstimatorSpec: ...


class _LabelsModeConfig(Protocol):
    def __call__(self, features: Any, /, *, labels: Any, mode: Mode, config: RunConfig) -> EstimatorSpec: ...


class _LabelsParamsConfig(Protocol):
    def __call__(self, features: Any, /, *, labels: Any, params: Params, config: RunConfig) -> EstimatorSpec: ...


class _ModeParamsConfig(Protocol):
    def __call__(self, features: Any, /, *, mode: Mode, params: Params, config: RunConfig) -> EstimatorSpec: ...


class _LabelsModeParamsConfig(Protocol):
    def __call__(
        self, features: Any, /, *, labels: Any, mode: Mode, params: Params, config: RunConfig
    ) -> EstimatorSpec: ...


ModelFn: TypeAlias = (
    _Nothing
    | _Labels
    | _Mode
    | _Params
    | _Config
    | _LabelsMode
    | _LabelsParams
    | _LabelsConfig
    | _ModeParams
    | _ModeConfig
    | _ParamsConfig
    | _LabelsModeParams
    | _LabelsModeConfig
    | _LabelsParamsConfig
    | _ModeParamsConfig
    | _LabelsModeParamsConfig
)
