"""The contract between a job and the trainer. Imports no TensorFlow."""

import dataclasses
import inspect
import numbers
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from estimator_trainer.errors import nearest
from estimator_trainer.jobs import input_fns, keras_model_fn, metric_names, param_values
from estimator_trainer.jobs.input_fn_types import InputFn
from estimator_trainer.jobs.job_types import (
    BestMode,
    Estimator,
    KerasMetric,
    KerasModel,
    KerasOptimizer,
    Params,
    RunConfig,
    ServingInputReceiver,
    Tensors,
)
from estimator_trainer.jobs.model_fn_types import ModelFn

if TYPE_CHECKING:
    import tensorflow as tf

    from estimator_trainer.data.files import FileSpec

# The params that the trainer adds to those of a job. A job's own params cannot have these names.
# `image_shape` is added if the job reads --dataset.
# `data.array_batches` and `data.file_batches` need `position_shift` after a change of the global batch.
# `replicas_per_task` is what they need of an input_fn without an input_context.
# `initial_replicas` is `num_replicas` at the beginning of the run. A learning rate may be scaled by it.
RUN_PARAMS = (
    'batch_size',
    'num_replicas',
    'initial_replicas',
    'replicas_per_task',
    'global_batch_size',
    'max_steps',
    'steps_per_epoch',
    'seed',
    'start_step',
    'position_shift',
    'image_shape',
)

_FLAG_OF = {'batch_size': '--batch_size', 'max_steps': '--max_steps', 'seed': '--seed'}

# The fields that are functions, with what each of them takes and gives.
_FUNCTIONS = {
    'model_fn': '(features, labels, mode, params) -> tf.estimator.EstimatorSpec',
    'make_estimator': '(run_config, params) -> tf.estimator.Estimator',
    'input_fn': '(mode, params, config, input_context) -> tf.data.Dataset',
    'serving_input_fn': '(params) -> ServingInputReceiver',
    'check': '(params) -> None',
    'make_model': '(params) -> tf.keras.Model',
    'file_spec': '(params) -> FileSpec',
    'loss': '(labels, outputs, params) -> losses of the examples, [batch, ...]',
    'make_optimizer': '(params) -> tf.keras.optimizers.legacy.Optimizer',
    'penalty': '(model, params) -> scalar or None',
    'metrics': '(params) -> {name: tf.keras.metrics.Metric}',
    'predictions': '(outputs) -> dict',
}


class JobError(ValueError):
    """A job cannot be found or is wrong, or it has no such param. The message is for the user."""


class _Named:
    """Refuses unknown and missing fields in one sentence. Type checkers see only the dataclass."""

    if not TYPE_CHECKING:

        def __new__(cls, *args, **given):
            fields = {field.name: field for field in dataclasses.fields(cls)}
            if list(inspect.signature(cls.__init__).parameters)[1:] != list(fields):
                return super().__new__(cls)  # a subclass that takes something else
            for name in given:
                if name not in fields:
                    known = nearest(name, fields) or f'; its fields are {", ".join(fields)}'
                    raise JobError(f'{cls.__name__}({name}=…): there is no such field{known}.')
            for name, field in list(fields.items())[len(args) :]:
                needed = field.default is field.default_factory is dataclasses.MISSING
                if needed and name not in given and (args or given):  # copy and pickle give no fields
                    raise JobError(f'{cls.__name__}(…): {name} is missing; give {name}=….')
            return super().__new__(cls)


def _refuse_what_is_no_function(made: 'Job | KerasParts') -> None:
    """Looks at the fields that are functions."""
    for field in dataclasses.fields(made):
        value = getattr(made, field.name)
        if field.name in _FUNCTIONS and value is not None and not callable(value):
            raise JobError(
                f'{type(made).__name__}({field.name}=…) is a {type(value).__name__}, and has to be a function: '
                f'{_FUNCTIONS[field.name]}.'
            )


class _DerivedMode(str):
    """'min' or 'max', derived from the name of the metric."""


