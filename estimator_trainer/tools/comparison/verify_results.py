"""What `verify` has found: its verdict, and how it is shown."""

import math
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from estimator_trainer import error_lines
from estimator_trainer.tools.comparison import first_difference, judgements, traces, verify_runs
from estimator_trainer.tools.comparison.judgements import Judgement
from estimator_trainer.tools.comparison.report import Curves, Report, Row, Table, finite, number
from estimator_trainer.tools.comparison.traces import Key, Record
from estimator_trainer.tools.comparison.value_differences import differences

WORDS = {
    judgements.EQUAL: 'equal bit for bit',
    judgements.CLOSE: 'within the tolerance',
    judgements.ROUNDING: 'within what rounding grows to',
    judgements.CHANCE: 'within chance',
    judgements.UNTOLD: 'may be chance or rounding',
    judgements.DIFFERS: 'DIFFERS',
}
_VERDICTS = {judgements.EQUAL: 'equal', judgements.UNTOLD: 'undecided', judgements.DIFFERS: 'different'}
_HEADER = ('what', 'values', 'difference', 'chance', 'rounding', 'verdict')
_MOST_NOTES = 5
_MUCH = 0.01  # relative
_SMALLEST, _LARGEST = 1e-9, 10.0  # of the logarithmic axis: what is equal stands at its foot
_ABOUT = (
    'A difference is the largest one of two elements, relative to the largest element of the variable. It is accepted '
    'if it is at most the tolerance, {tolerance:g} (for updates 100 times that). It is also accepted if it is at most '
    'ten times the difference between two runs of --from (chance), or between a run of --from and one whose initial '
    'weights are changed by up to {perturb:g} of their size (rounding).'
)


class Comparison(NamedTuple):
    """Two runs: `title` says which, `rows` what was found, `sentences` where they part and why."""

    title: str
    rows: list[Judgement]
    sentences: list[str]

    @property
    def state(self) -> str:
        return judgements.verdict(self.rows)


class Results(NamedTuple):
    """What was found.

    Attributes:
        facts: how it was compared.
        notes: what was not compared.
        missing: what the verdict `equal` leaves open.
        labels: number of an Estimator -> its model_dir.
        losses: name of a run -> number of an Estimator -> step -> loss.
        pairs: name of two runs -> their differences.
    """

    title: str
    facts: list[str]
    comparisons: list[Comparison]
    notes: list[str]
    steps: int
    tolerance: float
    missing: str = ''
    labels: Mapping[int, str] = {}
    losses: Mapping[str, Mapping[int, Mapping[int, float]]] = {}
    pairs: Mapping[str, Mapping[Key, float]] = {}

    @property
    def rows(self) -> list[Judgement]:
        return [row for comparison in self.comparisons for row in comparison.rows]

    @property
    def state(self) -> str:
        return judgements.verdict(self.rows)


def compare_runs(
    folder: str, sides: tuple[verify_runs.Side, verify_runs.Side], continued: bool, steps: int, tolerance: float
) -> Results:
    """Compares the runs in `folder`, of which each has the name of its `verify_runs.ProgramRun`."""
    runs = verify_runs.plan(*sides, continued)
    found = {run.name: traces.read(os.path.join(folder, run.name), f'--{run.side.name}') for run in runs}
    first, other = found[verify_runs.FROM], found[verify_runs.TO]
    apart = differences(first, other)
    again, rounded = (differences(first, found[name]) for name in (verify_runs.AGAIN, verify_runs.ROUNDED))
    spreads = judgements.chance_and_rounding(again, rounded)

    rows = judgements.rows(apart, *spreads, tolerance)
    sentences = first_difference.explain(first, other, apart, rows)
    comparisons = [Comparison(f'--from and --to, {_steps(first)}', rows, sentences)]
    missing = ''
    if continued:
        more, missing = _continued(found, spreads, tolerance, bool(sentences))
        comparisons += more
    return Results(
        f'{" ".join(sides[0].program)}: {sides[0].interpreter.short} and {sides[1].interpreter.short}',
        facts(sides),
        comparisons,
        [*_spread_notes(*spreads, tolerance), *notes(first, rows)],
        steps,
        tolerance,
        missing,
        first.labels,
        {'--from': first.losses(), '--to': other.losses()},
        {'--from and --to': apart, '--from, run again': again, '--from, with other rounding': rounded},
    )


