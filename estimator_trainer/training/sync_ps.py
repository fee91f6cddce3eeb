"""--sync_ps: workers with parameter servers train in step, as SyncReplicasOptimizer let them.

In a step each worker computes the gradients of its batch, and adds them up on the parameter servers. The first worker,
the chief, waits there until all have done so, runs the job's train_op with the mean, and tells the others, each in a
queue of its own. The others run nothing else of the train_op.

tf.compat.v1.train.SyncReplicasOptimizer itself does not compute the step of one process:

- Its tokens are in one queue. A worker that is fast takes two of them, and its two batches make up a step.
- It divides a row of a sparse gradient by the number of workers that have met the row, and where indices are not
  sorted not at all.
- It needs a global_step. A canned Estimator gives its optimizers none, and counts the step in every worker.
"""

import contextlib
import errno
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

import tensorflow as tf

from estimator_trainer.compat import agreement
from estimator_trainer.compat.patches import graphs, optimizer_parts
from estimator_trainer.errors import UsageError
from estimator_trainer.evaluation.exact_evaluation import ModelFnOfAll
from estimator_trainer.jobs.job_types import EstimatorSpec, Mode, Params, RunConfig, Tensors
from estimator_trainer.run_dir import checkpoint_errors
from estimator_trainer.training import parameter_server, replica_effects, step_graph

_SUMMED_TYPES = (tf.float16, tf.float32, tf.float64)  # for which accumulators have kernels


def with_sync_updates(
    model_fn: ModelFnOfAll, worker: int, workers: int, start_step: int, timeout_secs: float
) -> ModelFnOfAll:
    """A model_fn whose optimizers apply the mean of the gradients of all workers.

    Args:
        model_fn: one that takes features, labels, mode, params and config.
        worker, workers: the number of this worker, and how many there are; 0 is the chief.
        start_step: from which this task has data.
        timeout_secs: within which all workers have to be ready for the first step.

    Raises (the new one):
        UsageError: the model_fn has a SyncReplicasOptimizer already, or applies no gradient.
    """

    def wrapped(features: Tensors, labels: Tensors, mode: Mode, params: Params, config: RunConfig) -> EstimatorSpec:
        if mode != tf.estimator.ModeKeys.TRAIN:
            return model_fn(features, labels, mode, params, config)
        updates = _Updates(worker, workers, start_step, timeout_secs)
        with updates.of_all_optimizers():
            spec = model_fn(features, labels, mode, params, config)
        return updates.of_spec(spec)

    return wrapped


