"""Reads what the runs have recorded, and makes the report of it."""

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from estimator_trainer import error_lines
from estimator_trainer.tools.verify import compare, first_difference, judge, program_runs, traces, verify_report
from estimator_trainer.tools.verify.traces import Key, Trace
from estimator_trainer.tools.verify.verify_report import Comparison, Report

_MOST_NOTES = 5
_MUCH = 0.01  # relative
_CONTINUED = (
    (program_runs.FROM_FROM, program_runs.FROM_TO, 'Continued from the checkpoint of --from: in --from, and in --to'),
    (program_runs.TO_TO, program_runs.TO_FROM, 'Continued from the checkpoint of --to: in --to, and in --from'),
)


class Results(NamedTuple):
    """The report; for its drawings the losses of the runs, and the differences of pairs of runs."""

    report: Report
    losses: dict[str, dict[int, dict[int, float]]]
    differences: dict[str, Mapping[Key, float]]


def compare_runs(
    folder: str, sides: tuple[program_runs.Side, program_runs.Side], continued: bool, steps: int, tolerance: float
) -> Results:
    """The results of the runs in `folder`, of which each has the name of its `program_runs.ProgramRun`."""
    found = {run.name: traces.read(os.path.join(folder, run.name)) for run in program_runs.plan(*sides, continued)}
    first = found[program_runs.FROM]
    pairs = {
        other: compare.differences(first, found[other])
        for other in (program_runs.TO, program_runs.AGAIN, program_runs.ROUNDED)
    }
    chance, grown = _chance_and_rounding(pairs[program_runs.AGAIN], pairs[program_runs.ROUNDED])
    spreads = judge.Spread(chance), judge.Spread(grown)

    rows = judge.rows(pairs[program_runs.TO], *spreads, tolerance)
    sentences = first_difference.explain(first, found[program_runs.TO], pairs[program_runs.TO], rows)
    comparisons = [Comparison(f'--from and --to, {_steps(first)}', rows, sentences)]
    missing = _not_continued(found[program_runs.FROM_FROM]) if continued else ''
    for one, other, title in _CONTINUED if continued and found[program_runs.FROM_FROM].keys(traces.WEIGHTS) else ():
        differences = compare.differences(found[one], found[other])
        rows = judge.rows(differences, *spreads, tolerance, ever=True)
        told = f'{title}, the runs part ', bool(comparisons[0].sentences)
        sentences = first_difference.explain(found[one], found[other], differences, rows, *told)
        comparisons.append(Comparison(title, rows, sentences))
    notes = _spread_notes(chance, grown, tolerance) + _notes(first, comparisons[0].rows)
    made = Report(_title(sides), _facts(sides), comparisons, notes, steps, tolerance, missing, first.labels)
    drawn = {
        '--from and --to': program_runs.TO,
        '--from, run again': program_runs.AGAIN,
        '--from, with other rounding': program_runs.ROUNDED,
    }
    losses = {f'--{name}': found[name].losses() for name in (program_runs.FROM, program_runs.TO)}
    return Results(made, losses, {name: pairs[other] for name, other in drawn.items()})


def _chance_and_rounding(again: Mapping[Key, float], rounded: Mapping[Key, float]) -> tuple[dict, dict]:
    """What chance does, and what rounding grows to.

    The run of rounding changes the weights before the first step itself: they are no result of a computation. Rounding
    changes no input, so that another input of that run is chance.
    """
    chance = dict(again)
    chance.update({key: max(size, again.get(key, 0.0)) for key, size in rounded.items() if key.thing == traces.INPUTS})
    initial = {key for key in rounded if key.thing == traces.WEIGHTS and key.step == 0}
    grown = {key: size for key, size in rounded.items() if key not in initial and key.thing != traces.INPUTS}
    return chance, grown


def _spread_notes(chance: Mapping[Key, float], grown: Mapping[Key, float], tolerance: float) -> list[str]:
    """From where on chance, or else rounding, hides small differences."""
    for says, differences, least in (
        ('Two runs of --from differ by chance', chance, tolerance),
        ('Another rounding changes what --from computes', grown, _MUCH),
    ):
        first = next((key for key, size in differences.items() if size > least and key.thing != compare.UPDATES), None)
        if first:
            largest = verify_report.number(max(size for key, size in differences.items() if key[:2] == first[:2]))
            return [
                f'{says}, first at {verify_report.place(first)}; the largest such difference is {largest}. A '
                'difference between --from and --to that is up to ten times as large cannot be told from it.'
            ]
    return []


def _steps(trace: Trace) -> str:
    steps = [len(losses) for losses in trace.losses().values()]
    each = f'{max(steps)} steps' if len(set(steps)) == 1 else f'{min(steps)} to {max(steps)} steps'
    return f'{len(steps)} Estimators, {each} each' if len(steps) > 1 else each


def _title(sides) -> str:
    one, other = sides
    return f'{" ".join(one.program)}: {one.interpreter.short} and {other.interpreter.short}'


def _facts(sides) -> list[str]:
    return [
        f'--{side.name}: {shlex.join([side.interpreter.path, *side.program, *side.arguments])} '
        f'({side.interpreter.described}{_compat_of(side)})'
        for side in sides
    ]


def _compat_of(side: program_runs.Side) -> str:
    if side.tf1 and side.interpreter.by_compat(True):
        return '; as compat run --tf1'
    return '; tf.estimator by compat' if side.interpreter.needs_compat else ''


def _not_continued(trace: Trace) -> str:
    """Why the continued runs do not show whether one environment reads the checkpoints of the other; '' if they do."""
    begun = trace.keys(traces.WEIGHTS)[:1]
    if begun and begun[0].step:
        return ''
    why = 'begins anew' if begun else 'makes no step'
    return f'Started again in the same folder, the program {why}. So whether checkpoints carry over is not shown.'


def _in_short(reason: str) -> str:
    return error_lines.short(error_lines.telling_line(reason) or reason).rstrip('.')


def _notes(first: Trace, rows: Sequence[judge.Judgement]) -> list[str]:
    """What was not compared, or not as a reader would think."""
    missing = [row.thing for row in rows if not row.count]
    notes = [f'The program has no {", no ".join(missing)}.'] if missing else []
    notes += [
        f'Not called: signature {name or "(all)"} of {folder}: {_in_short(reason)}.'
        for folder, name, reason in first.not_called[:_MOST_NOTES]
    ]
    sampled = {key.name for key, value in first.values.items() if value.sampled}
    if sampled:
        notes.append(f'{len(sampled)} large arrays are compared by a sample of their elements, by norm and by digest.')
    if first.other_processes:
        notes.append(f'{first.other_processes} more processes of the program used Estimators. They were not recorded.')
    if first.skipped:
        notes.append(f'{first.skipped} calls of train came after the last step (--steps) and made none.')
    return notes
