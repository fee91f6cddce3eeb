"""Says in words where two runs part, and what that tells of the cause."""

import math
from collections.abc import Mapping

import numpy as np

from estimator_trainer.tools.verify import judge, traces
from estimator_trainer.tools.verify.compare import UPDATES, update
from estimator_trainer.tools.verify.traces import Key, Trace

_PROPORTIONAL = 1e-3  # relative: what may be left of an update when the other one, times a factor, is taken off
_SAME_FACTOR = 1e-4


def explain(
    one: Trace,
    other: Trace,
    differences: Mapping[Key, float],
    rows: list[judge.Judgement],
    continued: str = '',
    known: bool = False,
) -> list[str]:
    """Sentences on the first difference; none where there is none.

    Args:
        continued: for runs that continue others, says which, as the beginning of the first sentence.
        known: the runs that these continue differ, too, so that their cause has been told.
    """
    first = judge.first(rows, differences)
    if first is None:
        return []
    worst = first.worst
    beginning = continued or 'The runs part '
    said = [f'{beginning}{_place(worst, one)}{_name(worst)} {_by(worst, one, other, differences)}.']
    if known and worst.thing != traces.EXPORTS and not _is_initial(worst, one):
        return [*said, 'The restored values agree: the checkpoint is read as it was written.']
    return said + _cause(worst, one, other, rows, bool(continued))


def _place(key, one) -> str:
    several = len(one.labels) > 1
    which = f' of Estimator {key.estimator + 1} ({one.labels.get(key.estimator, "?")})' if several else ''
    if key.thing in (traces.WEIGHTS, traces.SLOTS) and _is_initial(key, one):
        return f'before step {key.step + 1}{which}, in the {"initial values" if key.step == 0 else "restored values"}'
    if key.thing in (traces.METRICS, traces.PREDICTIONS, traces.EXPORTS, traces.ANSWERS) or key.step == 0:
        return f'in the {key.thing}{which}'
    words = {traces.LOSS: 'loss', UPDATES: 'update of the weights', traces.SLOTS: "optimizer's slots"}
    return f'at step {key.step}{which}, in the {words.get(key.thing, key.thing)}'


def _is_initial(key, one) -> bool:
    steps = [each.step for each in one.keys(traces.WEIGHTS) if (each.estimator, each.call) == (key.estimator, key.call)]
    return key.step == min(steps, default=-1)


def _name(key) -> str:
    return ', which' if key.thing == traces.LOSS else f': {key.name or "the output"}'


def _by(key, one, other, differences) -> str:
    as_value = key._replace(thing=traces.WEIGHTS) if key.thing == UPDATES else key
    a, b = one.values.get(as_value), other.values.get(as_value)
    if a is None or b is None:
        return f'is only in --{"to" if a is None else "from"}'
    if a.shape != b.shape:
        return f'has the shape {list(a.shape)} in --from and {list(b.shape)} in --to'
    if key.thing == traces.EXPORTS:
        return f'is not the same signature: {a.text} in --from, {b.text} in --to'
    size = differences[key]
    if not math.isfinite(size):
        return f'is not equal{_examples(a, b)}'
    if key.thing != UPDATES and a.numbers is not None and a.numbers.size == 1 and not a.sampled:
        return (
            f'is {a.numbers.reshape(-1)[0]:.7g} in --from and {b.numbers.reshape(-1)[0]:.7g} in --to '
            f'({size:.1e} relative)'
        )
    return f'differs by {size:.1e} relative'


def _examples(a, b) -> str:
    if a.numbers is None or b.numbers is None:
        return f': {a.text[:60]} in --from, {b.text[:60]} in --to' if a.text else ''
    return f': {_short(a.numbers)} in --from, {_short(b.numbers)} in --to'


def _short(numbers) -> str:
    first = ', '.join(f'{number:g}' for number in numbers.reshape(-1)[:4])
    return f'{first} …' if numbers.size > 4 else first


