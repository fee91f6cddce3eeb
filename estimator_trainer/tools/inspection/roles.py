"""Which variable of a checkpoint is a weight, and which belongs to which optimizer. Pure: names and shapes decide.

An optimizer of tf.compat.v1.train adds slots to the name of a weight: `kernel/Adam`, `kernel/Adam_1`. Keras's
optimizers put a scope before it, and the slot behind it or before it: `training/Adam/kernel/m`, `Adam/m/kernel`. A
checkpoint of objects marks slots itself: `kernel/.OPTIMIZER_SLOT/optimizer/m`.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from estimator_trainer.tools.inspection.variables import ATTRIBUTE, Variable

WEIGHT, SLOT, SHADOW, SETTING, STEP, SCALE, OTHER = 'weight', 'slot', 'shadow', 'setting', 'step', 'loss scale', 'other'
MOVING = 'moving average'  # of batch normalization
STEP_KEYS = ('global_step', 'estimator_global_step', 'step')
V1, BERT, KERAS, OBJECTS = 'tf.compat.v1.train', 'BERT', 'Keras', 'a tree of objects'
_SLOT_MARK = '/.OPTIMIZER_SLOT/'
_PART = re.compile(r'/(?:part|t)_\d+$')  # canned Estimators cut the name of a slice's slot, and `t_` is left of `part_`
_POWER = re.compile(r'(?:^|/)beta[12]_power(?:_\d+)?$')
_SCALE = re.compile(r'(?:^|/)(?:current_)?loss_scale(?:_\w+)?$|(?:^|/)(?:good|bad)_steps$')
_SETTING = re.compile(
    r'^(?P<by>.+)/(?:iter|iteration|iterations|decay|learning_rate|current_learning_rate|beta|beta_1|beta_2|rho|momentum'
    r'|epsilon|l1_regularization_strength|l2_regularization_strength|learning_rate_power|momentum_cache)$'
)
_V1_SLOT = re.compile(r'[A-Z]\w*$')  # the name of an optimizer, which is the class's by default
_BERT_SLOT = re.compile(r'(?:adam|lamb|lars|adafactor|sgd)_[a-z]+$')
_KERAS_SLOT = re.compile(
    r'm|v|vhat|velocity|velocity_hat|momentum|rms|mg|accumulator|linear|accum_grad|accum_var|u|momentums|velocities'
    r'|average'
)
_OF_HOOK = re.compile(  # of the hooks that stop early, of SyncReplicasOptimizer, and of TPUEstimator
    r'^(?:(?:.*/)?signal_early_stopping(?:_\d+)?/STOP|(?:.*/)?sync_rep_local_step|tpu_estimator/iterations_loop_var)$'
)
_MOVING = re.compile(r'(?:^|/)moving_(?:mean|variance)(?:_\d+)?$')  # as all layers of batch normalization name it
_SHADOW = 'ExponentialMovingAverage'
_COUNTERS = ('iter', 'iteration', 'iterations')
_BY_SLOTS = {  # style of the slots, and their names -> the optimizer, where nothing else tells it
    (BERT, ('adam_m', 'adam_v')): 'AdamWeightDecay or LAMB, both of which call their slots adam_m and adam_v',
    (OBJECTS, ('m', 'v')): 'Adam, AdamW, Adamax or Nadam',
    (OBJECTS, ('m', 'v', 'vhat')): 'Adam with amsgrad',
    (OBJECTS, ('momentum',)): 'SGD with momentum',
    (OBJECTS, ('rms',)): 'RMSprop',
    (OBJECTS, ('momentum', 'rms')): 'RMSprop with momentum',
    (OBJECTS, ('accumulator',)): 'Adagrad',
    (OBJECTS, ('accumulator', 'linear')): 'Ftrl',
    (OBJECTS, ('accum_grad', 'accum_var')): 'Adadelta',
}


class Role(NamedTuple):
    """A variable with what it is for.

    Attributes:
        weight: to which a slot or a shadow belongs; '' if that is not known.
        by: the optimizer of a slot or a setting, as far as the name says it.
        slot: the name of the slot or the setting.
        style: V1, BERT, KERAS or OBJECTS: how the slot got its name.
        named: what the optimizer is called, in a tree of objects that tells it.
    """

    variable: Variable
    role: str
    weight: str = ''
    by: str = ''
    slot: str = ''
    style: str = ''
    named: str = ''


class Optimizer(NamedTuple):
    """An optimizer.

    Attributes:
        name: for a sentence, such as 'Adam'.
        scope: before or behind the names of the weights, as in the checkpoint.
        style: of the names of its slots, as a Role has it; '' if it has no slots.
        slots: their names.
        weights: number of weights that have slots.
        bytes: of all its slots.
        settings: 'learning_rate' and others, with their values; None is one that the graph computes.
    """

    name: str
    scope: str
    style: str
    slots: tuple[str, ...]
    weights: int
    bytes: int
    settings: dict[str, tuple[float | None, ...]]


def roles(variables: Sequence[Variable]) -> list[Role]:
    """The role of each variable, in the same order."""
    by_name = {variable.name: variable for variable in variables}
    by_key = {variable.key: variable.name for variable in variables if variable.key}
    found = [_of_object(each, by_name, by_key) if each.key else _of_name(each, by_name) for each in variables]
    trained = {each.weight for each in found if each.role == SLOT}  # whatever the name is
    return [_as_moving(each) if each.variable.name not in trained else each for each in found]


def _as_moving(found: Role) -> Role:
    """A moving average for a weight that has the name of one."""
    path = found.variable.key.removesuffix(ATTRIBUTE)
    if found.role == WEIGHT and any(_MOVING.search(name) for name in (found.variable.name, path)):
        return found._replace(role=MOVING)
    return found


def _of_object(variable: Variable, by_name: dict, by_key: dict) -> Role:
    path = variable.key.removesuffix(ATTRIBUTE)
    if path in STEP_KEYS:
        return Role(variable, STEP)
    if _SLOT_MARK in path:
        owner, _, rest = path.partition(_SLOT_MARK)
        by, _, slot = rest.rpartition('/')
        weight = by_key.get(owner + ATTRIBUTE, owner)
        before, mark, _ = variable.name.partition(f'/{weight}/')  # `Adam` of `Adam/conv/kernel/m`
        return Role(variable, SLOT, weight, by, slot, OBJECTS, before if mark else '')
    if path == 'save_counter' or re.search(r'(?:^|/)(?:keras_api/)?metrics?/', path):
        return Role(variable, OTHER)
    if re.search(r'(?:^|/)_?(?:optimizer|variables)[^/]*/_variables/\d+$', path):
        named = _of_name(variable, by_name)
        return named if named.role in (SLOT, SETTING) else Role(variable, OTHER)
    setting = _SETTING.match(path)
    if setting and 'optimizer' in setting['by']:
        return Role(variable, SETTING, by=setting['by'], slot=path.rpartition('/')[2])
    return Role(variable, SCALE) if _SCALE.search(path) else Role(variable, WEIGHT)


def _of_name(variable: Variable, known: dict) -> Role:
    name, (base, _, last) = variable.name, variable.name.rpartition('/')
    if name == 'global_step':
        return Role(variable, STEP)
    if _OF_HOOK.match(name):
        return Role(variable, OTHER)
    if _POWER.search(name):
        return Role(variable, SETTING, slot=last)
    if _SCALE.search(name):
        return Role(variable, SCALE)
    owner = _PART.sub('', base)
    if base in known and last in ('biased', 'local_step'):  # of a moving average that begins at zero
        return Role(variable, OTHER, base)
    if owner in known and known[owner].shape == variable.shape:
        if last.startswith(_SHADOW):
            return Role(variable, SHADOW, owner)
        if _V1_SLOT.match(last):
            return Role(variable, SLOT, owner, re.sub(r'_\d+$', '', last), last, V1)
        if _BERT_SLOT.match(last):
            return Role(variable, SLOT, owner, '', last, BERT)
    for place in _places(name):
        before, rest = name[:place], name[place + 1 :]
        owner = _PART.sub('', rest.rpartition('/')[0])
        if owner in known and known[owner].shape == variable.shape:
            if _KERAS_SLOT.fullmatch(last):
                return Role(variable, SLOT, owner, before, last, KERAS)
            if _V1_SLOT.match(last):  # made within a scope, which its name begins with
                return Role(variable, SLOT, owner, re.sub(r'_\d+$', '', last), last, V1)
        scope, _, slot = before.rpartition('/')
        if rest in known and _KERAS_SLOT.fullmatch(slot) and scope:
            return Role(variable, SLOT, rest, scope, slot, KERAS)
    setting = _SETTING.match(name)
    if setting and not variable.shape and re.search(r'(?:^|/)[A-Z]\w*$|(?:^|/)training(?:_\d+)?/', setting['by']):
        return Role(variable, SETTING, by=setting['by'], slot=last)
    return Role(variable, WEIGHT)


def _places(name: str) -> Iterator[int]:
    """Where the separators of a name are."""
    return (match.start() for match in re.finditer('/', name))


def optimizers(
    every: Sequence[Role], values: Mapping[str, float], applied: Mapping[str, Mapping[str, tuple[float | None, ...]]]
) -> list[Optimizer]:
    """The optimizers of a run, those with most weights first.

    Args:
        values: name -> value of the settings that are variables.
        applied: the class of an optimizer -> its settings, as the graph says them.
    """
    slots = [each for each in every if each.role == SLOT]
    made = []
    for style, scope in dict.fromkeys((each.style, each.by) for each in slots):
        its = [each for each in slots if (each.style, each.by) == (style, scope)]
        names = tuple(sorted({each.slot for each in its}))
        name = re.sub(r'_\d+$', '', (its[0].named or scope).rpartition('/')[2])
        if style in (BERT, OBJECTS) and not its[0].named:
            name = _BY_SLOTS.get((style, names), f'an optimizer with the slots {", ".join(names)}')
        own = [each for each in every if each.role == SETTING and each.by == scope and each.variable.name in values]
        settings = {key: given for key, given in applied.get(name, {}).items() if not (own and None in given)}
        settings |= {each.slot: (values[each.variable.name],) for each in own if each.slot not in _COUNTERS}
        size = sum(each.variable.bytes for each in its)
        made.append(Optimizer(name, scope, style, names, len({each.weight for each in its}), size, settings))
    if not made:  # it keeps nothing, as gradient descent does, or its variables are not saved
        made = [Optimizer(name, '', '', (), 0, 0, dict(settings)) for name, settings in applied.items()]
    return sorted(made, key=lambda each: -each.weights)
