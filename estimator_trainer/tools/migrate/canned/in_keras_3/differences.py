"""How far numbers are from those that are expected. Needs NumPy only; both processes import it."""

import numpy as np


def difference(expected, found) -> float:
    expected, found = np.asarray(expected), np.asarray(found)
    if expected.shape != found.shape:
        return float('inf')
    if expected.dtype.kind in 'OSU':
        return float(np.sum(expected != found))
    return float(np.max(np.abs(expected.astype(np.float64) - found.astype(np.float64)), initial=0))


def relative(expected, found) -> float:
    """The difference as a part of the largest number expected, if that is above 1: a sum of squared gradients, or the
    price of a house, may be millions."""
    expected = np.asarray(expected)
    largest = np.max(np.abs(expected), initial=0) if expected.dtype.kind not in 'OSU' else 0
    return difference(expected, found) / max(1.0, float(largest))


def by_name(expected, found, rows=None) -> dict:
    """{name: relative difference} of arrays by name.

    Args:
        rows: bool [number], the examples that count; None: all. Where none counts, nothing is compared, and the
            result is empty: a difference of 0 would say that something was.
    """
    if rows is not None and not np.any(rows):
        return {}
    taken = slice(None) if rows is None else rows
    return {name: relative(value[taken], found[name][taken]) for name, value in expected.items()}


def greatest(differences) -> float | None:
    """Of {name: difference}: NaN if one is; None where there is none."""
    return max(differences.values(), key=lambda each: (each != each, each), default=None)
