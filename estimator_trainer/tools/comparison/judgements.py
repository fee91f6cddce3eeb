"""Whether two runs differ by more than rounding and chance. Pure Python.

Each value of a run has a relative difference to that of another. It may be as large as the largest of three:

1. The tolerance. Updates, which are small against the weights, have a hundred times the tolerance.
2. Ten times the difference that the same value, or the same variable at an earlier step, had between two runs of the
   first environment: chance.
3. Ten times the difference that it had between two such runs of which one began with slightly different weights, as
   another rounding makes them. A difference of rounding grows from step to step, and this says how fast.

The weights that a run restores from a checkpoint come of no computation: for them only the tolerance counts.
"""

import dataclasses
import math
from collections.abc import Iterable, Mapping

from estimator_trainer.tools.comparison.traces import EXPORTS, INPUTS, THINGS, UPDATES, WEIGHTS, Key

EQUAL, CLOSE, ROUNDING, CHANCE, UNTOLD, DIFFERS = 'equal', 'close', 'rounding', 'chance', 'untold', 'differs'
_WORSE = (EQUAL, CLOSE, ROUNDING, CHANCE, UNTOLD, DIFFERS)
FACTOR = 10
OF_UPDATES = 100
TELLING = 0.01  # relative: a value that differs by more than this by chance tells nothing


@dataclasses.dataclass(frozen=True)
class Judgement:
    """The verdict on one thing, such as all losses.

    Attributes:
        count: how many values were compared; 0 where the program has none.
        largest: the largest difference, at `where`.
        first: the first value with this state.
        worst: of the values of that step with this state, the one that is furthest apart.
        chance: the largest difference between two runs of the first environment.
        rounding: likewise, with the initial weights changed.
        untold: the Estimators that have values with the state UNTOLD.
    """

    thing: str
    count: int
    state: str
    largest: float = 0.0
    where: Key | None = None
    first: Key | None = None
    worst: Key | None = None
    chance: float = 0.0
    rounding: float = 0.0
    untold: frozenset[int] = frozenset()


def chance_and_rounding(again: Mapping[Key, float], rounded: Mapping[Key, float]) -> tuple[dict, dict]:
    """What chance does, and what rounding grows to.

    The run of rounding changes the weights before the first step itself: they are no result of a computation. Rounding
    changes no input, so that another input of that run is chance.
    """
    inputs = {key: max(size, again.get(key, 0.0)) for key, size in rounded.items() if key.thing == INPUTS}
    initial = {key for key in rounded if key.thing == WEIGHTS and key.step == 0}
    return {**again, **inputs}, {key: rounded[key] for key in rounded if key not in inputs and key not in initial}


def rows(
    differences: Mapping[Key, float],
    chance: Mapping[Key, float],
    rounding: Mapping[Key, float],
    tolerance: float,
    ever: bool = False,
) -> list[Judgement]:
    """A row for each thing, in the order of `THINGS`.

    Args:
        chance: the differences between two runs of the first environment; `rounding`: between it and a run with other
            initial weights.
        ever: the runs continue others, so that the spread of all steps counts.
    """
    by_thing: dict[str, dict[Key, float]] = {thing: {} for thing in THINGS}
    for key, size in differences.items():
        by_thing[key.thing][key] = size
    restored = _restored(differences) if ever else set()
    spreads = [_so_far(each) for each in (chance, rounding)]

    def spread(key):
        """(chance, rounding) of a value, or of its kind up to its step; with `ever` at any step."""
        return tuple(
            0.0 if key in restored else so_far.get(key.series if ever else key, so_far.get(key.series, 0.0))
            for so_far in spreads
        )

    random: dict[int, set[int]] = {}  # Estimator -> steps whose input is so; 0: the input of an evaluation
    for key in by_thing[INPUTS]:
        if spread(key)[0] > TELLING:
            random.setdefault(key.estimator, set()).add(key.step)
    return [_row(thing, by_thing[thing], spread, tolerance, random) for thing in THINGS]


