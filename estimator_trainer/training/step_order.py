"""Which variables a step uses beside their update, so that chance decides which value it reads.

TensorFlow runs two operations in any order if neither waits for the other: two optimizers of a GAN in a `tf.group`, a
learning rate of the global step beside the operation that counts it, a moving average beside the update of its
variable, two draws of one `tf.random.Generator`. Single steps and calls of several steps compute such a step in other
orders, and so may two runs.
"""

import collections
import graphlib
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping

import tensorflow as tf

from estimator_trainer.training import step_graph

_NO_VALUE = {'Identity', 'VarIsInitializedOp', 'VariableShape'}  # take a handle, and read no value
_HAS_AN_ORDER = re.compile('VarHandleOp|Iterator|Queue|Table')
_SUMS = {'AssignAddVariableOp', 'AssignSubVariableOp'}  # of whole numbers they are the same in any order


def left_to_chance(targets: Iterable[tf.Operation]) -> list[str]:
    """The names of the variables, iterators, queues and tables that some operation changes and another one reads or
    changes, where neither waits for the other.

    Not looked at: variables of TensorFlow 1, and steps with its loops and conditions, which take one step a call.

    Args:
        targets: operations of the step, at least one.
    """
    ops = step_graph.needed(targets)
    if any(op.type in step_graph.CONTROL_FLOW_OF_V1 for op in ops):
        return []
    functions = step_graph.Functions(ops[0].graph)
    readers: dict[str, list[tf.Operation]] = collections.defaultdict(list)
    writers: dict[str, list[tf.Operation]] = collections.defaultdict(list)
    for op in ops:
        variables = {name for tensor in op.inputs if tensor.dtype == tf.resource and (name := _variable(tensor))}
        if not variables or op.type in _NO_VALUE:
            continue
        users = writers if functions.may_write(op) or op.type in step_graph.ASKS else readers
        for name in variables:
            users[name].append(op)
    pairs = {name: [*_in_pairs(readers[name], changes)] for name, changes in writers.items()}
    marks: dict[tf.Operation, int] = {}
    for pair in itertools.chain(*pairs.values()):
        for op in pair:
            marks.setdefault(op, 1 << len(marks))
    behind = _behind(ops, marks)

    def are_ordered(one: tf.Operation, other: tf.Operation) -> bool:
        return bool(behind[one] & marks[other] or behind[other] & marks[one])

    return sorted(name for name in pairs if not all(are_ordered(*pair) for pair in pairs[name]))


def _in_pairs(
    readers: Iterable[tf.Operation], writers: Iterable[tf.Operation]
) -> Iterator[tuple[tf.Operation, tf.Operation]]:
    """Those operations on a variable, iterator, queue or table whose order matters, two by two."""
    yield from itertools.product(readers, writers)
    for one, other in itertools.combinations(writers, 2):
        if not ({one.type, other.type} <= _SUMS and one.inputs[1].dtype.is_integer):
            yield one, other


def _behind(ops: Iterable[tf.Operation], marks: Mapping[tf.Operation, int]) -> dict[tf.Operation, int]:
    """The marks of the operations for which each one waits, and its own."""
    waits_for = {op: {*(tensor.op for tensor in op.inputs), *op.control_inputs} for op in ops}
    behind: dict[tf.Operation, int] = {}
    for op in graphlib.TopologicalSorter(waits_for).static_order():
        behind[op] = marks.get(op, 0)
        for before in waits_for[op]:
            behind[op] |= behind[before]
    return behind


def _variable(handle: tf.Tensor) -> str | None:
    """The name of the variable, iterator, queue or table of a handle; None: it is of something else, or a function or a
    condition chooses it."""
    op = handle.op
    while op.type == 'Identity':
        op = op.inputs[0].op
    if not (step_graph.is_named(op.op_def) and _HAS_AN_ORDER.search(op.type)):
        return None
    return op.get_attr('shared_name').decode() or op.name
