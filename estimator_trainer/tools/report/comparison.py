"""Several runs beside each other: their last numbers, and in what they differ. Pure."""

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from estimator_trainer.tools.report import summary
from estimator_trainer.tools.report.run_files import RunFiles
from estimator_trainer.tools.report.sections import in_words
from estimator_trainer.tools.report.words import duration, number, whole

_OF_THE_PLACE = ('model_dir', 'param', 'hosts', 'rank', 'base_port')
MOST_METRICS = 8
_MANY = 5  # runs, for which columns become narrow
_LONG = re.compile(r'-?\d+\.\d{5,}(e-?\d+)?')


class Table(NamedTuple):
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()  # (row, column) of the best values


def names(paths: Sequence[str]) -> list[str]:
    """A short name for each path, unlike the others: as many of its last parts as are needed."""
    parts = [path.rstrip('/').split('/') for path in paths]
    for count in range(1, max(map(len, parts), default=1) + 1):
        ends = ['/'.join(each[-count:]) for each in parts]
        if len(set(ends)) == len(ends):
            return ends
    return [f'{"/".join(each)} ({place + 1})' for place, each in enumerate(parts)]


def title(runs: Sequence[RunFiles], sweep: Mapping) -> str:
    """`sweep`: sweep.json, {} where the runs are not the trials of one."""
    if not sweep:
        return f'{len(runs)} runs compared'
    return f'Sweep {os.path.basename(os.path.dirname(runs[0].address))}: {len(runs)} trials'


def metrics(runs: Sequence[RunFiles]) -> list[str]:
    """The metrics of evaluations that any of the runs has."""
    names = {name: None for run in runs for name in summary.metrics(summary.main_evaluations(run))}
    return sorted(names, key=lambda name: (name in ('loss', 'average_loss'), name))[:MOST_METRICS]


def finals(runs: Sequence[RunFiles]) -> Table:
    """A row for each run: how it is, and the last number of each metric."""
    of_evaluations = metrics(runs)
    head = ('run', 'state', 'step', *of_evaluations, 'loss of training', 'examples/s', 'time')
    rows, values = [], []
    for run in runs:
        log = summary.main_evaluations(run)
        last = [log.last(name) if log else None for name in of_evaluations]
        took, rate = summary.seconds_in_starts(run), summary.speed(run)
        rows.append(
            (
                run.name,
                run.judged.kind,
                whole(run.last_step),
                *map(number, last),
                number(run.train.last('loss')),
                number(float(round(rate))) if rate else '–',
                duration(took) if took is not None else '–',
            )
        )
        values.append(last)
    return Table(head, tuple(rows), _best(runs, of_evaluations, values))


def _best(
    runs: Sequence[RunFiles], of_evaluations: list[str], values: list[list[float | None]]
) -> frozenset[tuple[int, int]]:
    """Where the runs are of one job and the way of a metric is known: best.json says it, and a loss is better lower."""
    if len({run.config.get('job') for run in runs}) > 1:
        return frozenset()
    modes = {run.best['metric']: run.best.get('mode') for run in runs if run.best.get('metric')}
    best = set()
    for column, name in enumerate(of_evaluations):
        mode = modes.get(name, 'min' if name in ('loss', 'average_loss') else None)
        known = [(row[column], place) for place, row in enumerate(values) if row[column] is not None]
        if mode in ('min', 'max') and len(known) > 1:
            value = (min if mode == 'min' else max)(known)[0]
            best |= {(place, 3 + column) for each, place in known if each == value}
    return frozenset(best)


def differences(runs: Sequence[RunFiles]) -> Table:
    """Flags, params, versions and the like that are not the same in all runs: a row for each of them, or a row for each
    run where the runs are more than the differences and many."""
    facts: list[dict[str, str]] = []
    for run in runs:
        own = {f'--{name}': in_words(value) for name, value in run.flags.items() if name not in _OF_THE_PLACE}
        for part, prefix in (('params', 'param '), ('versions', 'version of '), ('machine', 'machine: ')):
            values = run.config.get(part)
            own |= (
                {f'{prefix}{name}': in_words(value) for name, value in values.items()}
                if isinstance(values, dict)
                else {}
            )
        for name in ('strategy', 'global_batch_size', 'num_replicas'):
            if name in run.config:
                own[name.replace('_', ' ')] = in_words(run.config[name])
        facts.append(own)
    every = {name: None for own in facts for name in own}
    differ = [name for name in every if len({own.get(name) for own in facts}) > 1]
    cells = {name: _short([own.get(name, '–') for own in facts]) for name in differ}
    if len(runs) > max(_MANY, len(differ)):
        rows = tuple((run.name, *(cells[name][place] for name in differ)) for place, run in enumerate(runs))
        return Table(('run', *differ), rows if differ else ())
    return Table(('what', *(run.name for run in runs)), tuple((name, *cells[name]) for name in differ))


def _short(texts: list[str]) -> list[str]:
    """Long numbers with four digits, unless that makes two of them the same."""
    short = [f'{float(text):.4g}' if _LONG.fullmatch(text) else text for text in texts]
    return short if len(set(short)) == len(set(texts)) else texts
