"""How far apart two runs are, and where they part. NumPy only."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence

import numpy as np


@dataclasses.dataclass(frozen=True)
class RunValues:
    """What one run computed.

    Attributes:
        name: such as `keras_fit, 2 workers`.
        losses: step -> the loss of that step's batch. The first step is 1.
        weights: step -> name -> array; step 0 holds the initial weights.
        evaluation: metric -> value of the last checkpoint; empty where nothing was evaluated.
    """

    name: str
    losses: Mapping[int, float]
    weights: Mapping[int, Mapping[str, np.ndarray]]
    evaluation: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Divergence:
    """Where a run first differs by more than the tolerance. `variable` is None where only the loss,
    or the evaluation, does; `elements` says how many of the variable's do, of how many."""

    step: int
    variable: str | None
    difference: float
    what: str
    elements: tuple | None = None


@dataclasses.dataclass(frozen=True)
class Difference:
    """The largest relative differences between two runs, over all steps; `loss_step` and so on say
    at which step, `weight` in which variable. `first` is None where they are equal."""

    one: str
    other: str
    loss: float
    loss_step: int
    update: float
    update_step: int
    update_variable: str
    weight: float
    weight_step: int
    weight_variable: str
    evaluation: float
    first: Divergence | None

    @property
    def equal(self) -> bool:
        return self.first is None


def relative(one, other) -> float:
    """The largest difference of two arrays of one shape, relative to their largest element.

    0 where both are zero; infinite where one has a value that is not finite and the other has not, or
    where the shapes differ.
    """
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    if one.shape != other.shape:
        return np.inf
    if not one.size or np.array_equal(one, other, equal_nan=True):
        return 0.0
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        return np.inf
    return float(np.max(np.abs(one - other)) / max(np.max(np.abs(one)), np.max(np.abs(other))))


def differences(traces: Sequence[RunValues], tolerance: float) -> list[Difference]:
    """Every pair of runs, in order."""
    return [difference(one, other, tolerance) for one, other in itertools.combinations(traces, 2)]


def difference(one: RunValues, other: RunValues, tolerance: float) -> Difference:
    """Two runs, step by step. A step, a loss or a variable that only one has differs infinitely."""
    losses = [(_of_losses(one, other, step), step) for step in sorted({*one.losses, *other.losses})] or [(0.0, 0)]
    weights, updates = [], []
    steps = sorted({*one.weights, *other.weights})
    for before, step in zip([None, *steps], steps):
        weights += _of_weights(one, other, step)
        if before is not None:
            updates += _of_updates(one, other, before, step)
    evaluation = max(
        (
            relative(one.evaluation.get(name, np.nan), other.evaluation.get(name, np.nan))
            for name in {*one.evaluation, *other.evaluation}
        ),
        default=0.0,
    )
    loss, loss_step = max(losses, key=_by_size)
    weight, weight_step, weight_variable = max(weights, key=_by_size, default=(0.0, 0, ''))
    update, update_step, update_variable = max(updates, key=_by_size, default=(0.0, 0, ''))
    first = _first(losses, weights, evaluation, tolerance)
    if first and first.variable:
        arrays = [trace.weights.get(first.step, {}).get(first.variable) for trace in (one, other)]
        first = dataclasses.replace(first, elements=_elements(*arrays, tolerance))
    return Difference(
        one.name,
        other.name,
        loss,
        loss_step,
        update,
        update_step,
        update_variable,
        weight,
        weight_step,
        weight_variable,
        evaluation,
        first,
    )


def _by_size(found):
    return found[0]


def _of_losses(one, other, step) -> float:
    if step not in one.losses or step not in other.losses:
        return np.inf
    return relative(one.losses[step], other.losses[step])


def _of_weights(one, other, step) -> list:
    mine, others = one.weights.get(step, {}), other.weights.get(step, {})
    return [
        (relative(mine[name], others[name]) if name in mine and name in others else np.inf, step, name)
        for name in sorted({*mine, *others})
    ]


def _of_updates(one, other, before, step) -> list:
    """What the step did to each variable: the gradient, as the optimizer applied it."""
    found = []
    for name in one.weights.get(step, {}):
        arrays = [trace.weights.get(at, {}).get(name) for trace in (one, other) for at in (before, step)]
        if all(array is not None for array in arrays) and len({a.shape for a in arrays}) == 1:
            a, b, c, d = (np.asarray(array, np.float64) for array in arrays)
            found.append((relative(b - a, d - c), step, name))
    return found


def _elements(one, other, tolerance) -> tuple | None:
    """(elements that differ, all of them); None where the arrays cannot be compared."""
    if one is None or other is None or np.shape(one) != np.shape(other):
        return None
    one, other = np.asarray(one, np.float64), np.asarray(other, np.float64)
    allowed = tolerance * max(np.max(np.abs(one), initial=0), np.max(np.abs(other), initial=0))
    return int(np.sum(~(np.abs(one - other) <= allowed))), one.size


def _first(losses, weights, evaluation, tolerance) -> Divergence | None:
    """The first step that is not equal; of its variables the one that is furthest off.

    The loss of step k is that of the weights of step k - 1: where both differ first at a step, the
    loss has parted earlier.
    """
    loss = next(((size, step) for size, step in losses if not size <= tolerance), None)
    off = [found for found in weights if not found[0] <= tolerance]
    weight = max((found for found in off if found[1] == off[0][1]), key=_by_size) if off else None
    if loss and (weight is None or loss[1] <= weight[1]):
        variable = weight[2] if weight and weight[1] == loss[1] else None
        return Divergence(loss[1], variable, loss[0], 'loss')
    if weight:
        return Divergence(weight[1], weight[2], weight[0], 'weights')
    if not evaluation <= tolerance:
        return Divergence(max((step for _, step in losses), default=0), None, evaluation, 'evaluation')
    return None
