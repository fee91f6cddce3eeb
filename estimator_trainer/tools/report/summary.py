"""A run in a few numbers, and several runs beside each other: their last numbers, and in what they differ. Pure."""

import math
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from estimator_trainer.run_dir import run_starts
from estimator_trainer.tools.report import times
from estimator_trainer.tools.report.curves import Log
from estimator_trainer.tools.report.run_files import RunFiles
from estimator_trainer.tools.reporting import duration, in_words, number, whole

_MOST_METRICS = 6  # as numbers at the head of the page
_MOST_COMPARED = 8  # metrics of several runs
_LOSSES = ('loss', 'average_loss')
_LAST = (*_LOSSES, 'global_step')  # after those that say more of a model
_OF_THE_PLACE = ('model_dir', 'param', 'hosts', 'rank', 'base_port')
_PARTS = (('params', 'param '), ('versions', 'version of '), ('machine', 'machine: '))  # of config.json
_MANY = 5  # runs, for which columns become narrow
_LONG = re.compile(r'-?\d+\.\d{5,}(e-?\d+)?')


class Tile(NamedTuple):
    label: str
    value: str
    note: str = ''


class Table(NamedTuple):
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    best: frozenset[tuple[int, int]] = frozenset()  # (row, column) of the best values


def metrics(log: Log | None, best: str | None = None) -> list[str]:
    """The metrics of evaluations: the one by which export/best goes, then the telling ones."""
    names = [name for name, series in log.series.items() if len(series) and name != 'global_step'] if log else []
    return sorted(names, key=lambda name: (name != best, name in _LAST, name))


def seconds(run: RunFiles) -> float | None:
    """How long the run took, or has taken, from its first start."""
    wall = times.wall(run)
    return wall.secs if wall else None


def seconds_in_starts(run: RunFiles) -> float | None:
    """How long the run took, without the time between the end of a start and the next one."""
    return sum(window.secs for window in times.windows(run)) if times.windows(run) else seconds(run)


