"""The comparison as text and as JSON."""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from estimator_trainer.tools.reporting import table, wrapped
from estimator_trainer.tools.verify import judge, traces
from estimator_trainer.tools.verify.compare import UPDATES
from estimator_trainer.tools.verify.judge import Judgement
from estimator_trainer.tools.verify.traces import Key

WORDS = {
    judge.EQUAL: 'equal bit for bit',
    judge.CLOSE: 'within the tolerance',
    judge.ROUNDING: 'within what rounding grows to',
    judge.CHANCE: 'within chance',
    judge.UNTOLD: 'may be chance',
    judge.DIFFERS: 'DIFFERS',
}
_SUMMARY = {judge.EQUAL: 'EQUAL', judge.UNTOLD: 'UNDECIDED', judge.DIFFERS: 'DIFFERENT'}
_SHOWN = 1e-12  # smaller differences are shown as 0


class Comparison(NamedTuple):
    """Two runs: `title` says which, `rows` what was found, `sentences` where they part."""

    title: str
    rows: list[Judgement]
    sentences: list[str]

    @property
    def state(self) -> str:
        return judge.verdict(self.rows)


class Report(NamedTuple):
    """All that is shown.

    Attributes:
        facts: how it was compared.
        notes: what was not compared.
        missing: what the verdict `equal` leaves open.
        estimators: number of an Estimator -> its model_dir.
    """

    title: str
    facts: list[str]
    comparisons: list[Comparison]
    notes: list[str]
    steps: int
    tolerance: float
    missing: str = ''
    estimators: Mapping[int, str] = {}

    @property
    def state(self) -> str:
        return judge.verdict(row for comparison in self.comparisons for row in comparison.rows)


def verdict(report: Report) -> str:
    """The first line."""
    word = _SUMMARY[report.state]
    if report.state == judge.EQUAL:
        states = {row.state for comparison in report.comparisons for row in comparison.rows}
        how = ['bit for bit' if states == {judge.EQUAL} else f'within {report.tolerance:g}']
        how += [WORDS[state] for state in (judge.ROUNDING, judge.CHANCE) if state in states]
        return f'{word}: both compute the same, {" or ".join(how)}. {report.missing}'.rstrip()
    if report.state == judge.UNTOLD:
        some = _untold_estimators(report)
        where, rest = (f' in {some}', ' The other Estimators compute the same.') if some else ('', '')
        return f'{word}: two runs of --from differ so much{where} that a difference of --to may be chance.{rest}'
    return f'{word}: {next(each.sentences[0] for each in report.comparisons if each.sentences)}'


def _untold_estimators(report: Report) -> str:
    """Which Estimators chance hides; '' for all."""
    hidden = {each for comparison in report.comparisons for row in comparison.rows for each in row.untold}
    if hidden >= set(report.estimators):
        return ''
    return ', '.join(f'Estimator {each + 1} ({report.estimators.get(each, "?")})' for each in sorted(hidden))


def text(report: Report) -> str:
    """The report for a terminal: a table for each comparison, then what the differences tell."""
    lines = [*report.facts, '']
    for comparison in report.comparisons:
        lines += [f'{comparison.title}:', *_table(comparison.rows), '']
    lines += wrapped(report.notes)
    said = [sentence for comparison in report.comparisons for sentence in comparison.sentences]
    lines += wrapped([verdict(report), *said[1:], *untold(report)])
    return '\n'.join(lines)


def _table(rows: Sequence[Judgement]) -> list[str]:
    lines = [('what', 'values', 'difference', 'chance', 'rounding', 'verdict')]
    lines += [cells(row) for row in rows if row.count]
    return table(lines)


def cells(row: Judgement) -> tuple[str, ...]:
    """The cells of a row: thing, count, difference, chance, rounding, verdict."""
    word = WORDS[row.state]
    if row.state in (judge.DIFFERS, judge.UNTOLD):
        word += f', first at {place(row.first)}'
    return row.thing, str(row.count), number(row.largest), number(row.chance), number(row.rounding), word


def place(key: Key) -> str:
    """'Estimator 2, step 5, dense/kernel', as far as it applies."""
    where = f'Estimator {key.estimator + 1}, ' if key.estimator else ''
    by_step = (
        key.thing in (traces.LOSS, traces.WEIGHTS, traces.SLOTS, UPDATES) or key.thing == traces.INPUTS and key.step
    )
    return f'{where}step {key.step}, {key.name}' if by_step else f'{where}{key.name or "the first one"}'


def number(value: float) -> str:
    return '0' if value < _SHOWN else f'{value:.1e}' if math.isfinite(value) else 'not equal'


def untold(report: Report) -> list[str]:
    """What to do where chance hides the answer."""
    rows = [row for comparison in report.comparisons for row in comparison.rows if row.state == judge.UNTOLD]
    if not rows:
        return []
    return [
        f'Two runs of --from differ by chance in: {", ".join(dict.fromkeys(row.thing for row in rows))}. Seed what the '
        'program draws at random, or read data in a fixed order (tf.data with deterministic=True), and verify again.'
    ]


def to_json(report: Report, losses: dict[str, Any]) -> dict[str, Any]:
    """The report for verify.json. A difference is null where the values cannot be subtracted, or one is missing.

    Args:
        losses: name of a run -> number of an Estimator -> step -> loss.
    """
    return {
        'verdict': _SUMMARY[report.state].lower(),
        'says': verdict(report),
        'title': report.title,
        'facts': report.facts,
        'steps': report.steps,
        'tolerance': report.tolerance,
        'comparisons': [
            {
                'title': comparison.title,
                'verdict': _SUMMARY[comparison.state].lower(),
                'sentences': comparison.sentences,
                'rows': [_row(row) for row in comparison.rows],
            }
            for comparison in report.comparisons
        ],
        'notes': report.notes,
        'losses': losses,
    }


def _row(row: Judgement) -> dict[str, Any]:
    return {
        'what': row.thing,
        'values': row.count,
        'verdict': row.state,
        'difference': judge.finite(row.largest),
        'at': row.where and row.where._asdict(),
        'first': row.first._asdict() if row.first and row.state in (judge.DIFFERS, judge.UNTOLD) else None,
        'from_again': judge.finite(row.chance),
        'rounding': judge.finite(row.rounding),
    }
