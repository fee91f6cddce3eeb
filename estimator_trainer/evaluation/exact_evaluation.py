"""An evaluation that counts each example once, whatever the batch size and the replicas."""

import contextlib
import logging
import os
from collections.abc import Callable
from typing import Protocol

import tensorflow as tf

from estimator_trainer.compat.patches import estimators, evaluation_mends, seeds
from estimator_trainer.data import batch
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import first_weights, input_fns, made_estimators
from estimator_trainer.jobs.input_fns import InputFnOfAll
from estimator_trainer.jobs.job import Job
from estimator_trainer.jobs.job_types import Estimator, EstimatorSpec, Mode, Params, RunConfig, Tensors
from estimator_trainer.jobs.run_params import RunParams
from estimator_trainer.run_dir import checkpoint_errors, checkpoints
from estimator_trainer.run_dir.run_folder import RunFolder

_log = logging.getLogger('estimator_trainer')


class EvaluationInputFn(Protocol):
    """Makes the batches of an evaluation, of one replica each."""

    def __call__(self, input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset: ...


class ModelFnOfAll(Protocol):
    """A model_fn that takes all arguments."""

    def __call__(
        self, features: Tensors, labels: Tensors, mode: Mode, params: Params, config: RunConfig
    ) -> EstimatorSpec: ...


def input_fn(of_job: InputFnOfAll, params: RunParams, run_config: RunConfig) -> EvaluationInputFn:
    """The input_fn of an evaluation, (input_context) -> data set: each example once, on any number of replicas.

    Args:
        of_job: (mode, params, input_context, config) -> data set, of jobs.input_fns.
        params: jobs.run_params.RunParams.
        run_config: of the evaluation.
    """

    def batches(input_context: tf.distribute.InputContext | None = None) -> tf.data.Dataset:
        replicas = input_context.num_replicas_in_sync if input_context else 1
        batches_of_job = of_job(tf.estimator.ModeKeys.EVAL, params.as_dict(), input_context, run_config)
        return for_all(batches_of_job, replicas)

    return batches


def estimator_of(job: Job, params: RunParams, run_config: RunConfig, restored: str | None = None) -> Estimator:
    """A job's Estimator, whose evaluation counts each example once.

    Args:
        restored: the checkpoint that it will restore; None: the newest of its model_dir.
    """
    if job.make_estimator is None:
        assert job.model_fn is not None
        return tf.estimator.Estimator(
            with_exact_loss(job.model_fn, restored), config=run_config, params=params.as_dict()
        )
    estimator = job.make_estimator(run_config, params.as_dict())
    made_estimators.check(estimator, run_config.model_dir)
    estimators.wrap_model_fn(estimator, made_estimators.warning_of(estimator))
    estimators.wrap_model_fn(estimator, with_exact_loss, restored)
    return estimator


def for_all(batches: tf.data.Dataset, replicas: int) -> tf.data.Dataset:
    """The batches of an evaluation, and empty ones for replicas that would get none in the last step.

    Where one replica is at the end of the data, Estimator ends the step for all of them, and the last
    examples may or may not have been counted.
    """
    if replicas == 1:
        return batches
    is_tuple = type(batches.element_spec) is tuple  # whose parts `map` gives one by one
    empty = batches.take(1).map(lambda *parts: batch.without_examples(parts if is_tuple else parts[0]))
    return batches.concatenate(empty.repeat(replicas - 1))


def with_exact_loss(model_fn: Callable[..., EstimatorSpec], restored: str | None = None) -> ModelFnOfAll:
    """A model_fn whose evaluation weighs the loss of each batch by its number of examples, and whose variables
    begin with weights that follow from the seed of the run.

    Estimator's own metric `loss` is the mean over batches: it counts a short last batch as a full
    one. Replicas that got no examples at the end of the data count nothing.
    """

    def wrapped(features: Tensors, labels: Tensors, mode: Mode, params: Params, config: RunConfig) -> EstimatorSpec:
        given = input_fns.taken(model_fn, dict(labels=labels, mode=mode, params=params, config=config))
        if labels is not None and 'labels' not in given and 'labels' not in input_fns.bound(model_fn):
            raise ValueError('The model_fn takes no labels, but the input_fn gives some.')
        seed = config.tf_random_seed or 0  # a make_estimator may have taken it away
        with seeds.begun_anew(seed), first_weights.of_seed(seed):
            try:
                spec = model_fn(features, **given)
            except UsageError:
                raise
            except Exception:
                tf.autograph.experimental.do_not_convert(_say_what_it_got)(features, mode)
                raise
        if not hasattr(spec, 'scaffold'):
            raise UsageError(
                f'the model_fn returns {input_fns.described(spec)} when mode is {mode!r}, and a '
                'tf.estimator.EstimatorSpec is needed.'
            )
        tf.autograph.experimental.do_not_convert(_refuse)(spec.scaffold, mode, config.model_dir, restored)
        if mode == tf.estimator.ModeKeys.TRAIN and config.is_chief and not RunFolder(config.model_dir).has_checkpoint:
            tf.autograph.experimental.do_not_convert(first_weights.warn_of_undecided)()
        if mode != tf.estimator.ModeKeys.EVAL or 'loss' in (spec.eval_metric_ops or {}):
            return spec
        examples = tf.cast(batch.size(labels, features), tf.float32)
        loss = tf.where(examples > 0, tf.cast(spec.loss, tf.float32), 0.0)
        tf.compat.v1.add_to_collection(evaluation_mends.OWN_LOSS_METRIC, 1)
        return spec._replace(
            eval_metric_ops={**(spec.eval_metric_ops or {}), 'loss': tf.compat.v1.metrics.mean(loss, weights=examples)}
        )

    return wrapped


def _say_what_it_got(features: Tensors, mode: Mode) -> None:
    """A line on a model_fn that has failed, if its input_fn has given no tensor: that is why, as a rule."""
    with contextlib.suppress(TypeError):  # keys that cannot be sorted
        leaves = tf.nest.flatten(features)
        if leaves and not any(tf.is_tensor(leaf) for leaf in leaves):
            _log.error(
                'the model_fn has failed on features without a tensor (%s) when mode is %r: let the input_fn return a '
                'tf.data.Dataset of (features, labels)',
                input_fns.described(features),
                mode,
            )


def _refuse(
    scaffold: tf.compat.v1.train.Scaffold | None, mode: Mode, model_dir: str | None, restored: str | None
) -> None:
    """Raises UsageError where the checkpoint is of another model, or where checkpoints would have a format that
    can be read, but not evaluated, sent or exported."""
    refuse_other_shapes(restored or model_dir and checkpoints.latest(model_dir), scaffold)
    saver = scaffold and scaffold.saver
    saver_def = getattr(saver, 'saver_def', None)  # a Scaffold takes a tf.train.Checkpoint as well
    writes_v1 = saver_def and saver_def.version == tf.compat.v1.train.SaverDef.V1
    if mode == tf.estimator.ModeKeys.TRAIN and writes_v1:
        raise UsageError(
            'the Saver in the Scaffold of the model_fn writes checkpoints in the old format V1; give it no '
            'write_version, and it writes V2. Checkpoints of format V1 that are there already are taken up.'
        )


def refuse_other_shapes(checkpoint: str | None, scaffold: tf.compat.v1.train.Scaffold | None) -> None:
    """Refuses a checkpoint whose variables have other shapes than those of the default graph.

    TensorFlow restores them without a word: the value of a variable then has another shape than the graph says, and
    some operation fails, or training goes on.

    Args:
        checkpoint: its prefix; None: nothing is restored.
        scaffold: of the graph, or None. If it has a Saver of its own, that one decides what is restored.

    Raises:
        UsageError: one has another shape.
    """
    if checkpoint is None or (scaffold and scaffold.saver):
        return
    try:
        saved = tf.train.load_checkpoint(checkpoint).get_variable_to_shape_map()
    except checkpoint_errors.UNREADABLE:  # who restores it says why
        return
    for variable in tf.compat.v1.global_variables():
        name = variable.name.partition(':')[0]
        if name in saved and not variable.shape.is_compatible_with(saved[name]):
            raise UsageError(
                f'the variable {name} has the shape {variable.shape.as_list()} in the model, and {saved[name]} in '
                f'{os.path.basename(checkpoint)}, which would be restored: the model has changed since it was saved. '
                'Use another --model_dir, or give the model its old sizes.'
            )