def _continued(
    found: Mapping[str, Record], spreads: tuple[dict, dict], tolerance: float, known: bool
) -> tuple[list[Comparison], str]:
    """(Comparisons of the runs that continue others, what they do not show).

    Args:
        found: name of a run -> its record.
        known: the runs that begin anew part, too.
    """
    own = {side: found[verify_runs.continuing(side, side)] for side in ('from', 'to')}
    why = {side: first_difference.why_not_continued(record) for side, record in own.items()}
    made = []
    for begun, elsewhere in (('from', 'to'), ('to', 'from')):
        if why[begun] and not why[elsewhere]:
            first = own[elsewhere].keys(traces.WEIGHTS)[0]
            rows = judgements.rows({first: math.inf}, {}, {}, tolerance)
            said = (
                f'Started again in the folder of its own run, --{begun} {why[begun]}, while --{elsewhere} goes on from '
                'its checkpoint. Compare when they save checkpoints, and up to which step they train.'
            )
            made.append(Comparison(f'Continued from the checkpoint of --{begun}: nothing', rows, [said]))
        elif own[begun].keys(traces.WEIGHTS):
            title = f'Continued from the checkpoint of --{begun}: in --{begun}, and in --{elsewhere}'
            one, two = (found[verify_runs.continuing(begun, side)] for side in (begun, elsewhere))
            apart = differences(one, two)
            rows = judgements.rows(apart, *spreads, tolerance, ever=True)
            told = f'{title}, the runs part ', known
            made.append(Comparison(title, rows, first_difference.explain(one, two, apart, rows, *told)))
    return made, first_difference.not_continued(own['from']) or first_difference.not_continued(own['to'])


def says(results: Results) -> list[str]:
    """The verdict, what the differences tell, and what to do where chance hides the answer."""
    rows = results.rows
    said = [sentence for comparison in results.comparisons for sentence in comparison.sentences]
    untold = dict.fromkeys(row.thing for row in rows if row.state == judgements.UNTOLD)
    if untold:
        said.append(
            f'Two runs of --from differ by chance, or by other rounding, in: {", ".join(untold)}. Seed what the '
            'program draws at random, or read data in a fixed order (tf.data with deterministic=True), and verify '
            'again.'
        )
    if results.state == judgements.DIFFERS:
        return [f'DIFFERENT: {said[0]}', *said[1:]]
    if results.state == judgements.EQUAL:
        states = {row.state for row in rows}
        ways = ['bit for bit' if states == {judgements.EQUAL} else f'within {results.tolerance:g}']
        ways += [WORDS[state] for state in (judgements.ROUNDING, judgements.CHANCE) if state in states]
        return [f'EQUAL: both compute the same, {" or ".join(ways)}. {results.missing}'.rstrip()]
    hidden = {each for row in rows for each in row.untold}
    where = rest = ''
    if not hidden >= {*results.labels}:
        some = (f'Estimator {each + 1} ({results.labels.get(each, "?")})' for each in sorted(hidden))
        where, rest = f' in {", ".join(some)}', ' The other Estimators compute the same.'
    verdict = f'two runs of --from differ so much{where} that a difference of --to may be chance or rounding.{rest}'
    return [f'UNDECIDED: {verdict}', *said]


def shown(results: Results) -> Report:
    """The results for a terminal and a page."""
    tables = [Table(each.title, _HEADER, [_row(row) for row in each.rows if row.count]) for each in results.comparisons]
    about = _ABOUT.format(tolerance=results.tolerance, perturb=verify_runs.PERTURB)
    curves = list(_curves(results))
    return Report(results.title, results.state, says(results), results.facts, tables, results.notes, curves, about)


def _row(row: Judgement) -> Row:
    word = WORDS[row.state]
    if row.state in (judgements.DIFFERS, judgements.UNTOLD):
        word += f', first at {_at(row.first)}'
    numbers = (number(size) for size in (row.largest, row.chance, row.rounding))
    state = row.state if row.state in _VERDICTS else judgements.EQUAL
    return Row((row.thing, str(row.count), *numbers, word), state, {2: f'{row.where.name}, step {row.where.step}'})


def _at(key: Key) -> str:
    """'Estimator 2, step 5, dense/kernel', as far as it applies."""
    where = f'Estimator {key.estimator + 1}, ' if key.estimator else ''
    by_step = key.is_variable or key.thing in (traces.LOSS, traces.UPDATES) or key.thing == traces.INPUTS and key.step
    return f'{where}step {key.step}, {key.name}' if by_step else f'{where}{key.name or "the first one"}'


