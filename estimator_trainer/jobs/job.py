"""The contract between a job and the trainer. Imports no TensorFlow."""

import dataclasses
import difflib
import importlib
import importlib.abc
import importlib.machinery
import inspect
import math
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

from estimator_trainer.jobs import keras_model_fn

BUILT_IN = {'mnist': 'estimator_trainer.jobs.mnist:job', 'fashion_mnist': 'estimator_trainer.jobs.fashion_mnist:job'}

_HEAVY = ('tensorflow', 'tensorflow_datasets', 'tensorflow_estimator', 'tf_keras', 'keras')

# What the trainer adds to the params it hands to a job; a job's own params may not use these names.
# `image_shape` is there where the job reads --dataset.
# `initial_replicas` is `num_replicas` as the run began: what a learning rate may be scaled by.
RUN_PARAMS = (
    'batch_size',
    'num_replicas',
    'initial_replicas',
    'global_batch_size',
    'max_steps',
    'steps_per_epoch',
    'seed',
    'start_step',
    'image_shape',
)


class JobError(ValueError):
    """A job that cannot be found, or a param that it does not have. The message is for the user."""


def _as_they_are(outputs):
    return outputs if isinstance(outputs, dict) else {'outputs': outputs}


@dataclasses.dataclass(frozen=True)
class KerasParts:
    """What a loop needs beside the Keras model. All three loops compute the loss of a step from these:
    the mean over the global batch of the examples' losses, and once the penalty.

    Attributes:
        loss: `(labels, outputs, params) -> [batch, ...]`: not reduced. What an example has several of,
            such as the losses of its pixels, is averaged.
        make_optimizer: `(params) -> tf.keras.optimizers.legacy.Optimizer`, whose iterations are the
            global step. `jobs.optimizers` has them with `jobs.schedules`. For Estimator it becomes the
            one of tf.compat.v1.train that computes the same.
        penalty: `(model, params) -> scalar or None`: whole, not divided by anything. The model's own
            `losses` (regularizers) do not count.
        metrics: `(params) -> {name: tf.keras.metrics.Metric}`, updated with (labels, outputs) of single
            examples. The evaluation has `loss` beside them.
        predictions: `(outputs) -> dict` of tensors that a SavedModel gives; by default the outputs as
            they are, a single tensor as 'outputs'.
    """

    loss: Callable
    make_optimizer: Callable
    penalty: Callable | None = None
    metrics: Callable | None = None
    predictions: Callable = _as_they_are


@dataclasses.dataclass(frozen=True)
class Job:
    """What is trained.

    Either `make_model` and `parts`, for every --loop; or `model_fn`, or `make_estimator`, for Estimator
    only. A `model_fn` beside `make_model` replaces the one that is made of it.

    Attributes:
        make_model: `(params) -> tf.keras.Model`, not compiled, that takes the features as the input_fn
            gives them. Initializers have seeds. Its output goes to `parts`.
        parts: KerasParts.
        model_fn: `(features, labels, mode, params) -> tf.estimator.EstimatorSpec`. In TRAIN mode the
            loss is the mean over the per-replica batch, and the optimizer one of tf.compat.v1.train:
            inside Estimator those divide by the number of replicas, so that the summed gradients are
            those of the global batch.
        make_estimator: `(run_config, params) -> tf.estimator.Estimator`, for canned Estimators and
            subclasses. Must pass `run_config` on.
        input_fn: `(mode, params, input_context) -> tf.data.Dataset` of per-replica batches, sharded
            by `input_context`; TRAIN repeats for ever, EVAL gives each example once.
            `estimator_trainer.data.array_batches` does it for arrays. None: the data set of
            `--dataset`, with features {'image': uint8 [batch, height, width, channels]} and int64
            labels [batch].
        serving_input_fn: `(params) -> ServingInputReceiver`; None: raw images where the job reads
            `--dataset`, and no export where it has its own input_fn.
        params: name -> default. Values are bool, int, float or str; `--param` overrides them.
        best_metric, best_mode: the evaluation metric that `export/best` goes by, and 'min' or 'max'.
        check: `(params) -> None`, called before anything starts, and before TensorFlow is imported unless the
            job's own module imports it; raises ValueError for params that cannot work.
        num_train_examples: for `--epochs` with an input_fn of the job's own.
    """

    model_fn: Callable | None = None
    make_estimator: Callable | None = None
    input_fn: Callable | None = None
    serving_input_fn: Callable | None = None
    params: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    check: Callable | None = None
    best_metric: str = 'loss'
    best_mode: str = 'min'
    num_train_examples: int | None = None
    make_model: Callable | None = None
    parts: KerasParts | None = None

    def __post_init__(self):
        if (self.make_model is None) != (self.parts is None):
            raise JobError('make_model and parts go together: the model, and what trains it.')
        if self.make_model is not None and self.model_fn is None:
            object.__setattr__(self, 'model_fn', keras_model_fn.make(self.make_model, self.parts))
        if (self.model_fn is None) == (self.make_estimator is None):
            raise JobError('A Job has a make_model, or else either a model_fn or a make_estimator.')
        if self.best_mode not in ('min', 'max'):
            raise JobError(f"best_mode is 'min' or 'max'; got {self.best_mode!r}.")
        for name, value in self.params.items():
            if name in RUN_PARAMS:
                raise JobError(f'The trainer sets {name!r} itself: rename this param of the job.')
            if not isinstance(value, (bool, int, float, str)):
                raise JobError(
                    f'The default of param {name!r} is a {type(value).__name__}; only bool, '
                    'int, float and str can be set by --param.'
                )


