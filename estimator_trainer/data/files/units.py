"""Each column has one unit in all files of a run.

tf.int64 reads a time as a number of its unit, and tf.string reads a decimal with the digits of its scale. If the files
had several units or scales, the model would get several numbers or texts for one value.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from estimator_trainer.errors import UsageError

DECIMALS = 'decimals of scale '
_CURE = 'Write all files with one type, such as with the method cast of a pyarrow.Table'


class Unit(NamedTuple):
    """The unit of a column in a file.

    Attributes:
        name: such as 'timestamp[us]', or 'decimals of scale 2'; '' for a column without a unit.
        kind: the type of the column, for messages.
    """

    name: str
    kind: str


class Column(NamedTuple):
    """A column of all files: its unit, and the first file that has it."""

    unit: Unit
    path: str


def columns(paths: Sequence[str], names: Sequence[str], units: Iterable[tuple[Unit | None, ...]]) -> dict[str, Column]:
    """The columns of some files, by name.

    Args:
        paths: the files.
        names: the names of the columns.
        units: for each file the unit of each column; None if no row of the file has a value in it.

    Raises:
        UsageError: a column has several units.
    """
    known: dict[str, Column] = {}
    compared: set[tuple[Unit | None, ...]] = set()
    for path, of_file in zip(paths, units):
        if of_file not in compared:
            compared.add(of_file)
            these = {name: Column(unit, path) for name, unit in zip(names, of_file) if unit is not None}
            refuse_others(known, these)
            known = these | known
    return known


def refuse_others(known: Mapping[str, Column], others: Mapping[str, Column]) -> None:
    """Raises UsageError if a column has another unit in other files. The message names both files and types."""
    for name, other in others.items():
        column = known.get(name, other)
        if column.unit.name != other.unit.name:
            raise UsageError(
                f'{other.path}: column {name!r} is {other.unit.kind}, and {column.unit.kind} in {column.path}; '
                f'{_why(column.unit.name, other.unit.name)}. {_CURE}.'
            )


def refuse_other_than_trained(
    trained: Mapping[str, str],
    now: Mapping[str, Column],
    model_dir: str,
    other_cure: str = 'or give another --model_dir, or --allow_config_change',
) -> None:
    """Raises UsageError if a column has another unit than those with which a run was trained.

    Args:
        trained: the units by the names of their columns, as `names` gives them. One that is missing was not recorded.
        now: the columns of the files of this start.
        model_dir: the folder of the run.
        other_cure: what helps beside another type of the column: the end of the message.
    """
    for name, column in now.items():
        before = trained.get(name, column.unit.name)
        if before != column.unit.name:
            raise UsageError(
                f'{column.path}: column {name!r} is {column.unit.kind}, and the run in {model_dir} was trained on '
                f'{before or "values without a unit"}; {_why(before, column.unit.name)}. {_CURE}, {other_cure}.'
            )


def names(known: Mapping[str, Column]) -> dict[str, str]:
    """The units of the columns, by their names; '' for a column without a unit. Earlier versions left these out."""
    return {name: column.unit.name for name, column in known.items()}


def _why(*units: str) -> str:
    if any(unit.startswith(DECIMALS) for unit in units):
        return 'tf.string reads all digits of a decimal, so 1.5 of one file and 1.50 of the other would be two texts'
    return 'tf.int64 reads a time as a number of its unit, so one time would be two numbers'
