"""Which variable of an Estimator's checkpoint is which of a Keras model and its optimizer. Pure Python.

An Estimator's checkpoint is a table: `conv/kernel`, `conv/kernel/Adam` (the first moment),
`conv/kernel/Adam_1` (the second), `beta1_power`, `global_step`.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from tf_config import tables

WEIGHT, SLOT, STEP, POWER = 'weight', 'slot', 'step', 'power'
MATCHED = 'matched'


@dataclasses.dataclass(frozen=True)
class Pair:
    """One variable in both worlds.

    Attributes:
        estimator: its name in the Estimator's checkpoint.
        keras: its name in Keras; for a POWER the name of the number of which it is a power.
        shape: in Keras.
        kind: WEIGHT, SLOT, STEP or POWER.
    """

    estimator: str
    keras: str
    shape: tuple
    kind: str


@dataclasses.dataclass(frozen=True)
class VariableMatch:
    """One line of the report. `status` is MATCHED, or says what is wrong."""

    estimator: str
    keras: str
    shape: tuple
    kind: str
    status: str

    @property
    def matched(self) -> bool:
        return self.status == MATCHED

    @property
    def name(self) -> str:
        """What `--allow_unmatched` calls it."""
        return self.estimator or self.keras


def match(pairs: Sequence[Pair], source: Mapping[str, tuple], source_is: str) -> list[VariableMatch]:
    """Holds the pairs of a job against the variables of a checkpoint.

    Args:
        pairs: every variable that the job's model and optimizer have.
        source: name -> shape of what the checkpoint holds, by its names in that world.
        source_is: 'estimator' or 'keras', the world of the checkpoint.

    Returns:
        A line for each pair and for each variable of the checkpoint that no pair speaks of.
    """
    lines, spoken_of = [], set()
    other = 'keras' if source_is == 'estimator' else 'estimator'
    for pair in pairs:
        name = getattr(pair, source_is)
        there = source.get(name)
        spoken_of.add(name)
        if there is None:
            status = f'only in {other}'
        elif tuple(there) != tuple(pair.shape):
            status = f'shape {list(there)} in {source_is}, {list(pair.shape)} in {other}'
        else:
            status = MATCHED
        lines.append(VariableMatch(pair.estimator, pair.keras, tuple(pair.shape), pair.kind, status))
    for name in sorted(set(source) - spoken_of):
        both = {source_is: name, other: ''}
        lines.append(VariableMatch(both['estimator'], both['keras'], tuple(source[name]), '', f'only in {source_is}'))
    return lines


def refused(lines: Sequence[VariableMatch], allowed: Sequence[str]) -> list[VariableMatch]:
    """The unmatched lines that nobody has allowed by name."""
    return [line for line in lines if not line.matched and line.name not in allowed]


def table(lines: Sequence[VariableMatch]) -> str:
    """The report as people read it."""
    rows = [('estimator', 'keras', 'shape', 'status')]
    rows += [
        (line.estimator or '-', line.keras or '-', 'x'.join(map(str, line.shape)) or 'scalar', line.status)
        for line in lines
    ]
    return '\n'.join(tables.aligned(rows))
