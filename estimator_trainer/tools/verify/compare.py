"""How far two runs are apart, value by value. NumPy only."""

import math

import numpy as np

from estimator_trainer.tools.parity.run_differences import relative
from estimator_trainer.tools.verify.traces import SLOTS, WEIGHTS, Key, Trace, Value

UPDATES = 'updates'
_NEXT_TO_NOTHING = 1e-30  # of two updates that are not equal, but for the rounding of the weights
_ROUNDING = 4  # units in the last place that a weight is off by, after a step


def differences(one: Trace, other: Trace) -> dict[Key, float]:
    """Key -> relative difference, in the order of the first trace; infinite where only one run has the value.

    The updates, what a step has changed in a trainable weight, stand behind the weights of that step. Weights, slots
    and updates are related to the largest element that the variable has had so far: one that crosses zero is all
    rounding for a moment.
    """
    found: dict[Key, float] = {}
    before: dict[tuple, Key] = {}  # the last weights of a variable, in a call
    largest: dict[tuple, float] = {}  # of a variable, or of its updates, so far

    def scaled(key, size, now):
        series = key.thing, key.estimator, key.name
        largest[series] = max(now, largest.get(series, 0.0))
        return size * now / largest[series] if largest[series] and math.isfinite(size) else size

    for key in [*one.values, *(key for key in other.values if key not in one.values)]:
        if key not in one.values or key not in other.values:
            found[key] = math.inf
            continue
        pair = one.values[key], other.values[key]
        found[key] = difference(*pair)
        if key.thing not in (WEIGHTS, SLOTS):
            continue
        found[key] = scaled(key, found[key], max(_largest(each) for each in pair))
        if key.name not in one.trainable & other.trainable:
            continue
        last = before.get((key.estimator, key.call, key.name))
        before[key.estimator, key.call, key.name] = key
        if last and last.step < key.step:
            sizes = _of_updates(*(trace.values[each] for trace in (one, other) for each in (last, key)))
            if sizes is not None:
                of_update = key._replace(thing=UPDATES)
                found[of_update] = scaled(of_update, *sizes)
    return found


def _largest(value: Value) -> float:
    if value.sampled:
        return value.largest
    numbers = value.numbers
    return (
        float(np.max(np.abs(numbers))) if numbers is not None and numbers.size and np.isfinite(numbers).all() else 0.0
    )


def difference(one: Value, other: Value) -> float:
    """The largest difference of two elements, relative to the largest element. 0: equal bit for bit.

    Whole numbers, strings and descriptions are equal, or infinitely apart. A sample stands for its array; the norm of
    the array, and that of its change, count as well.
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
    if one.moved is not None and other.moved is not None:
        sizes += [abs(one.moved - other.moved) / max(one.norm, other.norm)] if max(one.norm, other.norm) else []
    return max(size if math.isfinite(size) else math.inf for size in map(float, sizes))


def _parts(numbers):
    return np.stack([numbers.real, numbers.imag])


def _of_updates(a: Value, b: Value, c: Value, d: Value) -> tuple[float, float] | None:
    """How far the updates a -> b and c -> d are apart, without what the rounding of the weights makes of them, and the
    largest element of them."""
    if any(each.numbers is None or each.numbers.dtype.kind != 'f' for each in (a, b, c, d)):
        return None
    if len({each.shape for each in (a, b, c, d)}) > 1 or len({each.numbers.shape for each in (a, b, c, d)}) > 1:
        return None
    if not a.numbers.size or not all(np.isfinite(each.numbers).all() for each in (a, b, c, d)):
        return None
    one, other = update(a, b), update(c, d)
    largest = max(np.max(np.abs(one)), np.max(np.abs(other)))
    rounding = _ROUNDING * np.finfo(b.numbers.dtype).eps * np.max(np.abs(b.numbers))
    if not largest or (a.digest, b.digest) == (c.digest, d.digest):
        return 0.0, float(largest)
    apart = np.max(np.abs(one - other)) - rounding
    return float(max(_NEXT_TO_NOTHING, apart / largest)), float(largest)


def update(before: Value, after: Value) -> np.ndarray:
    return np.asarray(after.numbers, np.float64) - np.asarray(before.numbers, np.float64)