def _as_they_are(outputs: Tensors) -> Mapping[str, Tensors]:
    if isinstance(outputs, (list, tuple)):  # named as in TensorFlow's own signatures
        return {f'output_{place}': output for place, output in enumerate(outputs)}
    return outputs if isinstance(outputs, dict) else {'outputs': outputs}


@dataclasses.dataclass(frozen=True)
class KerasParts(_Named):
    """The functions that a loop needs to train a Keras model.

    All three loops compute the loss of a step in the same way: the mean of the examples' losses over the global batch,
    plus the penalty once.

    Attributes:
        loss: `(labels, outputs, params) -> [batch, ...]`, not reduced. If an example has several losses, such as one
            for each pixel, their mean counts.
        make_optimizer: `(params) -> tf.keras.optimizers.legacy.Optimizer`, whose iterations are the global step.
            `jobs.optimizers` makes optimizers with the schedules of `jobs.schedules`. For Estimator, the optimizer of
            tf.compat.v1.train that computes the same is used.
        penalty: `(model, params) -> scalar or None`. It is added as it is, not divided by anything. The `losses` of the
            model do not count: for regularizers `tf.add_n(model.losses)` is the penalty, and what a layer adds by
            add_loss is better an output of the model, which `loss` adds for each example. A warning says so.
        metrics: `(params) -> {name: tf.keras.metrics.Metric}`, updated with (labels, outputs) of single examples. An
            evaluation has `loss` as well.
        predictions: `(outputs) -> dict` of the tensors that a SavedModel returns. By default these are the outputs; a
            single tensor is named 'outputs', those of a list 'output_0', 'output_1', ….
    """

    loss: 'Callable[[Tensors, Tensors, Params], tf.Tensor]'
    make_optimizer: Callable[[Params], KerasOptimizer]
    penalty: 'Callable[[KerasModel, Params], tf.Tensor | float | None] | None' = None
    metrics: Callable[[Params], Mapping[str, KerasMetric]] | None = None
    predictions: Callable[[Tensors], Mapping[str, Tensors]] = _as_they_are

    def __post_init__(self) -> None:
        _refuse_what_is_no_function(self)


