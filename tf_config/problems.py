"""How the mistakes of a TF_CONFIG are reported."""

import json
from collections.abc import Callable
from typing import NamedTuple

ABSENT = object()
NEAR = 'did you mean'  # a problem with these words names what was probably meant

Blame = Callable[[str, object, str], None]  # (key, the value that the text has there, what is wrong with it) -> None


class Problem(NamedTuple):
    """One mistake: the key where it is, the value there (as text), and what is wrong with it."""

    key: str
    seen: str
    problem: str


def as_line(value: object) -> str:
    """A value of a TF_CONFIG as one line of JSON, with at most 200 characters."""
    try:
        text = 'absent' if value is ABSENT else json.dumps(value)
    except RecursionError:
        text = '(nested too deeply to show)'
    return text if len(text) <= 200 else text[:197] + '...'


def example_host(role: str, index: int) -> str:
    """The made-up host of a task, for examples: 'worker-0.example'."""
    return f'{role}-{index}.example'
