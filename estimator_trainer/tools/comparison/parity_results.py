"""The report of `parity`: who was compared, how far apart they are, who parts first."""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from estimator_trainer.tools.comparison import first_difference, judgements
from estimator_trainer.tools.comparison.judgements import Judgement
from estimator_trainer.tools.comparison.report import Curves, Report, Row, Table, finite, number
from estimator_trainer.tools.comparison.traces import LOSS, METRICS, UPDATES, WEIGHTS, Record
from estimator_trainer.tools.comparison.value_differences import differences, elements_apart

NOTE = (
    'Largest relative difference: of a variable, the largest difference of two elements over the '
    'largest element. Losses, weights and the evaluation are judged. "update" is what a step changed in a '
    'weight, that is, the gradient as the optimizer applied it; what the rounding of the weight explains is '
    'left out, which may be all. It is small against the weight: one that differs by more than the tolerance '
    'still counts as equal.'
)
TIES = (
    'Few elements of one variable, after steps that were equal: this is what a maximum does whose two '
    'largest inputs differ by less than rounding (MaxPooling, ReLU at 0). To be sure, compare in float64: '
    "tf.keras.backend.set_floatx('float64') in a job of Keras layers. Often another --seed is enough."
)
_COLUMNS = {'loss': LOSS, 'update': UPDATES, 'weight': WEIGHTS, 'evaluation': METRICS}
_HEADER = ('one', 'other', 'loss', 'update (not judged)', 'weights', 'evaluation', 'verdict')
_WHAT = {LOSS: 'loss', WEIGHTS: 'weights', METRICS: 'evaluation'}
_FEW = 0.05  # of a variable's elements


class Pair(NamedTuple):
    """Two runs.

    Attributes:
        rows: thing -> what was found.
        first: where they part, as parity.json has it; None where they are equal. Its `elements` are (how many of the
            variable differ, how many there are).
        sentences: the same in words, and why.
    """

    one: str
    other: str
    rows: dict[str, Judgement]
    first: dict[str, Any] | None
    sentences: list[str]


def pairs(found: Sequence[Record], tolerance: float) -> list[Pair]:
    """Every pair of runs, in order."""
    return [pair(one, other, tolerance) for one, other in itertools.combinations(found, 2)]


def pair(one: Record, other: Record, tolerance: float) -> Pair:
    apart = differences(one, other)
    rows = {row.thing: row for row in judgements.rows(apart, {}, {}, tolerance)}
    judged = [row for row in rows.values() if row.thing != UPDATES]
    differing = judgements.first(judged, apart)
    if differing is None:
        return Pair(one.name, other.name, rows, None, [])
    worst = changed = differing.worst
    if differing.thing == LOSS:  # it is that of the weights before the step; those after it have parted with it
        weights = rows[WEIGHTS].worst if rows[WEIGHTS].state == judgements.DIFFERS else None
        changed = weights if weights and weights.step == worst.step else None
    elements = elements_apart(one.values.get(changed), other.values.get(changed), tolerance) if changed else None
    first = {
        'step': worst.step,
        'variable': changed and changed.name,
        'difference': finite(apart[worst]),
        'what': _WHAT[worst.thing],
        'elements': elements,
    }
    sentences = first_difference.explain(one, other, apart, judged, f'{other.name} parts from {one.name} ')
    if elements:
        sentences[0] += f' {elements[0]} of {elements[1]} elements of {changed.name} differ.'
    return Pair(one.name, other.name, rows, first, sentences)


def report(title: str, facts: list[str], found: Sequence[Record], compared: Sequence[Pair], tolerance: float) -> Report:
    """The report of all runs and pairs. `facts`: how they were compared."""
    state = judgements.EQUAL if all(not pair.first for pair in compared) else judgements.DIFFERS
    table = Table('Differences', _HEADER, list(map(_row, compared)))
    losses = {record.name: record.losses().get(0, {}) for record in found}
    curves = [Curves('Loss of each step', 'loss', losses)]
    return Report(title, state, conclusion(compared, tolerance), facts, [table], [NOTE], curves)


def _row(pair: Pair) -> Row:
    rows = [pair.rows[thing] for thing in _COLUMNS.values()]
    state, word = (judgements.EQUAL, 'equal') if not pair.first else (judgements.DIFFERS, 'differs')
    hovers = {2 + place: f'{row.where.name}, step {row.where.step}' for place, row in enumerate(rows) if row.where}
    cells = (pair.one, pair.other, *(number(row.largest) for row in rows), word)
    return Row(cells, state, {**hovers, 6: ' '.join(pair.sentences)})


def conclusion(compared: Sequence[Pair], tolerance: float) -> list[str]:
    """What it comes to: one line where all are equal; else who differs first from the first run, at which step and in
    which variable, and the others after it."""
    apart = [pair for pair in compared if pair.first]
    if not apart:
        worst = max(compared, key=lambda pair: pair.rows[WEIGHTS].largest)
        row = worst.rows[WEIGHTS]
        if row.where is None:
            return [f'EQUAL: losses and evaluations of all runs agree within {tolerance:g}; the job trains no weights']
        where = f'{row.where.name}, step {row.where.step}, {worst.one} and {worst.other}'
        return [
            f'EQUAL: losses, weights and evaluations of all runs agree within {tolerance:g}; the largest difference in '
            f'a weight is {number(row.largest)} ({where})'
        ]
    from_first = [pair for pair in apart if pair.one == compared[0].one] or apart
    from_first.sort(key=lambda pair: pair.first['step'])
    said = [f'{"then" if place else "first"}: {pair.sentences[0]}' for place, pair in enumerate(from_first)]
    is_tie = from_first[0].first['step'] and any(map(_is_like_a_tie, from_first))
    hints = [TIES] if is_tie else from_first[0].sentences[1:]
    return [f'DIFFERENT: {len(apart)} of {len(compared)} pairs differ by more than {tolerance:g}', *said, *hints]


def _is_like_a_tie(pair: Pair) -> bool:
    elements = pair.first['elements']
    return bool(elements) and pair.first['step'] > 1 and elements[0] <= _FEW * elements[1]


def to_json(made: Report, found: Sequence[Record], compared: Sequence[Pair], tolerance: float) -> dict[str, Any]:
    """What parity.json holds; null for what is not finite."""
    losses = {record.name: record.losses().get(0, {}) for record in found}
    return {
        'equal': made.state == judgements.EQUAL,
        'tolerance': tolerance,
        'how': made.facts,
        'pairs': list(map(_pair_as_json, compared)),
        'losses': {name: {step: finite(loss) for step, loss in steps.items()} for name, steps in losses.items()},
    }


def _pair_as_json(pair: Pair) -> dict[str, Any]:
    found = {'one': pair.one, 'other': pair.other, 'equal': not pair.first, 'first': pair.first}
    for name, thing in _COLUMNS.items():
        row = pair.rows[thing]
        found |= {name: finite(row.largest), f'{name}_step': row.where and row.where.step}
        found[f'{name}_variable'] = row.where and row.where.name
    return found
