"""What an Estimator's optimizer becomes among the modules in `owned`, and where its checkpoint has the slots."""

import dataclasses
import numbers

import tensorflow as tf

from estimator_trainer.compat.patches import optimizer_parts
from estimator_trainer.tools.migrate import traced

_CLIPS = ('clipnorm', 'clipvalue', 'global_clipnorm')
_SCHEDULES = ('ExponentialDecay', 'PiecewiseConstantDecay', 'PolynomialDecay', 'InverseTimeDecay', 'CosineDecay')
_RATES = ('initial_learning_rate', 'end_learning_rate', 'warmup_target')  # whose type is that of the computation


@dataclasses.dataclass(frozen=True)
class _Rule:
    """Attributes:
    name: the class in owned/estimator_optimizers.py.
    settings: arguments of this class besides learning_rate.
    slots: {slot of this class: setting without which it is not there, or None}, in the order in which the original
        makes them.
    """

    name: str
    settings: tuple = ()
    slots: dict = dataclasses.field(default_factory=dict)


_START, _SHRINKAGE = 'initial_accumulator_value', ('l1_regularization_strength', 'l2_regularization_strength')
_DA_START = 'initial_gradient_squared_accumulator_value'
_FTRL = ('learning_rate_power', _START, *_SHRINKAGE, 'l2_shrinkage_regularization_strength', 'beta')
_SUM, _FTRL_SLOTS = {'accumulator': None}, {'accumulator': None, 'linear': None}
_MOMENTS, _ADADELTA_SLOTS = {'m': None, 'v': None}, {'accum_grad': None, 'accum_var': None}
_BETAS, _RMS = ('beta_1', 'beta_2', 'epsilon'), ('rho', 'momentum', 'epsilon', 'centered')

_LEGACY = {  # classes of tf.keras.optimizers.legacy; their settings and slots have the same names here
    'SGD': _Rule('SGD', ('momentum', 'nesterov'), {'momentum': 'momentum'}),
    'Adagrad': _Rule('Adagrad', (_START, 'epsilon'), _SUM),
    'Adadelta': _Rule('Adadelta', ('rho', 'epsilon'), _ADADELTA_SLOTS),
    'Ftrl': _Rule('Ftrl', _FTRL, _FTRL_SLOTS),
    'Adam': _Rule('Adam', (*_BETAS, 'amsgrad'), {**_MOMENTS, 'vhat': 'amsgrad'}),
    'Adamax': _Rule('Adamax', _BETAS, _MOMENTS),
    'Nadam': _Rule('Nadam', _BETAS, _MOMENTS),
    'RMSprop': _Rule('RMSprop', _RMS, {'rms': None, 'momentum': 'momentum', 'mg': 'centered'}),
}
_V1 = {  # classes of tf.compat.v1.train
    'GradientDescentOptimizer': _Rule('SGD'),
    'MomentumOptimizer': _Rule('MomentumOptimizer', ('momentum', 'nesterov'), {'momentum': None}),
    'AdagradOptimizer': _Rule('AdagradOptimizer', (_START,), _SUM),
    'AdagradDAOptimizer': _Rule(
        'AdagradDAOptimizer',
        (_DA_START, *_SHRINKAGE),
        {'gradient_accumulator': None, 'gradient_squared_accumulator': None},
    ),
    'AdadeltaOptimizer': _Rule('Adadelta', ('rho', 'epsilon'), _ADADELTA_SLOTS),
    'FtrlOptimizer': _Rule('Ftrl', _FTRL, _FTRL_SLOTS),
    'AdamOptimizer': _Rule('AdamOptimizer', _BETAS, _MOMENTS),
    'RMSPropOptimizer': _Rule('RMSPropOptimizer', _RMS, {'rms': None, 'mg': 'centered', 'momentum': None}),
    'ProximalAdagradOptimizer': _Rule('ProximalAdagradOptimizer', (_START, *_SHRINKAGE), _SUM),
    'ProximalGradientDescentOptimizer': _Rule('ProximalGradientDescentOptimizer', _SHRINKAGE),
}
# Attributes of V1 optimizers whose names are not an underscore and the setting.
_V1_NAMES = {
    'learning_rate': ('learning_rate', 'lr'),
    'nesterov': ('use_nesterov',),
    'beta_1': ('beta1',),
    'beta_2': ('beta2',),
    'rho': ('rho', 'decay'),
}


