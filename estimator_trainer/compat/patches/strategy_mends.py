"""Mends of Estimators, and of checkpoints, under a strategy of several replicas or tasks."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

import tensorflow as tf

from estimator_trainer.compat import agreement, lacks
from estimator_trainer.compat.patches import python_all_reduce

_built_later: weakref.WeakKeyDictionary[tf.Graph, list[tf.compat.v1.train.Saver]] = weakref.WeakKeyDictionary()


def drive_clusters(module: Any) -> None:
    """Lets our `restore/estimator_training.py` run every cluster whose RunConfig has a strategy, on every TensorFlow.

    Touches: the name distribute_coordinator_training in the modules estimator, run_config and training of Estimator
    Without it: train_and_evaluate under a strategy: a bare KeyError: 'evaluator' for an evaluator that the cluster does
      not list, TrainSpec.saving_listeners dropped, silence when nobody evaluates
    For: every program
    """
    from estimator_trainer.compat.restore import estimator_training

    module.distribute_coordinator_training = estimator_training


def share_strategies(module: Any) -> None:
    """Lets the copies that Estimator makes of a RunConfig have its strategies, and not copies of these.

    Touches: RunConfig.__deepcopy__
    Without it: an Estimator with MultiWorkerMirroredStrategy ends with "cannot be deep copied in eager mode", in an
      evaluator and in a process that trains alone
    For: every program
    """

    def deep_copy(self: Any, memo: dict[int, Any]) -> Any:
        for value in vars(self).values():
            for each in value if isinstance(value, tuple) else (value,):  # a DistributeConfig is a tuple
                if isinstance(each, tf.distribute.Strategy | tf.compat.v1.distribute.Strategy):
                    memo[id(each)] = each
        copied = memo[id(self)] = copy.copy(self)
        vars(copied).update(copy.deepcopy(vars(self), memo))
        return copied

    module.RunConfig.__deepcopy__ = deep_copy


def add_up_wishes_with_loss(module: Any) -> None:
    """Lets the all-reduce of the loss in each step also add up what the tasks wish to do next.

    Touches: Estimator._actual_train_model_distributed and _call_model_fn, under MultiWorkerMirroredStrategy
    Without it: one more all-reduce in each step, and the steps of a small model are 15 % slower
    For: every program

    Hooks that stop or save have to do so in all tasks at the same step (`compat/agreement.py`). Estimator all-reduces
    the loss in each step, for its reports alone. A few more numbers in the same operation cost nothing that could be
    measured.
    """
    original = module.Estimator._actual_train_model_distributed

    @functools.wraps(original)
    def train(self: Any, strategy: tf.distribute.Strategy, *args: Any, **kwargs: Any) -> Any:
        if not agreement.has_several_tasks(strategy):
            return original(self, strategy, *args, **kwargs)
        losses, call_model_fn, reduce = [], self._call_model_fn, strategy.reduce

        def call_and_keep_loss(*args: Any, **kwargs: Any) -> tf.estimator.EstimatorSpec:
            spec = call_model_fn(*args, **kwargs)
            losses.append(spec.loss)
            return spec

        def reduce_with_wishes(reduce_op: tf.distribute.ReduceOp, value: Any, axis: int | None) -> tf.Tensor:
            first = strategy.experimental_local_results(value)[0]
            if not any(first is loss for loss in losses):
                return reduce(reduce_op, value, axis=axis)
            own_wishes = agreement.placeholder()
            wide = first.dtype if first.dtype in (tf.float32, tf.float64) else tf.float32  # wishes are whole numbers
            with_wishes = strategy.extended.call_for_each_replica(
                lambda loss: tf.concat([[tf.cast(loss, wide)], tf.cast(own_wishes, wide)], 0), args=(value,)
            )
            with python_all_reduce.of_each_step():
                total = reduce(reduce_op, with_wishes, axis=None)
            wishes = total[1:]
            if reduce_op == tf.distribute.ReduceOp.MEAN:
                wishes *= tf.cast(strategy.num_replicas_in_sync, wishes.dtype)
            agreement.of_graph(lambda: agreement.add_up(strategy, own_wishes), own_wishes, wishes)
            return tf.cast(total[0], first.dtype)

        self._call_model_fn, strategy.reduce = call_and_keep_loss, reduce_with_wishes
        try:
            return original(self, strategy, *args, **kwargs)
        finally:
            del self._call_model_fn, strategy.reduce

    module.Estimator._actual_train_model_distributed = train


def report_mean_loss(module: Any) -> None:
    """Lets canned Estimators report the loss of a step as one process does, whatever the number of replicas.

    Touches: head.base_head.create_estimator_spec_train_op of Estimator, and Graph._is_loss_scaled_by_optimizer
    Without it: canned Estimators under a strategy report the training loss times the number of replicas
    For: every program
    """
    original = module.create_estimator_spec_train_op

    @functools.wraps(original)
    def create(*args: Any, **kwargs: Any) -> tf.Operation:
        train_op = original(*args, **kwargs)
        mean = tf.losses.Reduction.SUM_OVER_BATCH_SIZE
        if kwargs.get('loss_reduction', mean) == mean and tf.distribute.get_strategy().num_replicas_in_sync > 1:
            # As V1 optimizers say it: the gradients are of a mean, so the loss to report is one, too.
            graph = tf.compat.v1.get_default_graph()
            with lacks.refused():
                if not graph._is_loss_scaled_by_optimizer:
                    graph._is_loss_scaled_by_optimizer = True
        return train_op

    module.create_estimator_spec_train_op = create


def build_savers_later(module: Any) -> None:
    """Lets a Saver that a model_fn makes under a strategy build its operations outside of the replica.

    Touches: tf.compat.v1.train.Saver.__init__ and _var_list, tf.compat.v1.train.Scaffold.finalize
    Without it: a model_fn with a BatchNormalization that makes a Saver fails under a strategy: "Method requires being
      in cross-replica context"
    For: every program

    Such a Saver reads variables that are averaged over all replicas, which a replica cannot do. Here
    `Scaffold.finalize`, which each session calls before it begins, builds them all.
    """
    saver_class, scaffold_class = tf.compat.v1.train.Saver, tf.compat.v1.train.Scaffold
    make_saver, finalize = saver_class.__init__, scaffold_class.finalize
    signature = inspect.signature(make_saver)
    keys = tf.compat.v1.GraphKeys

    @functools.wraps(make_saver)
    def make(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs)
        in_replica = tf.distribute.has_strategy() and not tf.distribute.in_cross_replica_context()
        if not in_replica or given.arguments.get('defer_build'):
            return make_saver(self, *args, **kwargs)
        variables = given.arguments.get('var_list')
        if variables is None:  # those that there are now, and not the optimizer's, which come later
            variables = [*map(tf.compat.v1.get_collection, (keys.GLOBAL_VARIABLES, keys.SAVEABLE_OBJECTS))]
            variables = [variable for collection in variables for variable in collection]
        if not isinstance(variables, (list, tuple, set)) or not any(map(_is_averaged, variables)):
            return make_saver(self, *args, **kwargs)
        given.arguments.update(var_list=None, defer_build=True)
        make_saver(*given.args, **given.kwargs)
        self._var_list = variables  # which the arguments forbid for a Saver that is built later
        _built_later.setdefault(tf.compat.v1.get_default_graph(), []).append(self)
        return None

    @functools.wraps(finalize)
    def build_and_finalize(self: Any) -> Any:
        for saver in _built_later.pop(tf.compat.v1.get_default_graph(), []):
            saver.build()
        return finalize(self)

    saver_class.__init__, scaffold_class.finalize = make, build_and_finalize


@contextlib.contextmanager
def averages_read_beforehand(variables: Iterable[tf.Variable]) -> Iterator[None]:
    """Reads variables that are averaged over all replicas, such as those of a BatchNormalization, in all tasks at once.

    Touches: _get_cross_replica of variables that are averaged over replicas
    Without it: a checkpoint of the chief alone waits for ever for the averages of other tasks
    For: the trainer

    Inside of it they give these values without the other tasks. A checkpoint reads them in an order of its own: so only
    the chief has to save one. Every task must name the same variables in the same order.
    """
    of_all = [variable for variable in variables if _is_averaged(variable) and variable._get_cross_replica]
    values = [variable.read_value() for variable in of_all]
    for variable, value in zip(of_all, values):
        variable._get_cross_replica = lambda value=value: value
    try:
        yield
    finally:
        for variable in of_all:
            del variable._get_cross_replica


def _is_averaged(variable: Any) -> bool:
    """Whether this is a variable that is averaged over the replicas, or added up, as it is read; or what saves one."""
    variable = getattr(variable, '_sync_on_read_variable', variable)
    is_read_from_all = getattr(variable, 'synchronization', None) == tf.VariableSynchronization.ON_READ
    return is_read_from_all and isinstance(variable, tf.distribute.DistributedValues)