def speed(run: RunFiles) -> float | None:
    """The median examples/s of the curve: the last value alone may be that of a pause."""
    series = run.train.series.get('examples_per_sec')
    if series and len(series):
        rates = sorted(series.points().values.tolist())
        return rates[len(rates) // 2]
    secs, batch = times.secs_per_step(run), run.config.get('global_batch_size')
    return batch / secs if secs and type(batch) is int else None


def tiles(run: RunFiles) -> Iterator[Tile]:
    """The numbers at the head of the page."""
    most, log, best = run.training.get('max_steps'), run.main_evaluations, run.best
    yield Tile('step', whole(run.last_step), f'of {most:,}' if type(most) is int else '')
    for name in metrics(log, best.get('metric'))[:_MOST_METRICS]:
        step, value = log.series[name].last
        note = f'evaluation at step {step:,}'
        if best.get('metric') == name and type(best.get('value')) is float:  # as export/best goes by it
            best_step = best.get('step') or 0
            note += f'; best {number(best["value"])} at step {best_step:,}' if best_step != step else ''
        yield Tile(name, number(value), note)
    loss, rate, took = run.train.last('loss'), speed(run), seconds(run)
    if loss is not None:
        yield Tile('loss of training', number(loss), 'of the last report')
    if rate:
        yield Tile('examples/s', _of_rate(rate), 'median of the reports')
    # Of very many starts, only the newest have their times.
    starts = len(times.windows(run)) + (run.starts[0]['start'] - 1 if run.starts else 0)
    if took is not None:
        at_work = f'; {duration(seconds_in_starts(run) or 0)} of it in {starts} starts' if starts > 1 else ''
        yield Tile('time', duration(took), f'from the first start{at_work}')
    restarts = [start['restarts'] for start in run.starts if type(start.get('restarts')) is int]
    alone = sum(map(run_starts.task_restarts, run.starts))
    if restarts:
        note = f'of all tasks, in {starts} starts' if starts > 1 else 'of all tasks'
        yield Tile('restarts', str(sum(restarts)), f'{note}; {alone} of single ones' if alone else note)


def names(paths: Sequence[str]) -> list[str]:
    """A short name for each path, unlike the others: as many of its last parts as are needed."""
    parts = [path.rstrip('/').split('/') for path in paths]
    for count in range(1, max(map(len, parts), default=1) + 1):
        ends = ['/'.join(each[-count:]) for each in parts]
        if len(set(ends)) == len(ends):
            return ends
    return [f'{"/".join(each)} ({place + 1})' for place, each in enumerate(parts)]


def _of_rate(rate: float) -> str:
    return number(float(round(rate)) if rate >= 10 else rate)


def metrics_of_all(runs: Sequence[RunFiles]) -> list[str]:
    """The metrics of evaluations that any of the runs has."""
    names = dict.fromkeys(name for run in runs for name in metrics(run.main_evaluations))
    return sorted(names, key=lambda name: (name in _LOSSES, name))[:_MOST_COMPARED]


def last_numbers(runs: Sequence[RunFiles]) -> Table:
    """A row for each run: how it is, and the last number of each metric."""
    of_evaluations = metrics_of_all(runs)
    rows, values = [], []
    for run in runs:
        log = run.main_evaluations
        last = [log.last(name) if log else None for name in of_evaluations]
        took, rate = seconds_in_starts(run), speed(run)
        of_training = number(run.train.last('loss')), _of_rate(rate) if rate else '–'
        how = run.name, run.judged.kind, whole(run.last_step)
        rows.append((*how, *map(number, last), *of_training, duration(took) if took is not None else '–'))
        values.append(last)
    head = ('run', 'state', 'step', *of_evaluations, 'loss of training', 'examples/s', 'time')
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
        mode = modes.get(name, 'min' if name in _LOSSES else None)
        all_known = {place: row[column] for place, row in enumerate(values)}
        known = {place: each for place, each in all_known.items() if each is not None and math.isfinite(each)}
        if mode in ('min', 'max') and len(known) > 1:
            value = min(known.values()) if mode == 'min' else max(known.values())
            best |= {(place, 3 + column) for place, each in known.items() if each == value}
    return frozenset(best)


def differences(runs: Sequence[RunFiles]) -> Table:
    """Flags, params, versions and the like that are not the same in all runs: a row for each of them, or a row for each
    run where the runs are more than the differences and many."""
    facts = [_facts(run) for run in runs]
    differ = [
        name
        for name in dict.fromkeys(name for own in facts for name in own)
        if len({own.get(name) for own in facts}) > 1
    ]
    cells = {name: _short([own.get(name, '–') for own in facts]) for name in differ}
    if len(runs) > max(_MANY, len(differ)):
        rows = tuple((run.name, *(cells[name][place] for name in differ)) for place, run in enumerate(runs))
        return Table(('run', *differ), rows if differ else ())
    return Table(('what', *(run.name for run in runs)), tuple((name, *cells[name]) for name in differ))


def _facts(run: RunFiles) -> dict[str, str]:
    facts = {f'--{name}': value for name, value in run.flags.items() if name not in _OF_THE_PLACE}
    for part, prefix in _PARTS:
        values = run.config.get(part)
        facts |= {f'{prefix}{name}': value for name, value in values.items()} if isinstance(values, dict) else {}
    top = ('strategy', 'global_batch_size', 'num_replicas')
    facts |= {name.replace('_', ' '): run.config[name] for name in top if name in run.config}
    return {name: in_words(value) for name, value in facts.items()}


def _short(texts: list[str]) -> list[str]:
    """Long numbers with four digits, unless that makes two of them the same."""
    short = [f'{float(text):.4g}' if _LONG.fullmatch(text) else text for text in texts]
    return short if len(set(short)) == len(set(texts)) else texts
