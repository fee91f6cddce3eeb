"""The parity report as text: who was compared, how far apart they are, who parts first."""

import dataclasses
import math
from collections.abc import Sequence

from estimator_trainer.tools.parity.run_differences import Difference
from tf_config import tables

NOTE = (
    'Largest relative difference: of a variable, the largest difference of two elements over the '
    'largest element. Losses, weights and the evaluation are judged. "update" is what a step changed in a '
    'weight, that is, the gradient as the optimizer applied it. It is small against the weight, so that '
    'rounding shows in it: one that differs by more than the tolerance still counts as equal.'
)
TIES = (
    'Few elements of one variable, after steps that were equal: this is what a maximum does whose two '
    'largest inputs differ by less than rounding (MaxPooling, ReLU at 0). Then the runs agree with '
    'another --seed; a loop that computes something else differs with every one.'
)
UPDATE = 'update (not judged)'
_FEW = 0.05  # of a variable's elements


def table(found: Sequence[Difference]) -> str:
    """A line for each pair of runs."""
    rows = [('one', 'other', 'loss', UPDATE, 'weights', 'evaluation', 'verdict')]
    rows += [
        (
            pair.one,
            pair.other,
            number(pair.loss),
            number(pair.update),
            number(pair.weight),
            number(pair.evaluation),
            verdict(pair),
        )
        for pair in found
    ]
    return '\n'.join(tables.aligned(rows))


def number(value: float) -> str:
    return f'{value:.1e}' if math.isfinite(value) else 'not comparable'


def verdict(pair: Difference) -> str:
    return 'equal' if pair.equal else 'differs'


def conclusion(found: Sequence[Difference], tolerance: float) -> list[str]:
    """What it comes to: one line where all are equal; else who differs first from the first run, at
    which step and in which variable, and the others after it."""
    apart = [pair for pair in found if not pair.equal]
    if not apart:
        worst = max(found, key=lambda pair: pair.weight)
        return [
            f'EQUAL: losses, weights and evaluations of all runs agree within {tolerance:g}; the largest difference in '
            'a weight is '
            f'{number(worst.weight)} ({worst.weight_variable}, step {worst.weight_step}, '
            f'{worst.one} and {worst.other})'
        ]
    from_first = [pair for pair in apart if pair.one == found[0].one] or apart
    from_first.sort(key=lambda pair: pair.first.step)
    if any(pair.first.step == 0 for pair in from_first):
        hints = ['Step 0 is before the first step: give the initializers of the model seeds.']
    elif any(_like_a_tie(pair.first) for pair in from_first):
        hints = [TIES]
    else:
        hints = []
    lines = [f'DIFFERENT: {len(apart)} of {len(found)} pairs differ by more than {tolerance:g}']
    for place, pair in enumerate(from_first):
        rank = 'first' if place == 0 else 'then'
        lines.append(f'{rank}: {pair.other} parts from {pair.one} {parting(pair)}')
    return lines + hints


def _like_a_tie(first) -> bool:
    return bool(first.elements) and first.step > 1 and first.elements[0] <= _FEW * first.elements[1]


def parting(pair: Difference) -> str:
    """Where two runs part, as the end of a sentence."""
    first = pair.first
    where = f', {first.variable}' if first.variable else ''
    if first.elements:
        where += ' ({} of {} elements)'.format(*first.elements)
    return f'at step {first.step} in its {first.what}{where} (by {number(first.difference)})'


def as_json(pair: Difference) -> dict:
    """A pair for parity.json; null for what is not finite."""
    fields = dataclasses.asdict(pair)
    first = fields.pop('first')
    plain = {name: finite(value) for name, value in fields.items()}
    return {**plain, 'equal': pair.equal, 'first': first and {name: finite(value) for name, value in first.items()}}


def finite(value):
    return None if isinstance(value, float) and not math.isfinite(value) else value