def _curves(results: Results) -> Iterator[Curves]:
    """For each Estimator the losses, and how far the pairs of runs are apart, step by step."""
    several = len(results.labels) > 1
    for estimator in results.labels:
        of = f', Estimator {estimator + 1}' if several else ''
        losses = {name: run.get(estimator, {}) for name, run in results.losses.items()}
        yield Curves(f'Loss of each step{of}', 'loss', losses)
        growth: dict[str, dict[int, float]] = {name: {} for name in results.pairs}
        for name, sizes in results.pairs.items():
            for key, size in sizes.items():
                if key.is_variable and key.estimator == estimator:
                    growth[name][key.step] = max(min(size, _LARGEST), growth[name].get(key.step, _SMALLEST))
        title = f'Largest difference of the weights at each step{of}'
        yield Curves(title, 'relative difference', growth, logarithmic=True)


def to_json(results: Results) -> dict[str, Any]:
    """The results as JSON. A difference is null where the values cannot be subtracted, or one is missing."""
    return {
        'verdict': _VERDICTS[results.state],
        'says': says(results)[0],
        'title': results.title,
        'facts': results.facts,
        'steps': results.steps,
        'tolerance': results.tolerance,
        'comparisons': [
            {
                'title': each.title,
                'verdict': _VERDICTS[each.state],
                'sentences': each.sentences,
                'rows': [_row_as_json(row) for row in each.rows],
            }
            for each in results.comparisons
        ],
        'notes': results.notes,
        'losses': results.losses,
    }


def _row_as_json(row: Judgement) -> dict[str, Any]:
    return {
        'what': row.thing,
        'values': row.count,
        'verdict': row.state,
        'difference': finite(row.largest),
        'at': row.where and row.where._asdict(),
        'first': row.first._asdict() if row.first and row.state in (judgements.DIFFERS, judgements.UNTOLD) else None,
        'from_again': finite(row.chance),
        'rounding': finite(row.rounding),
    }


def _spread_notes(chance: Mapping[Key, float], grown: Mapping[Key, float], tolerance: float) -> list[str]:
    """From where on chance, or else rounding, hides small differences."""
    for subject, apart, least in (
        ('Two runs of --from differ by chance', chance, tolerance),
        ('Another rounding changes what --from computes', grown, _MUCH),
    ):
        first = next((key for key, size in apart.items() if size > least and key.thing != traces.UPDATES), None)
        if first:
            largest = number(max(size for key, size in apart.items() if key[:2] == first[:2]))
            return [
                f'{subject}, first at {_at(first)}; the largest such difference is {largest}. A difference between '
                '--from and --to that is up to ten times as large cannot be told from it.'
            ]
    return []


def _steps(record: Record) -> str:
    steps = [len(losses) for losses in record.losses().values()]
    each = f'{max(steps)} steps' if len(set(steps)) == 1 else f'{min(steps)} to {max(steps)} steps'
    return f'{len(steps)} Estimators, {each} each' if len(steps) > 1 else each


def facts(sides: Sequence[verify_runs.Side]) -> list[str]:
    found = []
    for side in sides:
        command = shlex.join([side.interpreter.path, *side.program, *side.arguments])
        by_compat = '; tf.estimator by compat' if side.interpreter.needs_compat else ''
        by_compat = '; as compat run --tf1' if side.tf1 and side.interpreter.by_compat(True) else by_compat
        found.append(f'--{side.name}: {command} ({side.interpreter.described}{by_compat})')
    return found


def notes(first: Record, rows: Sequence[Judgement]) -> list[str]:
    """What was not compared, or not as a reader would think."""
    missing = [row.thing for row in rows if not row.count]
    found = [f'The program has no {", no ".join(missing)}.'] if missing else []
    for folder, name, reason in first.not_called[:_MOST_NOTES]:
        why = error_lines.short(error_lines.telling_line(reason) or reason).rstrip('.')
        found.append(f'Not called: signature {name or "(all)"} of {folder}: {why}.')
    sampled = {key.name for key, value in first.values.items() if value.sampled}
    if sampled:
        found.append(f'{len(sampled)} large arrays are compared by a sample of their elements, by norm and by digest.')
    if first.other_processes:
        found.append(f'{first.other_processes} more processes of the program used Estimators. They were not recorded.')
    if first.skipped:
        found.append(f'{first.skipped} calls of train came after the last step (--steps) and made none.')
    return found
