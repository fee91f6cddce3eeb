"""The page: one HTML file that needs nothing from elsewhere."""

import os
import pathlib
from collections.abc import Sequence

import jinja2
import markupsafe

from estimator_trainer.config import urls
from estimator_trainer.tools import drawing
from estimator_trainer.tools.report import (
    attempts,
    comparison,
    plots,
    run_files,
    sections,
    summary,
    sweeps,
    timeline,
    times,
    words,
)
from estimator_trainer.tools.report.curves import Log
from estimator_trainer.tools.report.run_facts import RunFiles

_FOLDER = pathlib.Path(__file__).parent
_MOST_CURVES = 12  # of the metrics of evaluations
_MANY = 5  # runs, whose table says enough of those that are done


def page(runs: Sequence[RunFiles], out: str) -> str:
    """The page of one run, or of several runs compared.

    Args:
        out: path or URL of the page, to which its links are relative.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals.update(css=markupsafe.Markup(drawing.CSS), words=words, summary=summary)
    if len(runs) == 1:
        return environment.get_template('run.html.jinja').render(**_of_run(runs[0], out))
    return environment.get_template('runs.html.jinja').render(**_of_runs(runs, out))


def _of_run(run: RunFiles, out: str) -> dict:
    line, parts, settings = timeline.of(run), times.of(run), sections.settings(run)
    base = _way(run, out)
    return {
        'run': run,
        'verdict': summary.judge(run),
        'tiles': summary.tiles(run),
        'curves': _curves(run),
        'timeline': line,
        'lanes': plots.lanes('timeline', line) if line else '',
        'hidden_lanes': len(line.lanes) - len(plots.shown_lanes(line)) if line else 0,
        'attempts': attempts.table(run.gang_starts),
        'most_attempts': attempts.MOST_ROWS,
        'parts': parts,
        'total': sum(part.secs for part in parts),
        'changed': [each for each in settings if each.changed],
        'unchanged': [each for each in settings if not each.changed],
        'params': sections.params(run),
        'plan': sections.plan(run),
        'versions': sections.versions(run),
        'variables': sections.variables(run),
        'data': sections.data(run),
        'checkpoints': sections.checkpoints(run),
        'exports': sections.exports(run, base),
        'logs': sections.logs(run, base),
    }


def _curves(run: RunFiles) -> list[tuple[str, markupsafe.Markup]]:
    """(title, plot) of each metric."""
    found, signs = [], _signs(run)
    evaluations, last = summary.main_evaluations(run), _last_step([run])
    losses = _lines(run.train, 'loss', 'training') + _lines(evaluations, 'loss', 'evaluation', 1)
    found.append(('Loss', plots.curves('loss', 'loss', losses, signs, last)))
    for name in [name for name in summary.metrics(evaluations) if name != 'loss'][:_MOST_CURVES]:
        lines = [
            line
            for number, (folder, log) in enumerate(run.evaluations.items())
            for line in _lines(log, name, name if log is evaluations else f'{name}, {folder}', number)
        ]
        found.append((name.replace('_', ' ').capitalize(), plots.curves(_id(name), name, lines, signs, last)))
    rate = _lines(run.train, 'examples_per_sec', 'examples/s') or _lines(run.train, 'global_step/sec', 'steps/s')
    if rate:
        found.append((rate[0].label.capitalize(), plots.curves('rate', rate[0].label, rate, (), last)))
    return [(title, plot) for title, plot in found if plot]


def _last_step(runs: Sequence[RunFiles]) -> float:
    """The last step of any curve: all plots of a page have the same axis."""
    logs = [log for run in runs for log in (run.train, *run.evaluations.values())]
    return max((series.last[0] for log in logs for series in log.series.values() if len(series)), default=0)


def _signs(run: RunFiles) -> list[plots.StepMarks]:
    signs = []
    kept = tuple(each.step for each in run.checkpoints if each.step is not None and not each.damaged)
    if kept:
        signs.append(plots.StepMarks('checkpoints that are kept', kept, drawing.COLOURS[3], ticks=True))
    best, final = run.best.get('step'), None
    if any(each.kind == 'final' for each in run.exports) and run.training.get('state') == 'ended':
        final = run.training.get('step')
    for step, words_, colour in (
        (best, 'export/best and export/final' if best == final else 'export/best', drawing.COLOURS[2]),
        (None if best == final else final, 'export/final', drawing.COLOURS[7]),
    ):
        if type(step) is int:
            signs.append(plots.StepMarks(words_, (step,), colour))
    return signs


def _lines(log: Log | None, name: str, label: str, number: int = 0) -> list[plots.Curve]:
    series = log.series.get(name) if log else None
    return [plots.Curve(label, series.points(), number)] if series and len(series) else []


def _of_runs(runs: Sequence[RunFiles], out: str) -> dict:
    curves = [('Loss of training', _overlaid(runs, 'loss', [run.train for run in runs]))]
    for name in comparison.metrics(runs):
        logs = [summary.main_evaluations(run) for run in runs]
        curves.append((f'Evaluation: {name}', _overlaid(runs, name, logs, 'eval')))
    curves.append(('Examples/s', _overlaid(runs, 'examples_per_sec', [run.train for run in runs])))
    sweep = run_files.sweep_of(runs)
    return {
        'title': comparison.title(runs, sweep),
        'best': sweeps.best_trial(sweep),
        'runs': runs,
        'verdicts': [summary.judge(run) for run in runs],
        'many': len(runs) > _MANY,
        'finals': comparison.finals(runs),
        'differences': comparison.differences(runs),
        'curves': [(title, plot) for title, plot in curves if plot],
        'pages': [_page_of(run, out) for run in runs],
    }


def _overlaid(runs, name: str, logs, prefix: str = 'train') -> markupsafe.Markup:
    lines = [line for number, (run, log) in enumerate(zip(runs, logs)) for line in _lines(log, name, run.name, number)]
    ylabel = 'examples/s' if name == 'examples_per_sec' else name
    return plots.curves(f'{prefix}-{_id(name)}', ylabel, lines, (), _last_step(runs))


def _page_of(run: RunFiles, out: str) -> str:
    """Where the page of one of several runs is, relative to this one; '' where it has none."""
    there = os.path.exists(os.path.join(run.path, 'report.html'))
    return os.path.join(_way(run, out), 'report.html') if there else ''


def _way(run: RunFiles, out: str) -> str:
    """From the page to the model_dir: a relative path, '' if the page lies in it, or a URL."""
    if urls.is_url(run.shown) or urls.is_url(out):
        return '' if os.path.dirname(out) == run.shown else run.shown
    way = os.path.relpath(run.path, os.path.dirname(os.path.abspath(out)))
    return '' if way == os.curdir else way


def _id(name: str) -> str:
    return 'm-' + ''.join(letter if letter.isalnum() else '-' for letter in name)