@dataclasses.dataclass(frozen=True)
class Job(_Named):
    """A model and how to train it.

    A job has `make_model` and `parts`, and trains with every --loop; or it has a `model_fn` or a `make_estimator`, and
    trains with Estimator only. If a job with `make_model` also has a `model_fn`, Estimator uses this one.

    Attributes:
        make_model: `(params) -> tf.keras.Model`, not compiled. It takes the features as the input_fn returns them, and
            its output goes to `parts`. Initializers have seeds.
        parts: the functions that a loop needs to train the model.
        model_fn: `(features, labels, mode, params) -> tf.estimator.EstimatorSpec`. In TRAIN mode the loss is the mean
            over the batch of one replica, and the optimizer is one of tf.compat.v1.train. Inside Estimator these
            optimizers divide by the number of replicas, so that the sum of the gradients is that of the global batch.
        make_estimator: `(run_config, params) -> tf.estimator.Estimator`, for canned Estimators and subclasses. It must
            pass `run_config` to the Estimator.
        input_fn: `(mode, params, config, input_context) -> tf.data.Dataset` of batches of one replica, sharded by
            `input_context`. In TRAIN mode it repeats for ever, in EVAL mode it has each example once. Like Estimator's
            input_fn it takes any of the four arguments by these names, or none. `config` is a tf.estimator.RunConfig.
            `estimator_trainer.data.array_batches` makes such a data set from arrays. None: the data set of `--dataset`,
            with features {'image': uint8 [batch, height, width, channels]} and int64 labels [batch].
        file_spec: `(params) -> estimator_trainer.data.files.FileSpec`. A job that has it, and no input_fn, reads
            `--train_files` and `--eval_files`.
        serving_input_fn: `(params) -> ServingInputReceiver`, or without arguments. None: an export takes raw images if
            the job reads `--dataset`, and serialized tf.Examples if it reads files; a job with its own input_fn is not
            exported.
        params: the default of each param. A value is a bool, int, float or str, or a list of numbers or strings, which
            a job gets as a list. `--param` overrides them.
        best_metric, best_mode: the evaluation metric that decides which checkpoint is `export/best`, and whether lower
            ('min') or higher ('max') is better. If the metric's name says it (`loss`, `accuracy`, `auc`), best_mode may
            be left out.
        check: `(params) -> None`, raises ValueError for params that cannot work. It is called before anything starts,
            and before TensorFlow is imported unless the job's own module imports it.
        num_train_examples: the number of training examples, for `--epochs` with an input_fn of the job's own.
        same_eval_data: the job's own input_fn returns the same data for each evaluation. Then an Estimator's
            evaluations keep their graph. Otherwise input_fn and model_fn are called for each checkpoint, as in
            `Estimator.evaluate`.
    """

    model_fn: ModelFn | None = None
    make_estimator: Callable[[RunConfig, Params], Estimator] | None = None
    input_fn: InputFn | None = None
    serving_input_fn: Callable[[Params], ServingInputReceiver] | Callable[[], ServingInputReceiver] | None = None
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    check: Callable[[Params], None] | None = None
    best_metric: str = 'loss'
    best_mode: BestMode | None = None
    num_train_examples: int | None = None
    same_eval_data: bool = False
    make_model: Callable[[Params], KerasModel] | None = None
    parts: KerasParts | None = None
    file_spec: 'Callable[[Params], FileSpec] | None' = None

    def __post_init__(self) -> None:
        _refuse_what_is_no_function(self)
        if self.parts is not None and not isinstance(self.parts, KerasParts):
            raise JobError(f'Job(parts=…) is a {type(self.parts).__name__}; give KerasParts(loss=…, make_optimizer=…).')
        if not isinstance(self.params, Mapping):
            raise JobError(f"Job(params=…) is a {type(self.params).__name__}; give a dict: {{'learning_rate': 0.01}}.")
        number = self.num_train_examples
        if number is not None and (not isinstance(number, numbers.Integral) or number < 1):
            raise JobError(f'Job(num_train_examples={number!r}): give a whole number of at least 1, or None.')
        if (self.make_model is None) != (self.parts is None):
            raise JobError('make_model and parts go together: the model, and what trains it.')
        # `dataclasses.replace` passes derived values on. They are derived again from the changed fields.
        if keras_model_fn.is_made(self.model_fn):
            object.__setattr__(self, 'model_fn', None)
        if isinstance(self.best_mode, _DerivedMode):
            object.__setattr__(self, 'best_mode', None)
        if self.make_model is not None and self.parts is not None and self.model_fn is None:
            object.__setattr__(self, 'model_fn', keras_model_fn.make(self.make_model, self.parts))
        if (self.model_fn is None) == (self.make_estimator is None):
            raise JobError('A Job has a make_model, or else either a model_fn or a make_estimator.')
        if self.best_mode is None:
            known = metric_names.known_mode(self.best_metric)
            if known is None:
                raise JobError(
                    f'best_metric={self.best_metric!r}: say whether lower or higher is better, by '
                    "best_mode='min' or 'max'."
                )
            object.__setattr__(self, 'best_mode', _DerivedMode(known))
        if self.best_mode not in metric_names.MODES:
            raise JobError(f"best_mode is 'min' or 'max'; got {self.best_mode!r}.")
        problem = self.input_fn and input_fns.problem(self.input_fn)
        if problem:
            raise JobError(f'{problem[0].upper()}{problem[1:]}')
        for name, value in self.params.items():
            if name in RUN_PARAMS:
                raise JobError(
                    f'The trainer sets {name!r} itself: leave it out, and params[{name!r}] has the value of this run '
                    f'({_FLAG_OF.get(name, "docs/jobs.md")}). If the job means something else by it, rename it.'
                )
            problem = param_values.problem(value)
            if problem:
                raise JobError(f'The default of param {name!r} is {problem}.')
