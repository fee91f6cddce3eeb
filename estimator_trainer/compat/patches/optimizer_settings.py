"""The settings of an optimizer, and all of its variables before the first step.

Touches: _hyper, _initial_decay, _momentum, _name and _create_all_weights of tf.keras.optimizers.legacy; private
  attributes of the optimizers of tf.compat.v1.train
Without it: Keras's loops cannot restore an optimizer before its first step, and `migrate` cannot read the settings
  of one
For: the trainer and `migrate`
"""


def settings(optimizer):
    """{name: number, tensor or schedule} of one of tf.keras.optimizers.legacy. Its attributes, and get_config, would
    make variables or compute a rate."""
    return optimizer._hyper


def setting(optimizer, name: str):
    """One of tf.keras.optimizers.legacy: a setting that may be outside `settings`."""
    if name in optimizer._hyper:
        return optimizer._hyper[name]
    return getattr(optimizer, name if hasattr(optimizer, name) else f'_{name}')


def decay(optimizer):
    """The inverse decay over time of one of tf.keras.optimizers.legacy."""
    return optimizer._initial_decay


def has_momentum(optimizer) -> bool:
    """Of tf.keras.optimizers.legacy.SGD."""
    return optimizer._momentum


def name_of(optimizer):
    """Its name, which its slots have as well; None: it has none."""
    return getattr(optimizer, '_name', None)


def create_variables(optimizer, variables) -> None:
    """Makes the slots of these variables, and the counter of steps."""
    optimizer._create_all_weights(variables)


def setting_of_v1(optimizer, names):
    """Of tf.compat.v1.train: the first of the attributes `_name` that it has."""
    return next(getattr(optimizer, f'_{name}') for name in names if hasattr(optimizer, f'_{name}'))


def slot_name_of_v1(optimizer, slot: str) -> str:
    """What an optimizer of tf.compat.v1.train calls this slot in a graph."""
    own = getattr(optimizer, {'accumulator': '_accum_name', 'linear': '_linear_name'}.get(slot, ''), None)
    return own or optimizer._name
