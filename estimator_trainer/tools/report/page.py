"""The page: one HTML file that needs nothing from elsewhere."""

import os
import pathlib
import urllib.parse
from collections.abc import Sequence

import markupsafe

from estimator_trainer.config import urls
from estimator_trainer.run_dir import file_names
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools import pages
from estimator_trainer.tools.report import attempts, sections, summary, timeline, times
from estimator_trainer.tools.report.attempts import Lane
from estimator_trainer.tools.report.curves import Log
from estimator_trainer.tools.report.run_files import RunFiles
from estimator_trainer.tools.report.timeline import Timeline
from estimator_trainer.tools.reporting import duration

_FOLDER = pathlib.Path(__file__).parent
_MOST_CURVES = 12  # of the metrics of evaluations
_MANY = 5  # runs, whose table says enough of those that are done
_MOST_LANES = 24
_BAD = (attempts.RESTART, attempts.FAILED, attempts.KILLED, attempts.EVALUATION)  # a lane with these is drawn first
_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)
_DAY = 86400
_BARS = (  # kind, height, colour, words
    (attempts.RUNS, 0.42, pages.PALE, 'process runs'),
    (attempts.TRAINS, 0.2, pages.COLOURS[0], 'steps are trained'),
)
_MARKS = (  # kind, marker, colour, size, words
    (attempts.CHECKPOINT, '|', pages.COLOURS[3], 9, 'checkpoint'),
    (attempts.EVALUATION, 'd', pages.COLOURS[2], 5, 'evaluation'),
    (attempts.START, '>', pages.INK, 5, 'start'),
    (attempts.RESTART, '>', pages.COLOURS[1], 7, 'restart'),
    (attempts.STOPPED, 's', pages.COLOURS[7], 5, 'ended with the others'),
    (attempts.ENDED, 'o', pages.GOOD, 5, 'done'),
    (attempts.FAILED, 'P', pages.BAD, 8, 'failed'),
    (attempts.KILLED, 'X', pages.BAD, 8, 'killed'),
    (attempts.BEST, '*', pages.COLOURS[1], 10, 'best evaluation'),
)


def page(runs: Sequence[RunFiles], out: str) -> str:
    """The page of one run, or of several runs compared.

    Args:
        out: path or URL of the page, to which its links are relative.
    """
    template, values = ('run', _of_run(runs[0], out)) if len(runs) == 1 else ('runs', _of_runs(runs, out))
    return pages.render(_FOLDER / f'{template}.html.jinja', width='72rem', summary=summary, **values)


def _of_run(run: RunFiles, out: str) -> dict:
    story, base = timeline.timeline(run), _way(run, out)
    drawn = _drawn_lanes(story) if story else []
    return {
        'run': run,
        'title': f'{run.name}: {run.judged.kind}',
        'curves': [(title, plot) for title, plot in _curves(run) if plot],
        'timeline': story,
        'lanes': _plot_of_lanes(story, drawn) if story else '',
        'hidden_lanes': len(story.lanes) - len(drawn) if story else 0,
        'attempts': attempts.table(run.starts),
        'most_attempts': attempts.MOST_ROWS,
        'parts': times.parts(run),
        'sections': sections,
        'href': lambda path: _href(f'{base}/{path}' if base else path),
    }


def _curves(run: RunFiles) -> list[tuple[str, markupsafe.Markup]]:
    """(title, plot) of each metric."""
    evaluations, signs, last = run.main_evaluations, _signs(run), _last_step([run])
    losses = _lines(run.train, 'loss', 'training') + _lines(evaluations, 'loss', 'evaluation', 1)
    curves = [('Loss', pages.curves('loss', 'loss', losses, signs, last))]
    names = summary.metrics(evaluations, run.best.get('metric'))
    for name in [name for name in names if name != 'loss'][:_MOST_CURVES]:
        lines = [
            line
            for number, (folder, log) in enumerate(run.evaluations.items())
            for line in _lines(log, name, name if log is evaluations else f'{name}, {folder}', number)
        ]
        curves.append((name.replace('_', ' ').capitalize(), pages.curves(_id(name), name, lines, signs, last)))
    rate = _lines(run.train, 'examples_per_sec', 'examples/s') or _lines(run.train, 'global_step/sec', 'steps/s')
    if rate:
        curves.append((rate[0].label.capitalize(), pages.curves('rate', rate[0].label, rate, (), last)))
    return curves


def _last_step(runs: Sequence[RunFiles]) -> float:
    """The last step of any curve: all plots of a page have the same axis."""
    logs = [log for run in runs for log in (run.train, *run.evaluations.values())]
    return max((series.last[0] for log in logs for series in log.series.values() if len(series)), default=0)


def _signs(run: RunFiles) -> list[pages.StepMarks]:
    kept = tuple(each.step for each in run.checkpoints if each.step is not None and not each.is_damaged)
    signs = [pages.StepMarks('checkpoints that are kept', kept, pages.COLOURS[3], ticks=True)] if kept else []
    best, final = run.best.get('step'), None
    if any(each.kind == 'final' for each in run.exports) and run.training.get('state') == 'ended':
        final = run.training.get('step')
    both = 'export/best and export/final' if best == final else 'export/best'
    for step, words, colour in ((best, both, pages.COLOURS[2]), (final, 'export/final', pages.COLOURS[7])):
        if type(step) is int and not (words == 'export/final' and best == final):
            signs.append(pages.StepMarks(words, (step,), colour))
    return signs