def _cause(key, one, other, rows, continued) -> list[str]:
    if key not in one.values and key.thing != UPDATES or key not in other.values and key.thing != UPDATES:
        return ['Only one program has it, or it has another name there. Names are not matched by guessing.']
    if key.thing in (traces.WEIGHTS, traces.SLOTS) and _is_initial(key, one):
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
        return [
            'Weights and input of this step are the same. So the computation from input to loss is not: a layer, '
            'dropout, the loss, or a weight that is not in the checkpoint.'
        ]
    if key.thing in (traces.WEIGHTS, traces.SLOTS, UPDATES):
        return _of_updates(key, one, other, rows)
    if key.thing in (traces.METRICS, traces.PREDICTIONS):
        return ['The weights agree. So the data, or the computation without training, is not the same.']
    return ['The weights agree. So the signature, the serving input or the computation for serving is not the same.']


def _order(one, other) -> list[str]:
    """Whether the batches of both have the same examples in another order."""
    mine, others = ({row for rows in trace.rows.values() for row in rows} for trace in (one, other))
    if not mine or not others:
        return []
    common = len(mine & others)
    order = ', so their order is not the same' if common else ''
    return [
        f'Of the {len(others)} different examples that --to has read, {common} are among the {len(mine)} of '
        f'--from{order}.'
    ]


def _of_updates(key, one, other, rows) -> list[str]:
    of_optimizer = any(
        row.thing == UPDATES and row.state == judge.DIFFERS and row.first[1:4] == key[1:4] for row in rows
    )
    if key.thing == traces.WEIGHTS and key.name not in one.trainable and not of_optimizer:
        return [
            'The losses up to this step agree, and no optimizer changes this variable. So what else updates it is not '
            'the same, such as the momentum of batch normalization.'
        ]
    said = ['The losses up to this step agree. So the gradients, the optimizer or its settings are not the same.']
    factors = {name: factor for name, factor in _factors(key, one, other).items() if factor is not None}
    if not factors:
        return said
    typical = float(np.median(list(factors.values())))
    alike = [name for name, factor in factors.items() if abs(factor - typical) <= _PROPORTIONAL * abs(typical)]
    of = len(_updated(key, one, other))
    if typical > 0 and abs(typical - 1) > _SAME_FACTOR and 2 * len(alike) > of:
        said = [
            f'The losses up to this step agree. The updates in --to are {typical:.5g} times those in --from, for '
            f'{len(alike)} of {of} variables: the learning rate is not the same.'
        ]
    return said


def _updated(key, one, other) -> list[tuple[Key, Key]]:
    """(before, after) of the trainable weights at the step of `key`."""
    found = []
    for name in sorted(one.trainable & other.trainable):
        steps = sorted(
            each.step
            for each in one.keys(traces.WEIGHTS)
            if (each.estimator, each.call, each.name) == (key.estimator, key.call, name) and each.step <= key.step
        )
        if len(steps) > 1:
            place = (traces.WEIGHTS, key.estimator, key.call)
            found.append((Key(*place, steps[-2], name), Key(*place, steps[-1], name)))
    return [pair for pair in found if all(each in trace.values for each in pair for trace in (one, other))]


def _factors(key, one, other) -> dict[str, float | None]:
    """Name of a variable -> the factor between its updates; None where they are not proportional."""
    found: dict[str, float | None] = {}
    for before, after in _updated(key, one, other):
        a = update(one.values[before], one.values[after])
        b = update(other.values[before], other.values[after])
        if a.shape != b.shape or not np.any(a):
            continue
        factor = float(np.sum(a * b) / np.sum(a * a))
        rounding = np.finfo(np.float32).eps * np.linalg.norm(np.asarray(one.values[after].numbers, np.float64))
        left = np.linalg.norm(b - factor * a)
        found[after.name] = factor if left <= _PROPORTIONAL * np.linalg.norm(b) + rounding else None
    return found