class _Updates:
    """The gradients of one model_fn."""

    def __init__(self, worker: int, workers: int, start_step: int, timeout_secs: float):
        self._worker, self._workers, self._start_step = worker, workers, start_step
        self._timeout_secs = timeout_secs
        self._pushes: list[tf.Operation] = []
        self._variables: set[str] = set()
        self._left_overs: list[parameter_server.LeftOver] = []

    def of_all_optimizers(self) -> contextlib.AbstractContextManager[object]:
        """A context manager: optimizers that apply gradients meanwhile apply the mean of all workers'."""
        return optimizer_parts.apply_gradients_replaced(self._applies_mean, _refuse)

    def _applies_mean(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def apply_gradients(
            optimizer: tf.compat.v1.train.Optimizer,
            grads_and_vars: Iterable[tuple[Any, tf.Variable]],
            *args: Any,
            **kwargs: Any,
        ) -> Any:
            grads_and_vars = list(grads_and_vars)
            self._variables.update(replica_effects.names_of(variable for _, variable in grads_and_vars))
            means = [
                (gradient if gradient is None else self._mean(gradient, variable), variable)
                for gradient, variable in grads_and_vars
            ]
            return original(optimizer, means, *args, **kwargs)

        return apply_gradients

    def _mean(self, gradient: tf.Tensor | tf.IndexedSlices, variable: tf.Variable) -> tf.Tensor | tf.IndexedSlices:
        """Every worker builds all of the graph, so that variables are placed alike; only the chief runs what
        depends on a mean."""
        v1, name = tf.compat.v1, f'sync_ps/gradient/{len(self._pushes)}'
        sparse = isinstance(gradient, tf.IndexedSlices)
        if gradient.dtype not in _SUMMED_TYPES:
            raise UsageError(
                f'--sync_ps: the gradient of {variable.op.name} has the type {gradient.dtype.name}, which parameter '
                'servers cannot add up. Let the variable be float32, and cast what is read of it; or leave --sync_ps '
                'out.'
            )
        if sparse:
            gradient = _each_row_once(gradient)
        with tf.device(variable.device):
            if sparse:
                sums = v1.SparseConditionalAccumulator(gradient.dtype, shared_name=name, reduction_type='SUM')
                push, take = sums.apply_indexed_slices_grad, sums.take_indexed_slices_grad
            else:
                sums = v1.ConditionalAccumulator(gradient.dtype, variable.shape, name, reduction_type='SUM')
                push, take = sums.apply_grad, sums.take_grad
            self._pushes.append(push(gradient, parameter_server.NEVER_STALE))
            self._left_overs.append((sums.num_accumulated(), take(1)))
            total = take(self._workers)
            if sparse:
                return tf.IndexedSlices(total.values / self._workers, total.indices, gradient.dense_shape)
            return total / self._workers

    def of_spec(self, spec: EstimatorSpec) -> EstimatorSpec:
        """The EstimatorSpec whose train_op is the step of all workers."""
        if not self._pushes:
            raise UsageError(
                '--sync_ps: the model_fn applies no gradients; it needs an optimizer of tf.compat.v1.train.'
            )
        if any(push.graph is not spec.loss.graph or graphs.is_in_control_flow(push) for push in self._pushes):
            raise UsageError(
                '--sync_ps: the model_fn applies its gradients under a condition, as a dynamic loss scale does, and '
                'each worker would decide for itself; leave --sync_ps out, or let the model_fn apply them always.'
            )
        train_op = spec.train_op if isinstance(spec.train_op, tf.Operation) else spec.train_op.op
        changing = step_graph.needed([train_op])
        replica_effects.warn_of_weights('--sync_ps', changing, self._variables, 'from the batches of the chief alone')
        own = agreement.placeholder()
        (most,) = own.shape.as_list()
        in_step = parameter_server.Meeting('step', self._worker, self._workers, most)
        apart = parameter_server.Meeting('apart', self._worker, self._workers, most)
        with tf.control_dependencies(self._pushes):
            heard = in_step.add_up(tf.identity(own), [] if self._worker else [spec.train_op])
        agreement.of_graph(lambda: apart.add_up(tf.identity(own)), own, heard)
        start = parameter_server.Start(self._worker, self._workers, self._timeout_secs)
        at_end = parameter_server.end_meeting(self._worker, self._workers)
        left_overs = [
            *self._left_overs,
            *(pair for meeting in (in_step, apart, at_end) for pair in meeting.left_overs()),
        ]
        begins = _Begins(start, left_overs, self._start_step)
        return spec._replace(train_op=heard.op, training_hooks=[begins, *spec.training_hooks])


class _Begins(tf.estimator.SessionRunHook):
    """Lets no worker train before all are here, and the chief has taken what workers before them have left.

    Raises:
        agreed_start.StartRefused: a worker has not come in time.
        CannotReadCheckpoint: this task has found another checkpoint than the chief, and would read the examples
            of other steps than it trains.
    """

    def __init__(self, start: parameter_server.Start, left_overs: Iterable[parameter_server.LeftOver], step: int):
        self._start, self._left_overs, self._step = start, left_overs, step

    def begin(self) -> None:
        self._global_step = tf.compat.v1.train.get_global_step()

    def after_create_session(self, session: tf.compat.v1.Session, coord: tf.train.Coordinator) -> None:
        self._start.meet(session, lambda: self._take_left_overs(session))
        step = int(session.run(self._global_step))
        if step != self._step:
            raise checkpoint_errors.CannotReadCheckpoint(
                errno.EIO, f'the chief is at step {step}', f'checkpoint {self._step}'
            )

    def _take_left_overs(self, session: tf.compat.v1.Session) -> None:
        for number, take in self._left_overs:
            while session.run(number):
                session.run(take)


def _refuse(optimizer: tf.compat.v1.train.Optimizer, *args: Any, **kwargs: Any) -> NoReturn:
    raise UsageError('--sync_ps: the model_fn has a SyncReplicasOptimizer; give it the optimizer within alone.')


def _each_row_once(gradient: tf.IndexedSlices) -> tf.IndexedSlices:
    """The sum of rows with sorted indices. An accumulator adds up rows of sorted indices."""
    rows, places = tf.unique(gradient.indices)
    order = tf.argsort(rows)
    values = tf.math.unsorted_segment_sum(gradient.values, places, tf.size(rows))
    return tf.IndexedSlices(tf.gather(values, order), tf.gather(rows, order), gradient.dense_shape)