def _lines(log: Log | None, name: str, label: str, number: int = 0) -> list[pages.Curve]:
    series = log.series.get(name) if log else None
    return [pages.Curve(label, series.points(), number)] if series and len(series) else []


def _drawn_lanes(line: Timeline) -> list[Lane]:
    """The lanes that have room: of very many tasks those that failed or restarted, and the first ones."""
    if len(line.lanes) <= _MOST_LANES:
        return list(line.lanes)
    is_bad = [any(mark.kind in _BAD for mark in lane.marks) for lane in line.lanes]
    ranked = sorted(range(len(line.lanes)), key=lambda place: (not is_bad[place], place))
    return [line.lanes[place] for place in sorted({0, *ranked[: _MOST_LANES - 1]})]


def _plot_of_lanes(line: Timeline, lanes: list[Lane]) -> markupsafe.Markup:
    from matplotlib import ticker

    length = line.ended - line.began
    least = max(length, 1) / 9  # between two ticks
    ticks = next((step for step in _TIMES if step >= least), _DAY * max(1, round(least / _DAY)))

    def draw(axes, wide: bool) -> None:
        for place, lane in enumerate(lanes):
            for kind, height, colour, _ in _BARS:
                bars = [(bar.began - line.began, bar.ended - bar.began) for bar in lane.bars if bar.kind == kind]
                axes.broken_barh(bars, (place - height / 2, height), color=colour, linewidth=0)
        for kind, marker, colour, size, words in _MARKS:
            marks = [(mark.at, place) for place, lane in enumerate(lanes) for mark in lane.marks if mark.kind == kind]
            if marks:
                at, places = [at - line.began for at, _ in marks], [place for _, place in marks]
                axes.plot(at, places, marker, color=colour, markersize=size, label=words, clip_on=False)
        for _, _, colour, words in _BARS:
            axes.broken_barh([], (0, 0), color=colour, label=words)
        axes.set(xlabel='time since the first start', ylim=(len(lanes) - 0.4, -0.6))
        margin = 0.015 * max(length, 1)
        axes.set_xlim(-margin, length + margin)
        axes.set_yticks(range(len(lanes)), [pages.words_of(lane.name) for lane in lanes])
        axes.tick_params('y', length=0)
        axes.xaxis.set_major_locator(ticker.MultipleLocator(ticks if wide else 2 * ticks))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: duration(value) if value else '0'))
        axes.grid(axis='x')
        axes.spines['left'].set_visible(False)

    label = 'timeline of the tasks; the list below tells the same'
    return pages.wide_and_narrow('timeline', label, draw, 0.42 * len(lanes) + 1.3)


def _of_runs(runs: Sequence[RunFiles], out: str) -> dict:
    last, train = _last_step(runs), [run.train for run in runs]
    evaluations = [run.main_evaluations for run in runs]
    plots = [('Loss of training', 'train', 'loss', 'loss', train)]
    plots += [(f'Evaluation: {name}', 'eval', name, name, evaluations) for name in summary.metrics_of_all(runs)]
    plots += [('Examples/s', 'train', 'examples_per_sec', 'examples/s', train)]
    curves = []
    for title, prefix, name, ylabel, logs in plots:
        lines = [line for at, (run, log) in enumerate(zip(runs, logs)) for line in _lines(log, name, run.name, at)]
        curves.append((title, pages.curves(f'{prefix}-{_id(name)}', ylabel, lines, (), last)))
    sweep = _sweep(runs)
    folder = os.path.basename(os.path.dirname(runs[0].address))
    return {
        'title': f'Sweep {folder}: {len(runs)} trials' if sweep else f'{len(runs)} runs compared',
        'sweep': sweep,
        'runs': runs,
        'many': len(runs) > _MANY,
        'curves': [(title, plot) for title, plot in curves if plot],
        'pages': [_page_of(run, out) for run in runs],
    }


def _sweep(runs: Sequence[RunFiles]) -> dict:
    """sweep.json of the sweep whose trials these are; {} where they are not of one."""
    folders = {os.path.dirname(run.path) for run in runs}
    sweep = RunFolder(folders.pop()).object(file_names.SWEEP) if len(folders) == 1 else {}
    return sweep if isinstance(sweep.get('trials'), list) else {}


def _page_of(run: RunFiles, out: str) -> str:
    """Where the page of one of several runs is, relative to this one; '' where it has none."""
    there = os.path.exists(run.file('report.html'))
    return _href(os.path.join(_way(run, out), 'report.html')) if there else ''


def _href(way: str) -> str:
    return urllib.parse.quote(way, safe='/:')


def _way(run: RunFiles, out: str) -> str:
    """From the page to the model_dir: a relative path, '' if the page lies in it, or a URL."""
    if urls.is_url(run.address) or urls.is_url(out):
        return '' if os.path.dirname(out) == run.address else run.address
    way = os.path.relpath(run.path, os.path.dirname(os.path.abspath(out)))
    return '' if way == os.curdir else way


def _id(name: str) -> str:
    return 'm-' + ''.join(letter if letter.isalnum() else '-' for letter in name)
