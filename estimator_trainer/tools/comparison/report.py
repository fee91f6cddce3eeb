"""What a comparison has found, as text and as an HTML page that needs nothing from elsewhere."""

import math
import pathlib
from collections.abc import Mapping
from typing import NamedTuple

from estimator_trainer.errors import UsageError
from estimator_trainer.tools import reporting

_TEMPLATE = pathlib.Path(__file__).with_name('page.html.jinja')
_SHOWN = 1e-12  # smaller differences are shown as 0


class Row(NamedTuple):
    """A line of a table. On the page `state` colours the last cell, and `hovers` says more of some cells."""

    cells: tuple[str, ...]
    state: str
    hovers: Mapping[int, str] = {}


class Table(NamedTuple):
    title: str
    header: tuple[str, ...]
    rows: list[Row]


class Curves(NamedTuple):
    """A drawing of lines: name -> step -> value."""

    title: str
    ylabel: str
    lines: Mapping[str, Mapping[int, float]]
    logarithmic: bool = False


class Report(NamedTuple):
    """All that is shown.

    Attributes:
        says: the verdict, then what the differences tell.
        facts: how it was compared.
        notes: what to know of it.
        more: what to know of the numbers, for the page.
    """

    title: str
    state: str
    says: list[str]
    facts: list[str]
    tables: list[Table]
    notes: list[str]
    curves: list[Curves]
    more: str = ''


def number(value: float) -> str:
    return '0' if value < _SHOWN else f'{value:.1e}' if math.isfinite(value) else 'not equal'


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def text(report: Report) -> str:
    """The report for a terminal: the tables, then what the differences tell."""
    lines = [*report.facts, '']
    for each in report.tables:
        lines += [f'{each.title}:', *reporting.table([each.header, *(row.cells for row in each.rows)]), '']
    return '\n'.join([*lines, *reporting.wrapped([*report.notes, *report.says])])


def need_for_page(flag: str) -> None:
    """Asks for what the page needs, before any run. Raises UsageError."""
    try:
        import matplotlib  # noqa: F401

        from estimator_trainer.tools import pages  # noqa: F401
    except ImportError as error:
        raise UsageError(f'{flag} needs {error.name}: pip install jinja2 matplotlib') from error


def page(report: Report) -> str:
    from estimator_trainer.tools import pages

    drawings = [
        (each.title, pages.lines(each.lines, each.ylabel, f'curves-{number}', each.title, 3.5, each.logarithmic))
        for number, each in enumerate(report.curves)
        if any(each.lines.values())
    ]
    return pages.render(_TEMPLATE, report=report, title=report.title, width='75rem', drawings=drawings)
