"""How far two runs are apart, value by value. NumPy only."""

import math
import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from estimator_trainer.tools.comparison.traces import ANSWERS, PREDICTIONS, UPDATES, Key, Record, Value

_NEXT_TO_NOTHING = 1e-30  # of two updates that are not equal, but for the rounding of the weights
_ROUNDING = 4  # units in the last place that a weight is off by, after a step


def differences(one: Record, other: Record) -> dict[Key, float]:
    """Key -> relative difference, in the order of recording; infinite where only one run has the value.

    The updates, what a step has changed in a trainable weight, stand behind the weights of that step. Weights, slots
    and updates are related to the largest element that the variable has had so far: one that crosses zero is all
    rounding for a moment.
    """
    found: dict[Key, float] = {}
    largest: dict[tuple, float] = {}  # of a variable, or of its updates, so far
    updates, other_updates = one.updates(), other.updates()

    def put_scaled(key: Key, size: float, now: float) -> None:
        largest[key.series] = ever = max(now, largest.get(key.series, 0.0))
        found[key] = size * now / ever if ever and math.isfinite(size) else size

    for key in _in_order(one.values, other.values):
        if key not in one.values or key not in other.values:
            found[key] = math.inf
            continue
        pair = one.values[key], other.values[key]
        found[key] = _odds(*pair) if key.thing in (PREDICTIONS, ANSWERS) and _is_discrete(pair) else difference(*pair)
        if key.is_variable:
            put_scaled(key, found[key], max(map(_largest, pair)))
        before = updates.get(key)
        if before and before == other_updates.get(key):
            sizes = _of_updates(one.values[before], pair[0], other.values[before], pair[1])
            if sizes:
                put_scaled(key._replace(thing=UPDATES), *sizes)
    return found


def _in_order(one: Mapping[Key, Value], other: Mapping[Key, Value]) -> Iterator[Key]:
    """The keys of both, in the order of the first. What only the other has stands where it has it."""
    rest = iter(other)
    for key in one:
        for each in rest if key in other else ():
            if each == key:
                break
            if each not in one:
                yield each
        yield key
    yield from (each for each in rest if each not in one)


def difference(one: Value, other: Value) -> float:
    """The largest difference of two elements, relative to the largest element. 0: equal bit for bit.

    Whole numbers, strings and descriptions are equal, or infinitely apart; for predictions and exported answers see
    `_odds`. A sample stands for its array; the norm of the array, and that of its change, count as well.
    """
    if one.digest == other.digest and one.shape == other.shape:
        return 0.0
    a, b = one.numbers, other.numbers
    if a is None or b is None or one.shape != other.shape or a.shape != b.shape or one.sampled != other.sampled:
        return math.inf
    if a.dtype.kind not in 'fc' or b.dtype.kind not in 'fc':
        return math.inf if not one.sampled or not np.array_equal(a, b) or one.norm != other.norm else 0.0
    if not one.sampled:
        return relative(a, b) if 'c' not in (a.dtype.kind, b.dtype.kind) else relative(_parts(a), _parts(b))
    largest = max(one.largest, other.largest)
    sizes = [relative(a, b) * max(np.max(np.abs(a)), np.max(np.abs(b))) / largest if largest else 0.0]
    sizes += [relative(one.norm, other.norm)]
    if one.moved is not None and other.moved is not None and max(one.norm, other.norm):
        sizes += [abs(one.moved - other.moved) / max(one.norm, other.norm)]
    return max(size if math.isfinite(size) else math.inf for size in map(float, sizes))


def _is_discrete(values: Iterable[Value]) -> bool:
    """Whether they are whole numbers or strings, such as classes."""
    return all(
        not value.sampled and (value.numbers is None or value.numbers.dtype.kind not in 'fc') for value in values
    )


def _odds(one: Value, other: Value) -> float:
    """Of predictions that are classes or the like: how many differ, for each one that is equal. Rounding
    decides those that lie on an edge, and it is compared with how many it decides; infinite if all of them differ."""
    a, b = one.digest.split(' '), other.digest.split(' ')
    if one.shape != other.shape or len(a) != len(b):
        return math.inf
    if len(a) == 1 and one.numbers is not None and other.numbers is not None:  # a batch of them at once
        a, b = one.numbers, other.numbers
    apart = sum(map(operator.ne, a, b))
    return apart / (len(a) - apart) if apart < len(a) else math.inf if apart else 0.0


def relative(one: Any, other: Any) -> float:
    """The largest difference of two arrays, relative to their largest element.

    0 where both are zero; infinite where one has a value that is not finite and the other has not, or where the shapes
    differ.
    """
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if one.shape != other.shape:
        return math.inf
    if not one.size or np.array_equal(one, other, equal_nan=True):
        return 0.0
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return math.inf
    return float(np.max(np.abs(one - other)) / max(np.max(np.abs(one)), np.max(np.abs(other))))


def elements_apart(one: Value | None, other: Value | None, tolerance: float) -> tuple[int, int] | None:
    """(elements of a variable that differ by more than the tolerance, all of them); None where they cannot be told."""
    if one is None or other is None or one.numbers is None or other.numbers is None or one.shape != other.shape:
        return None
    a, b = np.asarray(one.numbers, np.float64), np.asarray(other.numbers, np.float64)
    allowed = tolerance * max(np.max(np.abs(a), initial=0), np.max(np.abs(b), initial=0))
    return int(np.sum(~(np.abs(a - b) <= allowed))), a.size


def update(before: Value, after: Value) -> np.ndarray:
    return np.asarray(after.numbers, np.float64) - np.asarray(before.numbers, np.float64)


def updated(one: Record, other: Record, key: Key) -> list[tuple[Key, Key]]:
    """(before, after) of the trainable weights of both runs at the step of `key`."""
    others = other.updates()
    return [(b, a) for a, b in one.updates().items() if a[1:4] == key[1:4] and others.get(a) == b]


def _largest(value: Value) -> float:
    if value.sampled:
        return value.largest
    numbers = value.numbers
    is_finite = numbers is not None and numbers.size and np.isfinite(numbers).all()
    return float(np.max(np.abs(numbers))) if is_finite else 0.0


def _parts(numbers):
    return np.stack([numbers.real, numbers.imag])


def _of_updates(a: Value, b: Value, c: Value, d: Value) -> tuple[float, float] | None:
    """How far the updates a -> b and c -> d are apart, without what the rounding of the weights makes of them, and the
    largest element of them."""
    four = (a, b, c, d)
    if any(each.numbers is None or each.numbers.dtype.kind != 'f' for each in four):
        return None
    if len({(each.shape, each.numbers.shape) for each in four}) > 1 or not a.numbers.size:
        return None
    if not all(np.isfinite(each.numbers).all() for each in four):
        return None
    one, other = update(a, b), update(c, d)
    largest = float(max(np.max(np.abs(one)), np.max(np.abs(other))))
    if not largest or (a.digest, b.digest) == (c.digest, d.digest):
        return 0.0, largest
    rounding = _ROUNDING * np.finfo(b.numbers.dtype).eps * np.max(np.abs(b.numbers))
    apart = np.max(np.abs(one - other)) - rounding
    return float(max(_NEXT_TO_NOTHING, apart / largest)), largest
