"""Says which variables of a training begin with values of another run's checkpoint.

`WarmStartSettings`, `tf.compat.v1.train.warm_start` and `init_from_checkpoint` replace the initializer of a variable by
an operation that reads the checkpoint. TensorFlow logs the variables that it loads at INFO, which the trainer hides. It
never names the others.
"""

import contextlib
import os
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

_READS = ('RestoreV2', 'LoadAndRemapMatrix')
_MOST_NAMES = 20
_PART = re.compile(r'/part_\d+$')
_POWER = re.compile(r'(?:^|/)beta[12]_power(?:_\d+)?$')


def sentence() -> str:
    """One sentence about the variables of the default graph; '' if none of them begins with such values."""
    import tensorflow as tf

    v1 = tf.compat.v1
    trainable = {_name(each) for each in v1.trainable_variables()}
    checkpoints = {_name(each): _checkpoint_of(each) for each in v1.global_variables()}
    loaded = {name: checkpoint for name, checkpoint in checkpoints.items() if checkpoint is not None}
    if not loaded:
        return ''
    others = len(loaded.keys() - trainable)
    also = f' and {others} other{"s"[: others > 1]}' if others else ''
    where = ', '.join(sorted(set(loaded.values())))
    begins = (
        f'warm start: {len(loaded.keys() & trainable)} of {len(trainable)} trainable variables{also} begin with the '
        f'values of {where}; not loaded: {_listed(trainable - loaded.keys()) or "none"}'
    )
    left = _held_by(set(loaded.values())) & checkpoints.keys() - loaded.keys() - trainable
    left = {name for name in left if not _is_of_the_training(name, trainable)}
    return f'{begins}. WARNING: the checkpoint holds {_listed(left)} as well, which begin anew' if left else begins


def left_behind(checkpoint: str) -> str:
    """A warning of variables of this checkpoint, from which training goes on, that the default graph does not have; ''
    if there are none. What belongs to one of these, or to a variable of the graph, as a slot does, is not named."""
    import tensorflow as tf

    v1 = tf.compat.v1
    own = {_PART.sub('', _name(each)) for each in v1.global_variables()}
    tables = {each.name for each in v1.get_collection(v1.GraphKeys.SAVEABLE_OBJECTS)}
    gone = {name for name in _held_by([checkpoint]) - own if name.rpartition('-')[0] not in tables}
    gone = {name for name in gone if not _is_of_the_training(name, own | gone)}
    if not gone:
        return ''
    return (
        f'WARNING: {os.path.basename(checkpoint)} holds {_listed(gone)}, which the model no longer has: they are not '
        'in the next checkpoints'
    )


def _listed(names: Iterable[str]) -> str:
    ordered = sorted(names)
    more = f' and {len(ordered) - _MOST_NAMES} more' if len(ordered) > _MOST_NAMES else ''
    return ', '.join(ordered[:_MOST_NAMES]) + more


def _held_by(checkpoints: Iterable[str]) -> set[str]:
    """The names of the variables of these checkpoints, as far as they can be read."""
    import tensorflow as tf

    names: set[str] = set()
    for checkpoint in checkpoints:
        with contextlib.suppress(tf.errors.OpError, ValueError):
            names.update(name for name, _ in tf.train.list_variables(checkpoint))
    return names


def _is_of_the_training(name: str, trainable: set[str]) -> bool:
    """Whether a variable is the global step, or an optimizer's: a slot of a variable, or a power."""
    return name == 'global_step' or bool(_POWER.search(name)) or name.rpartition('/')[0] in trainable


def _name(variable: 'tf.Variable') -> str:
    name: str = variable.name
    return name.partition(':')[0]


def _checkpoint_of(variable: 'tf.Variable') -> str | None:
    """The checkpoint from which a variable gets its first value; None if it gets the value from none."""
    import tensorflow as tf

    seen: set[tf.Operation] = set()
    # That of a variable of several replicas is a group of theirs, or what a checkpoint has put in its place.
    initializer = variable.initializer
    waiting = [] if initializer is None else [getattr(initializer, 'op', initializer)]
    while waiting:
        operation = waiting.pop()
        if operation.type in _READS:
            path = tf.get_static_value(operation.inputs[0])
            return 'a checkpoint' if path is None else tf.compat.as_text(path.item())
        if operation not in seen:
            seen.add(operation)
            waiting += [each.op for each in operation.inputs]
            if operation.type == 'NoOp':
                waiting += operation.control_inputs
    return None
