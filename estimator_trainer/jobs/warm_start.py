"""Says which variables of a training begin with values of another run's checkpoint.

`WarmStartSettings`, `tf.compat.v1.train.warm_start` and `init_from_checkpoint` replace the initializer of a variable by
an operation that reads the checkpoint. TensorFlow logs what it loads at INFO, which the trainer hides, and never
names what it leaves out.
"""

_READS = ('RestoreV2', 'LoadAndRemapMatrix')
_MOST_NAMES = 20


def sentence() -> str:
    """One sentence about the variables of the default graph; '' if none of them begins with such values."""
    import tensorflow as tf

    v1 = tf.compat.v1
    trainable = {_name(each) for each in v1.trainable_variables()}
    checkpoints = {_name(each): _checkpoint_of(each) for each in v1.global_variables()}
    loaded = {name for name, checkpoint in checkpoints.items() if checkpoint is not None}
    if not loaded:
        return ''
    others = len(loaded - trainable)
    also = f' and {others} other{"s"[: others > 1]}' if others else ''
    where = ', '.join(sorted({checkpoints[name] for name in loaded}))
    left = sorted(trainable - loaded)
    more = f' and {len(left) - _MOST_NAMES} more' if len(left) > _MOST_NAMES else ''
    return (
        f'warm start: {len(loaded & trainable)} of {len(trainable)} trainable variables{also} begin with the values of '
        f'{where}; not loaded: {", ".join(left[:_MOST_NAMES]) or "none"}{more}'
    )


def _name(variable) -> str:
    return variable.name.partition(':')[0]


def _checkpoint_of(variable) -> str | None:
    """The checkpoint from which a variable gets its first value."""
    import tensorflow as tf

    seen: set = set()
    initializer = getattr(variable, 'values', (variable,))[0].initializer  # of a replica, where there are several
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
