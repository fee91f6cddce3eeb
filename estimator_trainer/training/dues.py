"""Steps after which something is due that comes every so many steps. Imports no TensorFlow."""

from collections.abc import Callable


def every(first: int, frequency: int) -> Callable:
    """(step) -> the next step after it that is a multiple of `frequency` steps after `first`; None: never."""

    def next_(step):
        if not frequency:
            return None
        return first if step < first else step + frequency - (step - first) % frequency

    return next_


def in_call(counts: list[int], frequency: int | None) -> list[int]:
    """After which steps of a call something is due that comes every `frequency` steps.

    Args:
        counts: the steps that were counted before the call and after each of its steps.

    Returns:
        The numbers of these steps in the call, from 0 on.
    """
    if not frequency:
        return []
    return [
        number
        for number, (before, count) in enumerate(zip(counts, counts[1:]))
        if count // frequency > before // frequency
    ]
