"""Finds variables that the graph of a step would change, by operations that nobody runs: averages that never move.

A BatchNormalization in a model_fn adds updates of its averages to the graph, and leaves it to the model_fn to run them:
Keras lists them in `layer.updates`, tf.compat.v1.layers in the collection UPDATE_OPS. If the train_op does not wait for
them, the loss falls all the same, and evaluations use averages that are still 0 and 1.

An operation is such an update if all of this is true. What cannot be decided is none.

1. It assigns floating-point numbers to a variable that is saved and is not trained.
2. The new value depends on the old one, and on a batch or a weight. So it is no initial or restored value, and no copy.
3. It depends on no placeholder, such as Keras's learning phase: nobody says what that would be.
4. Neither the step nor a hook runs it, and the step does not change the variable in any other way.
5. The step changes something else of the same layer, if there is anything else: the layer is not frozen.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from estimator_trainer.compat import lacks
from estimator_trainer.jobs.job_types import EstimatorSpec
from estimator_trainer.training import step_graph

_log = logging.getLogger('estimator_trainer')
v1 = tf.compat.v1
_ADD = {'AssignAddVariableOp', 'AssignSubVariableOp', 'AssignAdd', 'AssignSub'}
_REPLACE = {'AssignVariableOp', 'Assign'}
_VARIABLES = {'VarHandleOp', 'VariableV2', 'Variable'}
_OF_REPLICA = re.compile(r'/replica_\d+$')
_SHOWN = 4  # names of variables


def warn(spec: EstimatorSpec, hooks: Iterable[tf.compat.v1.train.SessionRunHook]) -> None:
    """Says which variables nobody moves, and what helps.

    Args:
        spec: of a training step, whose graph is the default one.
        hooks: all of the job.
    """
    with lacks.or_without():
        updates = unrun(_targets(spec), hooks)
        if updates:
            _log.warning('WARNING: %s', sentence(updates))


def sentence(updates: list[tf.Operation]) -> str:
    """The warning about these operations."""
    names = list(dict.fromkeys(_assigned(op) for op in updates))
    named = ', '.join(names[:_SHOWN]) + f' and {len(names) - _SHOWN} others' * (len(names) > _SHOWN)
    if any(op in v1.get_collection(v1.GraphKeys.UPDATE_OPS) for op in updates):
        cure = 'tf.control_dependencies(tf.compat.v1.get_collection(tf.compat.v1.GraphKeys.UPDATE_OPS))'
    else:
        cure = (
            'tf.control_dependencies(layer.updates), with the Keras layer or model that they are of; averages of '
            'ExponentialMovingAverage move if the train_op waits for what apply has returned'
        )
    return (
        f'nobody runs the operations that update {named}: these keep their first values, which evaluations and exports '
        f'use. Make the train_op within {cure} (docs/recipes.md, batch normalization).'
    )


def unrun(
    targets: Iterable[tf.Operation], hooks: Iterable[tf.compat.v1.train.SessionRunHook] = ()
) -> list[tf.Operation]:
    """The updates that nobody runs, of the default graph.

    Args:
        targets: operations that are run.
        hooks: all of the job.
    """
    if any(_may_run_anything(hook) for hook in hooks):
        return []
    ops = v1.get_default_graph().get_operations()
    run = set(step_graph.needed([*targets, *_held_by(hooks)]))
    weights, variables = _names(v1.trainable_variables()), _names(v1.global_variables())
    floats = _names(variable for variable in v1.global_variables() if variable.dtype.base_dtype.is_floating)
    functions = step_graph.Functions(ops[0].graph)
    changed = {_variable(tensor.op) for op in run if functions.may_write(op) for tensor in op.inputs}
    unmoved = floats - weights - changed
    idle = [op for op in ops if op.type in _ADD | _REPLACE and op not in run and _assigned(op) in unmoved]
    if not idle:
        return []
    moved = step_graph.computed_with(op for op in ops if op.type in step_graph.ASKS or _variable(op) in weights)
    unknown = step_graph.computed_with(op for op in ops if op.type.startswith('Placeholder'))
    idle = [op for op in idle if op in moved and op not in unknown and _depends_on_old_value(op)]
    of_layers = variables - {_assigned(op) for op in idle}
    return [op for op in idle if not _is_frozen(_assigned(op), of_layers, changed)]


def _targets(spec: EstimatorSpec) -> list[tf.Operation]:
    """What a step of training runs, or what somebody runs who has the scaffold; and the metrics of an evaluation."""
    scaffold = spec.scaffold
    others = [getattr(scaffold, name, None) for name in ('init_op', 'local_init_op', 'ready_op', 'summary_op')]
    others += v1.get_collection(v1.GraphKeys.SUMMARIES)
    return _operations([spec.train_op, spec.loss, others, spec.eval_metric_ops])


def _held_by(hooks: Iterable[tf.compat.v1.train.SessionRunHook]) -> list[tf.Operation]:
    return _operations([list(vars(hook).values()) for hook in hooks])


def _operations(structure: Any) -> list[tf.Operation]:
    """Those within lists and dicts, whose keys may be tensors, which tf.nest cannot sort."""
    if isinstance(structure, (tf.Operation, tf.Tensor)):
        return [getattr(structure, 'op', structure)]
    values = structure.values() if isinstance(structure, Mapping) else structure
    if not isinstance(structure, (Mapping, list, tuple, set)):
        return []
    return [op for each in values for op in _operations(each)]


def _may_run_anything(hook: tf.compat.v1.train.SessionRunHook) -> bool:
    """Those of TensorFlow run what they were given; Estimator's for early stopping run nothing of the graph."""
    module = type(hook).__module__
    if module.endswith('.early_stopping'):
        return not module.startswith('tensorflow_estimator.')
    return isinstance(hook, v1.train.FinalOpsHook) or module.partition('.')[0] != 'tensorflow'


def _names(variables: Iterable[tf.Variable]) -> set[str]:
    return {variable.name.partition(':')[0] for variable in variables}


def _variable(op: tf.Operation) -> str:
    """The name of the variable that an operation is the handle of, the same for all replicas; '': of none."""
    while op.type in ('Identity', 'RefIdentity') and op.inputs:
        op = op.inputs[0].op
    return _OF_REPLICA.sub('', op.name) if op.type in _VARIABLES else ''


def _assigned(op: tf.Operation) -> str:
    return _variable(op.inputs[0].op)


def _depends_on_old_value(op: tf.Operation) -> bool:
    if op.type in _ADD:
        return True
    handle, seen, left = op.inputs[0].op, set[tf.Operation](), [op.inputs[1].op]
    while left:
        read = left.pop()
        if read is handle:
            return True
        if read not in seen:
            seen.add(read)
            left += [tensor.op for tensor in read.inputs]
    return False


def _is_frozen(name: str, variables: Iterable[str], changed: set[str]) -> bool:
    layer = name.rpartition('/')[0]
    others = {other for other in variables if layer and other.startswith(f'{layer}/')}
    return bool(others) and not others & changed
