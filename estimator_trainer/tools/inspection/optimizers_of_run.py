"""Which optimizers have trained a run: from slots, their settings and the operations of the graph. Pure."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from estimator_trainer.tools.inspection.facts import Graph
from estimator_trainer.tools.inspection.roles import BERT, KERAS, OBJECTS, SETTING, SLOT, Role

_COUNTERS = ('iter', 'iteration', 'iterations')
# What BERT's and ALBERT's programs call their slots.
_BERT = {frozenset(('adam_m', 'adam_v')): 'AdamWeightDecay or LAMB, both of which call their slots adam_m and adam_v'}
# The slots of Keras's optimizers, for a checkpoint that does not tell the name of the optimizer.
_BY_SLOTS = {
    frozenset(('m', 'v')): 'Adam, AdamW, Adamax or Nadam',
    frozenset(('m', 'v', 'vhat')): 'Adam with amsgrad',
    frozenset(('momentum',)): 'SGD with momentum',
    frozenset(('rms',)): 'RMSprop',
    frozenset(('rms', 'momentum')): 'RMSprop with momentum',
    frozenset(('accumulator',)): 'Adagrad',
    frozenset(('accumulator', 'linear')): 'Ftrl',
    frozenset(('accum_grad', 'accum_var')): 'Adadelta',
}


class Optimizer(NamedTuple):
    """An optimizer.

    Attributes:
        name: for a sentence, such as 'Adam'.
        scope: before or behind the names of the weights, as in the checkpoint.
        style: of the names of its slots, as in `roles`; '' if it has no slots.
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


def optimizers(every: Sequence[Role], values: dict[str, float], graph: Graph | None) -> list[Optimizer]:
    """The optimizers of a run, those with most weights first.

    Args:
        values: name -> value of the settings that are variables.
    """
    slots = [each for each in every if each.role == SLOT]
    made = []
    for style, scope in dict.fromkeys((each.style, each.by) for each in slots):
        its = [each for each in slots if (each.style, each.by) == (style, scope)]
        names = tuple(sorted({each.slot for each in its}))
        name = _name(its[0].named or scope, names, style if not its[0].named else KERAS)
        own = [each for each in every if each.role == SETTING and each.by == scope and each.variable.name in values]
        settings = dict(graph.applied.get(name, {})) if graph else {}
        if own:  # the graph reads these
            settings = {key: given for key, given in settings.items() if None not in given}
        settings |= {each.slot: (values[each.variable.name],) for each in own if each.slot not in _COUNTERS}
        size = sum(each.variable.bytes for each in its)
        made.append(Optimizer(name, scope, style, names, len({each.weight for each in its}), size, settings))
    if graph and not made:  # it keeps nothing, as gradient descent does, or its variables are not saved
        made = [Optimizer(name, '', '', (), 0, 0, dict(settings)) for name, settings in graph.applied.items()]
    return sorted(made, key=lambda each: -each.weights)


def _name(scope: str, slots: Sequence[str], style: str) -> str:
    if style == OBJECTS:
        return _BY_SLOTS.get(frozenset(slots), f'an optimizer with the slots {", ".join(slots)}')
    if style == BERT:
        return _BERT.get(frozenset(slots), f'an optimizer with the slots {", ".join(slots)}')
    return re.sub(r'_\d+$', '', scope.rpartition('/')[2])


def settings_in_words(optimizer: Optimizer) -> str:
    """'learning_rate 0.05, l2 computed', of the settings that say something."""
    words = []
    for name, values in sorted(optimizer.settings.items()):
        texts = ['computed by the graph' if value is None else f'{value:g}' for value in values]
        words.append(f'{name} {" or ".join(texts)}')
    return ', '.join(words)