def load(name: str) -> Job:
    """Finds a job by built-in name or `package.module:attribute`.

    The attribute is a Job, or a function without arguments that returns one. Modules in the current
    folder are found.

    Raises:
        JobError: there is no such job; the message offers the nearest name.
    """
    path = BUILT_IN.get(name, name)
    module_name, colon, attribute = path.partition(':')
    if not colon or not module_name or module_name.startswith('.') or not attribute:
        raise JobError(
            f'--job={name}: no built-in job has this name{_nearest(name, BUILT_IN)}. '
            f'Built in: {", ".join(sorted(BUILT_IN))}. Your own: --job=package.module:attribute'
        )
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + '.').startswith(error.name + '.'):
            raise  # the job's module is there, and imports something that is not
        raise JobError(f'--job={name}: no module named {error.name!r} in {os.getcwd()} or on PYTHONPATH.') from error
    except SyntaxError as error:
        raise JobError(f'--job={name}: {error.filename}, line {error.lineno}: {error.msg}.') from error
    if not hasattr(module, attribute):
        raise JobError(
            f'--job={name}: module {module_name} has no attribute {attribute!r}{_nearest(attribute, vars(module))}.'
        )
    job = getattr(module, attribute)
    if callable(job) and not isinstance(job, Job):
        try:
            inspect.signature(job).bind()
        except TypeError as error:
            raise JobError(f'--job={name}: {attribute} must take no arguments ({error}).') from error
        job = job()
    if not isinstance(job, Job):
        raise JobError(f'--job={name}: {attribute} is a {type(job).__name__}, not an estimator_trainer.jobs.Job.')
    return job


def load_early(name: str) -> Job | None:
    """`load`, before TensorFlow is there; None for a job whose modules import it.

    Whoever gets None calls `load` once `tf.estimator` is in place.
    """
    before = set(sys.modules)
    guard = _NoTensorFlow()
    sys.meta_path.insert(0, guard)
    try:
        job = load(name)
    except Exception:
        if not guard.met:
            raise
    finally:
        sys.meta_path.remove(guard)
    if not guard.met:
        return job
    _forget(set(sys.modules) - before)  # they may have made do without it
    return None


def _forget(modules) -> None:
    """Lets these modules be imported anew: Python's own aside, and compiled packages, which cannot."""
    kept = set(sys.stdlib_module_names)
    for name in modules:
        file = getattr(sys.modules[name], '__file__', None) or ''
        if file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
            kept.add(name.partition('.')[0])
    for name in modules:
        if name.partition('.')[0] not in kept:
            del sys.modules[name]


class _NoTensorFlow(importlib.abc.MetaPathFinder):
    """Refuses to import TensorFlow, and remembers that somebody wanted to."""

    met = False

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition('.')[0] in _HEAVY:
            self.met = True
            raise ImportError(f'{fullname} is not to be imported yet', name=fullname)
        return None


def typed_params(defaults: Mapping[str, Any], overrides) -> dict:
    """The job's params, with `name=value` strings typed by the defaults.

    Raises:
        JobError: not `name=value`, an unknown name (the nearest is offered), or a value of another
            type than the default's.
    """
    params = dict(defaults)
    for override in overrides:
        name, equals, text = override.partition('=')
        if not equals:
            raise JobError(f'--param={override}: write --param=name=value.')
        if name not in defaults:
            known = ', '.join(sorted(defaults)) or 'none'
            raise JobError(
                f'--param={override}: the job has no param {name!r}{_nearest(name, defaults)}. It has: {known}.'
            )
        try:
            params[name] = _parse(text, type(defaults[name]))
        except ValueError:
            raise JobError(
                f'--param={override}: {name} is {_article(defaults[name])}, like its '
                f'default {defaults[name]!r}; got {text!r}.'
            ) from None
    return params


def _parse(text, kind):
    if kind is bool:
        if text.lower() not in ('true', 'false', '1', '0'):
            raise ValueError(text)
        return text.lower() in ('true', '1')
    value = kind(text)
    if kind is float and not math.isfinite(value):
        raise ValueError(text)
    return value


def _article(value) -> str:
    return {'int': 'an int', 'str': 'a string'}.get(type(value).__name__, f'a {type(value).__name__}')


def _nearest(name, known) -> str:
    close = difflib.get_close_matches(name, list(known), n=1)
    return f' (did you mean {close[0]!r}?)' if close else ''
