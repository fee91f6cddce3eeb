"""What an exported model takes: the serving_input_fn of a job, or that of its data."""

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import tensorflow as tf

from estimator_trainer.compat.patches import seeds
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import input_fns, job_data
from estimator_trainer.jobs.job import Job
from estimator_trainer.jobs.job_types import ServingInputReceiver
from estimator_trainer.jobs.run_params import RunParams

if TYPE_CHECKING:
    from estimator_trainer.data.files.dataset import FileDataset

_log = logging.getLogger('estimator_trainer')
ServingInputFn: TypeAlias = Callable[[], ServingInputReceiver]


class NoReceiver(UsageError):
    """A serving_input_fn has returned something else."""


def serving_input_fn_of(job: Job, params: RunParams, dataset: 'job_data.Dataset | None') -> ServingInputFn | None:
    """() -> ServingInputReceiver: the job's own, or that of the data set; None for a job that says nothing of serving.

    Args:
        params: jobs.run_params.RunParams.
        dataset: of jobs.job_data; None for a job with an input_fn of its own.
    """
    if job.serving_input_fn is not None:
        called = input_fns.serving(job.serving_input_fn)

        def of_job() -> ServingInputReceiver:
            receiver = called(params.as_dict())
            if not (hasattr(receiver, 'features') and hasattr(receiver, 'receiver_tensors')):
                raise NoReceiver(
                    f'the serving_input_fn returns {input_fns.described(receiver)}, and a '
                    'tf.estimator.export.ServingInputReceiver is needed.'
                )
            return receiver

        return of_job
    if dataset is None:
        return None
    if dataset.image_shape is None:
        return parsed_examples(cast('FileDataset', dataset).serving_features)
    return raw_images(dataset.image_shape)


def check(serving_input_fn: ServingInputFn) -> None:
    """Refuses one that returns something else, before training costs hours. It is called in a graph that is thrown
    away. If it fails there, the export will say so: what it reads may not be there yet.

    Raises:
        UsageError: what it returns is no receiver.
    """
    with seeds.kept(), tf.Graph().as_default():
        try:
            serving_input_fn()
        except NoReceiver:
            raise
        except Exception as error:
            _log.debug('the serving_input_fn has failed in the check: %r', error)


def parsed_examples(features: Mapping[str, Any]) -> ServingInputFn:
    """A serving_input_fn that takes serialized tf.Examples. They hold float32, int64 and strings only: of a feature of
    another type, what they hold is converted. A model fails on a whole number that its type does not hold, as training
    does."""
    held = {name: feature._replace(dtype=_in_examples(feature.dtype)) for name, feature in features.items()}
    receive = tf.estimator.export.build_parsing_serving_input_receiver_fn(held)
    if held == dict(features):
        return receive
    if rounded := [name for name, feature in features.items() if feature.dtype == tf.float64]:
        _log.warning(
            'WARNING: an export takes tf.Examples, which hold no float64: served values of %s are rounded to float32',
            ', '.join(rounded),
        )

    def serving_input_fn() -> ServingInputReceiver:
        receiver = receive()
        converted = {name: _converted(name, at, features[name].dtype) for name, at in receiver.features.items()}
        return tf.estimator.export.ServingInputReceiver(converted, receiver.receiver_tensors)

    return serving_input_fn


def _converted(name: str, tensor: Any, dtype: tf.DType) -> Any:
    """A tensor of what tf.Examples hold, dense, sparse or ragged, in another type."""
    if isinstance(tensor, tf.SparseTensor):
        return tf.SparseTensor(tensor.indices, _converted(name, tensor.values, dtype), tensor.dense_shape)
    if isinstance(tensor, tf.RaggedTensor):
        return tensor.with_flat_values(_converted(name, tensor.flat_values, dtype))
    made = tf.cast(tensor, dtype)
    if tensor.dtype != tf.int64 or dtype == tf.int64:
        return made
    fits = tensor >= 0 if dtype == tf.uint64 else tf.equal(tf.cast(made, tf.int64), tensor)
    check = tf.debugging.Assert(tf.reduce_all(fits), [f'{name} is no {dtype.name}:', tf.boolean_mask(tensor, ~fits)])
    with tf.control_dependencies([check]):
        return tf.identity(made)


def _in_examples(dtype: tf.DType) -> tf.DType:
    if dtype == tf.string:
        return tf.string
    return tf.float32 if dtype.is_floating else tf.int64


def raw_images(image_shape: Iterable[int]) -> ServingInputFn:
    """A serving_input_fn that takes uint8 [batch, height, width, channels], any batch size."""

    def serving_input_fn() -> ServingInputReceiver:
        images = tf.compat.v1.placeholder(tf.uint8, [None, *image_shape], name='image')
        return tf.estimator.export.ServingInputReceiver({'image': images}, {'image': images})

    return serving_input_fn