def _so_far(differences: Mapping[Key, float]) -> dict[tuple, float]:
    """The largest difference up to each key, and of each series."""
    found: dict[tuple, float] = {}
    for key, size in differences.items():
        found[key.series] = found[key] = max(size, found.get(key.series, 0.0))
    return found


def _restored(differences) -> set[Key]:
    """Weights and slots that the first call of train has restored, before its first step."""
    state = [key for key in differences if key.is_variable and key.call == 0]
    begins: dict[int, int] = {}
    for key in state:
        begins[key.estimator] = min(key.step, begins.get(key.estimator, key.step))
    return {key for key in state if key.step == begins[key.estimator] > 0}


def _row(thing, differences, spread, tolerance, random) -> Judgement:
    if not differences:
        return Judgement(thing, 0, EQUAL)
    tolerance *= OF_UPDATES if thing == UPDATES else 1
    spreads = {key: spread(key) for key in differences}
    states = {key: _state(size, tolerance, *spreads[key]) for key, size in differences.items()}
    if thing != INPUTS:
        states = _settled(states, random)
    # What another rounding changes altogether would allow everything, such as any other name.
    states |= {key: UNTOLD for key, state in states.items() if state == ROUNDING and math.isinf(spreads[key][1])}
    where = max(differences, key=lambda key: differences[key])
    state = max(states.values(), key=_WORSE.index)
    first = next(key for key in states if states[key] == state)
    beside = [key for key in states if states[key] == state and key[:4] == first[:4]]
    return Judgement(
        thing,
        len(differences),
        state,
        differences[where],
        where,
        first,
        max(beside, key=lambda key: differences[key]),
        max(chance for chance, _ in spreads.values()),
        max(rounding for _, rounding in spreads.values()),
        frozenset(key.estimator for key, state in states.items() if state == UNTOLD),
    )


def _settled(states: Mapping[Key, str], random: Mapping[int, set[int]]) -> dict[Key, str]:
    """The states, where those of an Estimator count together.

    Chance grows from step to step. If most variables of an Estimator are told at first, they are so for good. And
    what differs no earlier than a random input of its Estimator is not told.
    """
    told = _mostly_told(states)
    settled = dict(states)
    for key, state in states.items():
        if state == UNTOLD and key.estimator in told:
            settled[key] = CHANCE
        elif state == DIFFERS and key.thing != EXPORTS and _follows(key, random.get(key.estimator, set())):
            settled[key] = UNTOLD
    return settled


def _mostly_told(states: Mapping[Key, str]) -> set[int]:
    """The Estimators of which most variables, or metrics, have a value that is told."""
    told: dict[tuple, bool] = {}
    for key, state in states.items():
        if key.step or not key.is_variable:  # initial values tell nothing of a step
            told[key.series] = told.get(key.series, False) or state != UNTOLD
    found: dict[int, list[bool]] = {}
    for (_, estimator, _), is_told in told.items():
        found.setdefault(estimator, []).append(is_told)
    return {estimator for estimator, each in found.items() if 2 * sum(each) > len(each)}


def _follows(key: Key, random: set[int]) -> bool:
    if key.step:
        return any(0 < step <= key.step for step in random)
    return bool(random) and not key.is_variable


def _state(size: float, tolerance: float, chance: float, rounding: float) -> str:
    """UNTOLD: two runs of one environment are so far apart that no difference would be told from chance."""
    if chance > TELLING:
        return UNTOLD
    if size == 0:
        return EQUAL
    if size <= tolerance:
        return CLOSE
    if size <= FACTOR * chance:
        return CHANCE
    return ROUNDING if size <= FACTOR * rounding else DIFFERS


def verdict(found: Iterable[Judgement]) -> str:
    """DIFFERS, UNTOLD or EQUAL, of all rows."""
    states = {row.state for row in found}
    return DIFFERS if DIFFERS in states else UNTOLD if UNTOLD in states else EQUAL


def first(found: Iterable[Judgement], differences: Mapping[Key, float]) -> Judgement | None:
    """The thing that differs first, in the order of recording."""
    apart = {row.first: row for row in found if row.state == DIFFERS}
    return next((apart[key] for key in differences if key in apart), None)
