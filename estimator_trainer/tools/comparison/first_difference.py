"""Says in words where two runs part, and what that tells of the cause."""

import math
from collections.abc import Mapping

import numpy as np

from estimator_trainer.tools.comparison import judgements, traces, value_differences
from estimator_trainer.tools.comparison.traces import Key, Record

_PROPORTIONAL = 1e-3  # relative: what may be left of an update when the other one, times a factor, is taken off
_SAME_FACTOR = 1e-4
_WORDS = {traces.LOSS: 'loss', traces.UPDATES: 'update of the weights', traces.SLOTS: "optimizer's slots"}


def explain(
    one: Record,
    other: Record,
    differences: Mapping[Key, float],
    rows: list[judgements.Judgement],
    beginning: str = 'The runs part ',
    known: bool | None = None,
) -> list[str]:
    """Sentences on the first difference; none where there is none.

    Args:
        beginning: of the first sentence.
        known: of runs that continue others: whether these differ, too, so that their cause has been told. None of runs
            that begin anew.
    """
    first = judgements.first(rows, differences)
    if first is None:
        return []
    worst = first.worst
    said = [f'{beginning}{_place(worst, one)}{_name(worst)} {_by(worst, one, other, differences)}.']
    if known and worst.thing != traces.EXPORTS and not _is_initial(worst, one):
        return [*said, 'The restored values agree: the checkpoint is read as it was written.']
    return said + _cause(worst, one, other, rows, known is not None)


def not_continued(record: Record) -> str:
    """Why the continued runs do not show whether one environment reads the checkpoints of the other; '' if they do."""
    why = why_not_continued(record)
    shows = 'So whether checkpoints carry over is not shown.'
    return f'Started again in the same folder, the program {why}. {shows}' if why else ''


def why_not_continued(record: Record) -> str:
    """What a run does that continues another one, if it does not go on from its checkpoint; '' if it does."""
    begun = record.keys(traces.WEIGHTS)[:1]
    return '' if begun and begun[0].step else 'begins anew' if begun else 'makes no step'


def _place(key, one) -> str:
    several = len(one.labels) > 1
    which = f' of Estimator {key.estimator + 1} ({one.labels.get(key.estimator, "?")})' if several else ''
    if _is_initial(key, one):
        return f'before step {key.step + 1}{which}, in the {"initial values" if key.step == 0 else "restored values"}'
    if key.thing in (traces.METRICS, traces.PREDICTIONS, traces.EXPORTS, traces.ANSWERS) or key.step == 0:
        return f'in the {key.thing}{which}'
    return f'at step {key.step}{which}, in the {_WORDS.get(key.thing, key.thing)}'


def _is_initial(key, one) -> bool:
    """Whether it is a variable before the first step of a call of train."""
    steps = [each.step for each in one.keys(traces.WEIGHTS) if (each.estimator, each.call) == key[1:3]]
    return key.is_variable and key.step == min(steps, default=-1)


def _name(key) -> str:
    return ', which' if key.thing == traces.LOSS else f': {key.name or "the output"}'


def _by(key, one, other, differences) -> str:
    as_value = key._replace(thing=traces.WEIGHTS) if key.thing == traces.UPDATES else key
    a, b = one.values.get(as_value), other.values.get(as_value)
    if a is None or b is None:
        return f'is only in {other.name if a is None else one.name}'
    if a.shape != b.shape:
        return f'has the shape {list(a.shape)} in {one.name} and {list(b.shape)} in {other.name}'
    if key.thing == traces.EXPORTS:
        return f'is not the same signature: {a.text} in {one.name}, {b.text} in {other.name}'
    size = differences[key]
    if not math.isfinite(size):
        shown = [each.text[:60] if each.numbers is None else _short(each.numbers) for each in (a, b)]
        return 'is not equal' + (f': {shown[0]} in {one.name}, {shown[1]} in {other.name}' if shown[0] else '')
    if key.thing != traces.UPDATES and a.numbers is not None and a.numbers.size == 1 and not a.sampled:
        values = [f'{each.numbers[0]:.7g} in {run.name}' for each, run in ((a, one), (b, other))]
        return f'is {" and ".join(values)} ({size:.1e} relative)'
    return f'differs by {size:.1e} relative'


