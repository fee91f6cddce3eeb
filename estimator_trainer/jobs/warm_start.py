"""Says which variables of a training begin with values of another run's checkpoint.

`WarmStartSettings`, `tf.compat.v1.train.warm_start` and `init_from_checkpoint` replace the initializer of a variable by
an operation that reads the checkpoint. TensorFlow logs the variables that it loads at INFO, which the trainer hides. It
never names the others.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf

_READS = ('RestoreV2', 'LoadAndRemapMatrix')
_MOST_NAMES = 20


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
    not_loaded = sorted(trainable - loaded.keys())
    more = f' and {len(not_loaded) - _MOST_NAMES} more' if len(not_loaded) > _MOST_NAMES else ''
    return (
        f'warm start: {len(loaded.keys() & trainable)} of {len(trainable)} trainable variables{also} begin with the '
        f'values of {where}; not loaded: {", ".join(not_loaded[:_MOST_NAMES]) or "none"}{more}'
    )


def _name(variable: 'tf.Variable') -> str:
    name: str = variable.name
    return name.partition(':')[0]


def _checkpoint_of(variable: 'tf.Variable') -> str | None:
    """The checkpoint from which a variable gets its first value; None if it gets the value from none."""
    import tensorflow as tf

    seen: set[tf.Operation] = set()
    initializer = getattr(variable, 'values', (variable,))[0].initializer  # if there are several replicas, that of one
    waiting = [] if initializer is None else [getattr(initializer, 'op', initializer)]
    while waiting:
        operation = waiting.pop()
        if operation.type in _READS:
            path = tf.get_static_value(operation.inputs[0])
            return 'a checkpoint' if path is None else tf.compat.as_text(path.item())
        if operation not in seen:
            seen.add(operation)
            waiting += [each.op for each in operation.inputs]
    return None
