"""The page: one HTML file that needs nothing from elsewhere."""

import os
import pathlib
from collections.abc import Sequence

import markupsafe

from estimator_trainer.config import urls
from estimator_trainer.run_dir import file_names
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools import drawing, pages
from estimator_trainer.tools.report import attempts, comparison, plots, sections, summary, timeline, times, words
from estimator_trainer.tools.report.curves import Log
from estimator_trainer.tools.report.run_files import RunFiles

_FOLDER = pathlib.Path(__file__).parent
_MOST_CURVES = 12  # of the metrics of evaluations
_MANY = 5  # runs, whose table says enough of those that are done


def page(runs: Sequence[RunFiles], out: str) -> str:
    """The page of one run, or of several runs compared.

    Args:
        out: path or URL of the page, to which its links are relative.
    """
    if len(runs) == 1:
        return pages.render(_FOLDER / 'run.html.jinja', words=words, width='72rem', **_values_of_run(runs[0], out))
    return pages.render(_FOLDER / 'runs.html.jinja', words=words, width='72rem', **_values_of_runs(runs, out))


def _values_of_run(run: RunFiles, out: str) -> dict:
    story, parts, settings = timeline.timeline(run), times.parts(run), sections.settings(run)
    base = _way(run, out)
    return {
        'run': run,
        'title': f'{run.name}: {run.judged.kind}',
        'verdict': run.judged,
        'tiles': summary.tiles(run),
        'curves': _curves(run),
        'timeline': story,
        'lanes': plots.lanes('timeline', story) if story else '',
        'hidden_lanes': len(story.lanes) - len(plots.drawn_lanes(story)) if story else 0,
        'attempts': attempts.table(run.starts),
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
    curves, signs = [], _signs(run)
    evaluations, last = summary.main_evaluations(run), _last_step([run])
    losses = _lines(run.train, 'loss', 'training') + _lines(evaluations, 'loss', 'evaluation', 1)
    curves.append(('Loss', plots.curves('loss', 'loss', losses, signs, last)))
    for name in [name for name in summary.metrics(evaluations) if name != 'loss'][:_MOST_CURVES]:
        lines = [
            line
            for number, (folder, log) in enumerate(run.evaluations.items())
            for line in _lines(log, name, name if log is evaluations else f'{name}, {folder}', number)
        ]
        curves.append((name.replace('_', ' ').capitalize(), plots.curves(_id(name), name, lines, signs, last)))
    rate = _lines(run.train, 'examples_per_sec', 'examples/s') or _lines(run.train, 'global_step/sec', 'steps/s')
    if rate:
        curves.append((rate[0].label.capitalize(), plots.curves('rate', rate[0].label, rate, (), last)))
    return [(title, plot) for title, plot in curves if plot]


def _last_step(runs: Sequence[RunFiles]) -> float:
    """The last step of any curve: all plots of a page have the same axis."""
    logs = [log for run in runs for log in (run.train, *run.evaluations.values())]
    return max((series.last[0] for log in logs for series in log.series.values() if len(series)), default=0)


def _signs(run: RunFiles) -> list[plots.StepMarks]:
    signs = []
    kept = tuple(each.step for each in run.checkpoints if each.step is not None and not each.is_damaged)
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


def _values_of_runs(runs: Sequence[RunFiles], out: str) -> dict:
    curves = [('Loss of training', _overlaid(runs, 'loss', [run.train for run in runs]))]
    for name in comparison.metrics(runs):
        logs = [summary.main_evaluations(run) for run in runs]
        curves.append((f'Evaluation: {name}', _overlaid(runs, name, logs, 'eval')))
    curves.append(('Examples/s', _overlaid(runs, 'examples_per_sec', [run.train for run in runs])))
    sweep = _sweep(runs)
    return {
        'title': comparison.title(runs, sweep),
        'best': words.best_trial(sweep),
        'runs': runs,
        'verdicts': [run.judged for run in runs],
        'many': len(runs) > _MANY,
        'finals': comparison.finals(runs),
        'differences': comparison.differences(runs),
        'curves': [(title, plot) for title, plot in curves if plot],
        'pages': [_page_of(run, out) for run in runs],
    }


def _sweep(runs: Sequence[RunFiles]) -> dict:
    """sweep.json of the sweep whose trials these are; {} where they are not of one."""
    folders = {os.path.dirname(run.path) for run in runs}
    sweep = RunFolder(folders.pop()).object(file_names.SWEEP) if len(folders) == 1 else {}
    return sweep if isinstance(sweep.get('trials'), list) else {}


def _overlaid(
    runs: Sequence[RunFiles], name: str, logs: Sequence[Log | None], prefix: str = 'train'
) -> markupsafe.Markup:
    lines = [line for number, (run, log) in enumerate(zip(runs, logs)) for line in _lines(log, name, run.name, number)]
    ylabel = 'examples/s' if name == 'examples_per_sec' else name
    return plots.curves(f'{prefix}-{_id(name)}', ylabel, lines, (), _last_step(runs))


def _page_of(run: RunFiles, out: str) -> str:
    """Where the page of one of several runs is, relative to this one; '' where it has none."""
    there = os.path.exists(os.path.join(run.path, 'report.html'))
    return os.path.join(_way(run, out), 'report.html') if there else ''


def _way(run: RunFiles, out: str) -> str:
    """From the page to the model_dir: a relative path, '' if the page lies in it, or a URL."""
    if urls.is_url(run.address) or urls.is_url(out):
        return '' if os.path.dirname(out) == run.address else run.address
    way = os.path.relpath(run.path, os.path.dirname(os.path.abspath(out)))
    return '' if way == os.curdir else way


def _id(name: str) -> str:
    return 'm-' + ''.join(letter if letter.isalnum() else '-' for letter in name)