def description(optimizer, after=None) -> dict:
    """What `optimizer` becomes.

    Args:
        optimizer: an instance of a class of tf.compat.v1.train or tf.keras.optimizers.legacy. If its learning rate
            is a tensor, this is called while that graph is the default one.
        after: the optimizer that the same Estimator runs before this one: that of the DNN in DNNLinearCombined, for
            the linear part's. The second of two has other names in the checkpoint.

    Returns:
        A dict that is JSON:
        class: the name of the class in owned/estimator_optimizers.py.
        config: for this class's `from_config`, in a process with Keras 3.
        slots: {slot: its name in the checkpoint}, in which '{variable}' stands for the name of the variable. A V1
            optimizer has slots for each part of a partitioned variable; '{variable}' is then VAR/part_0 and so on,
            even where there is one part.
        scalars: {attribute of the optimizer: its name in the checkpoint}: `iterations`, and what the rule keeps
            besides. V1 optimizers put theirs into a scope: the name is the end of the one in the checkpoint.

    Raises:
        ValueError: something in the optimizer has no counterpart. The message names it.
    """
    if _known(tf.keras.optimizers.legacy, _LEGACY, optimizer):
        return _legacy(optimizer, _LEGACY[type(optimizer).__name__], after)
    if _known(tf.compat.v1.train, _V1, optimizer):
        return _v1(optimizer, _V1[type(optimizer).__name__], after)
    raise ValueError(
        f'{type(optimizer).__module__}.{type(optimizer).__name__} has no counterpart; there is one for '
        f'tf.keras.optimizers.legacy.{"|".join(_LEGACY)} and tf.compat.v1.train.{"|".join(_V1)}, and for no subclass.'
    )


def _known(namespace, rules, optimizer):
    name = type(optimizer).__name__
    return name in rules and type(optimizer) is getattr(namespace, name)


def _legacy(optimizer, rule, after):
    if optimizer.gradient_transformers:
        raise ValueError(f'The gradient_transformers of {rule.name} have no counterpart.')
    config = {name: _number(optimizer_parts.setting(optimizer, name), name, rule.name) for name in rule.settings}
    rate = optimizer_parts.settings(optimizer)['learning_rate']
    decay = _number(optimizer_parts.decay(optimizer), 'decay', rule.name)
    if rule.name == 'Nadam':
        config['schedule_decay'], decay = decay, 0
    config['learning_rate'] = _rate(rate, rule.name)
    if decay and isinstance(config['learning_rate'], dict):
        raise ValueError(f'{rule.name} has a schedule of its learning rate and `decay`: only one of them is possible.')
    if decay:  # the same numbers, bit for bit
        settings = {'initial_learning_rate': config['learning_rate'], 'decay_steps': 1, 'decay_rate': decay}
        config['learning_rate'] = _serialized('keras.optimizers.schedules', 'InverseTimeDecay', settings)
    clips = {name: getattr(optimizer, name) for name in _CLIPS if getattr(optimizer, name) is not None}
    if len(clips) > 1:
        raise ValueError(f'{rule.name} has {" and ".join(clips)}: Keras 3 takes one of them.')
    config.update({name: _number(value, name, rule.name) for name, value in clips.items()})
    name = optimizer_parts.name_of(optimizer)
    second = optimizer_parts.name_of(after) == name and isinstance(after, tf.keras.optimizers.legacy.Optimizer)
    scope = f'training/{name}{"_1" if second else ""}'
    scalars = {'iterations': traced.GLOBAL_STEP if after is None else f'{scope}/iter'}
    if rule.name == 'Nadam':
        scalars['momentum_cache'] = f'{scope}/momentum_cache'
    slots = {name: f'{scope}/{{variable}}/{name}' for name in _slots(rule, config)}
    return {'class': rule.name, 'config': config, 'slots': slots, 'scalars': scalars}


