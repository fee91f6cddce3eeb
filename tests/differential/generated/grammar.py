"""Draws programs, and makes a program smaller."""

import dataclasses

import numpy as np

from tests.differential.generated import control_flow, statements  # noqa: F401  they register what they build
from tests.differential.generated.scope import KINDS

OPTIMIZERS = ('sgd', 'momentum', 'adam', 'clipped', 'sometimes', 'none')
_DEPTH, _MOST, _MOST_INNER = 2, 5, 2
_BACK, _VARIANTS = 4, 12
_LEAVES = sorted(name for name, kind in KINDS.items() if not kind.blocks)
_NESTED = sorted(name for name, kind in KINDS.items() if kind.blocks)


@dataclasses.dataclass(frozen=True)
class Program:
    """A training step.

    Attributes:
        statements: as of `scope`.
        optimizer: one of OPTIMIZERS.
        source: 'iterator' or 'one_shot'.
        summary, last: whether the merged summaries, and a value of the last step, are asked for.
        references: whether the variables are those of TensorFlow 1.
        counted: whether a call ends after a step that has not counted by 1.
        rewritten: whether TensorFlow's optimizer of graphs may rewrite it, which costs half of the time.
    """

    statements: tuple
    optimizer: str = 'sgd'
    source: str = 'iterator'
    summary: bool = False
    last: bool = False
    references: bool = False
    rewritten: bool = False
    counted: bool = False


def drawn(seed: int, number: int) -> Program:
    """The program of this number. It depends on both numbers only."""
    random = np.random.RandomState([seed, number])
    return Program(
        statements=_block(random, _DEPTH, _MOST),
        optimizer=_one(random, OPTIMIZERS),
        source=_one(random, ['iterator', 'iterator', 'one_shot']),
        summary=random.rand() < 0.3,
        last=random.rand() < 0.3,
        references=random.rand() < 0.02,
        rewritten=random.rand() < 0.25,
        counted=random.rand() < 0.5,
    )


def _block(random, depth, most) -> tuple:
    return tuple(_statement(random, depth) for _ in range(1 + random.randint(most)))


def _statement(random, depth) -> tuple:
    name = _one(random, _NESTED if depth and random.rand() < 0.35 else _LEAVES)
    numbers = (random.randint(_BACK), random.randint(_BACK), random.randint(_VARIANTS))
    return (name, *numbers, *(_block(random, depth - 1, _MOST_INNER) for _ in range(KINDS[name].blocks)))


def _one(random, choices):
    return choices[random.randint(len(choices))]


def reduced(program, fails) -> Program:
    """The smallest program found that still fails.

    Args:
        fails: (program) -> whether it does.
    """
    goes_on = True
    while goes_on:
        goes_on = False
        for smaller in _smaller(program):
            if fails(smaller):
                program, goes_on = smaller, True
                break
    return program


def _smaller(program):
    for fewer in _smaller_blocks(program.statements):
        yield dataclasses.replace(program, statements=fewer)
    for field in dataclasses.fields(Program)[1:]:
        if getattr(program, field.name) != field.default:
            yield dataclasses.replace(program, **{field.name: field.default})


def _smaller_blocks(block):
    """Without a statement; with one of its bodies in its place; with smaller numbers."""
    for number, (name, *rest) in enumerate(block):
        before, after = block[:number], block[number + 1 :]
        numbers, blocks = rest[:3], rest[3:]
        if len(block) > 1:
            yield before + after
        for inner in blocks:
            yield before + inner + after
        for place, inner in enumerate(blocks):
            for smaller in _smaller_blocks(inner):
                yield (*before, (name, *numbers, *blocks[:place], smaller, *blocks[place + 1 :]), *after)
        for place, value in enumerate(numbers):
            for less in sorted({0, value // 2, value - 1} & set(range(value))):
                yield (*before, (name, *numbers[:place], less, *numbers[place + 1 :], *blocks), *after)