def _short(numbers) -> str:
    first = ', '.join(f'{number:g}' for number in numbers[:4])
    return f'{first} …' if numbers.size > 4 else first


def _cause(key, one, other, rows, continued) -> list[str]:
    if key.thing != traces.UPDATES and (key not in one.values or key not in other.values):
        return ['Only one run has it, or it has another name there. Names are not matched by guessing.']
    if _is_initial(key, one):
        if key.step or continued:
            return ['The checkpoint is not read as it was written, or a call of train begins with other values.']
        return [
            'No step has been made yet: the initializer, its seed, or the checkpoint of a warm start is not the same.',
            "A layer without a seed takes the next number of Python's random, whatever tf_random_seed is: one program "
            'may draw more numbers before. Give its initializer a seed.',
        ]
    if key.thing == traces.INPUTS:
        return [
            'The model is not the cause: the data, their order, or what the input_fn makes of them is not the same.',
            *_order(one, other),
        ]
    if key.thing == traces.LOSS:
        same = 'Weights and input of this step are the same. So the computation from input to loss is not: '
        if not one.keys(traces.INPUTS):  # they were not recorded
            same = 'The weights before this step are the same. So its input or the computation of the loss is not: '
        return [f'{same}a layer, dropout, the loss, or a weight that is not in the checkpoint.']
    if key.is_variable or key.thing == traces.UPDATES:
        return _of_updates(key, one, other, rows)
    if key.thing in (traces.METRICS, traces.PREDICTIONS):
        return ['The weights agree. So the data, or the computation without training, is not the same.']
    return ['The weights agree. So the signature, the serving input or the computation for serving is not the same.']


def _order(one, other) -> list[str]:
    """Whether the batches of both have the same examples in another order."""
    mine, others = ({row for rows in record.rows.values() for row in rows} for record in (one, other))
    if not mine or not others:
        return []
    common = len(mine & others)
    order = ', so their order is not the same' if common else ''
    return [
        f'Of the {len(others)} different examples that {other.name} has read, {common} are among the {len(mine)} of '
        f'{one.name}{order}.'
    ]


def _of_updates(key, one, other, rows) -> list[str]:
    of_optimizer = any(
        row.thing == traces.UPDATES and row.state == judgements.DIFFERS and row.first[1:4] == key[1:4] for row in rows
    )
    if key.thing == traces.WEIGHTS and key.name not in one.trainable and not of_optimizer:
        return [
            'The losses up to this step agree, and no optimizer changes this variable. So what else updates it is not '
            'the same, such as the momentum of batch normalization.'
        ]
    factors = _factors(key, one, other)
    told = [factor for factor in factors if factor is not None]
    typical = float(np.median(told)) if told else 1.0
    alike = sum(abs(factor - typical) <= _PROPORTIONAL * abs(typical) for factor in told)
    if typical > 0 and abs(typical - 1) > _SAME_FACTOR and 2 * alike > len(factors):
        ratio = max(typical, 1 / typical)
        undivided = (
            f', or the gradients of {ratio:.0f} batches are added up undivided, as those of tf.gradients are '
            '(docs/jobs.md, rule 1)'
        )
        return [
            f'The losses up to this step agree. The updates in {other.name} are {typical:.5g} times those in '
            f'{one.name}, for {alike} of {len(factors)} variables: the learning rate is not the same'
            f'{undivided if abs(ratio - round(ratio)) <= _SAME_FACTOR * ratio else ""}.'
        ]
    return ['The losses up to this step agree. So the gradients, the optimizer or its settings are not the same.']


def _factors(key, one, other) -> list[float | None]:
    """Of each trainable weight the factor between its updates at the step of `key`; None where they are not
    proportional."""
    found: list[float | None] = []
    for before, after in value_differences.updated(one, other, key):
        a = value_differences.update(one.values[before], one.values[after])
        b = value_differences.update(other.values[before], other.values[after])
        if a.shape != b.shape or not np.any(a):
            found.append(None)
            continue
        factor = float(np.sum(a * b) / np.sum(a * a))
        rounding = np.finfo(np.float32).eps * np.linalg.norm(np.asarray(one.values[after].numbers, np.float64))
        left = np.linalg.norm(b - factor * a)
        found.append(factor if left <= _PROPORTIONAL * np.linalg.norm(b) + rounding else None)
    return found