def _v1(optimizer, rule, after):
    config = {name: _number(_v1_setting(optimizer, name), name, rule.name) for name in rule.settings}
    config['learning_rate'] = _rate(_v1_setting(optimizer, 'learning_rate'), rule.name)
    slots, taken = {}, {}
    for slot in _slots(rule, config):
        name = optimizer_parts.slot_name_of_v1(optimizer, slot)
        slots[slot] = f'{{variable}}/{name}' + (f'_{taken[name]}' if name in taken else '')
        taken[name] = taken.get(name, 0) + 1
    scalars = {'iterations': traced.GLOBAL_STEP}
    if rule.name == 'AdamOptimizer':
        again = '_1' if isinstance(after, tf.compat.v1.train.AdamOptimizer) else ''
        scalars.update(beta_1_power=f'beta1_power{again}', beta_2_power=f'beta2_power{again}')
    if (
        rule.name == 'AdagradDAOptimizer'
        and _variable_name(_v1_setting(optimizer, 'global_step')) != traced.GLOBAL_STEP
    ):
        raise ValueError(f'The global_step of {rule.name} is not the global step of the Estimator.')
    return {'class': rule.name, 'config': config, 'slots': slots, 'scalars': scalars}


def _slots(rule, config):
    return [slot for slot, setting in rule.slots.items() if setting is None or config[setting]]


def _v1_setting(optimizer, name):
    return optimizer_parts.setting_of_v1(optimizer, _V1_NAMES.get(name, (name,)))


def _rate(value, owner):
    """A number, or Keras's description of a schedule."""
    schedules = tf.keras.optimizers.schedules
    if isinstance(value, schedules.LearningRateSchedule):
        if not _known(schedules, _SCHEDULES, value):
            raise ValueError(
                f'{owner} has the learning rate {type(value).__name__}; known are {", ".join(_SCHEDULES)}.'
            )
        config = {name: setting for name, setting in value.get_config().items() if setting is not None}
        for name, setting in config.items():
            if name in ('boundaries', 'values'):
                config[name] = [_number(v, name, owner) for v in setting]
            elif name != 'name':
                config[name] = _number(setting, name, owner)
        config.update({name: float(config[name]) for name in _RATES if name in config})
        if 'values' in config:
            config['values'] = [float(v) for v in config['values']]
        return _serialized('keras.optimizers.schedules', type(value).__name__, config)
    if isinstance(value, tf.Tensor) and hasattr(value, 'graph'):
        return _serialized('optimizer_base', 'TracedSchedule', {'traced': traced.learning_rate(value)})
    return float(_number(value, 'learning_rate', owner))


def _serialized(module, name, config):
    registered = f'estimator_optimizers>{name}' if module == 'optimizer_base' else None
    return {'module': module, 'class_name': name, 'config': config, 'registered_name': registered}


def _number(value, name, owner):
    """A number of Python's, of the kind that `value` has."""
    if isinstance(value, bool) or (isinstance(value, numbers.Number) and type(value).__module__ == 'builtins'):
        return value
    if hasattr(value, 'item') and not isinstance(value, tf.Tensor) and getattr(value, 'shape', None) == ():
        return value.item()  # NumPy's
    if isinstance(value, tf.Tensor) and not hasattr(value, 'graph'):
        return _number(value.numpy(), name, owner)
    raise ValueError(f'The setting {name} of {owner} is {value!r}; only a number can be taken along.')


def _variable_name(variable):
    return getattr(variable, 'name', '').partition(':')[0]
