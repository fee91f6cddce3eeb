"""The plots of the page as SVG: curves and the timeline, each in a wide form and in a narrow one for phones."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import markupsafe
import numpy as np
from matplotlib import figure, ticker
from matplotlib.axes import Axes

from estimator_trainer.tools import drawing
from estimator_trainer.tools.report import lanes as kinds
from estimator_trainer.tools.report.curves import Points
from estimator_trainer.tools.report.words import duration

_WIDE, _NARROW = (10.6, 3.0), (4.5, 3.0)  # inches
_FEW = 100  # points that are drawn with a dot each
_MOST_LANES = 24
_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 21600, 43200)
_DAY = 86400
_MARKS = {  # kind -> (marker, colour, size, words)
    kinds.CHECKPOINT: ('|', drawing.COLOURS[3], 9, 'checkpoint'),
    kinds.EVALUATION: ('d', drawing.COLOURS[2], 5, 'evaluation'),
    kinds.START: ('>', drawing.INK, 5, 'start'),
    kinds.RESTART: ('>', drawing.COLOURS[1], 7, 'restart'),
    kinds.STOPPED: ('s', drawing.COLOURS[7], 5, 'ended with the others'),
    kinds.ENDED: ('o', drawing.GOOD, 5, 'done'),
    kinds.FAILED: ('P', drawing.BAD, 8, 'failed'),
    kinds.KILLED: ('X', drawing.BAD, 8, 'killed'),
    kinds.BEST: ('*', drawing.COLOURS[1], 10, 'best evaluation'),
}


class Curve(NamedTuple):
    """A curve. `number` of the colour: the same run has the same one in all plots."""

    label: str
    points: Points
    number: int = 0


class StepMarks(NamedTuple):
    """Something at a step, as a vertical line with a word; with many steps, as ticks at the foot."""

    label: str
    steps: tuple[int, ...]
    colour: str
    ticks: bool = False


def curves(
    name: str, ylabel: str, lines: Sequence[Curve], signs: Sequence[StepMarks] = (), last_step: float = 0
) -> markupsafe.Markup:
    """Curves over the steps, from 0 to `last_step` at least; empty where no line has a point."""
    lines = [line for line in lines if len(line.points.steps)]
    if not lines:
        return markupsafe.Markup('')
    last = max(1.0, last_step, *(float(line.points.steps.max()) for line in lines))

    def draw(axes: Axes, wide: bool) -> None:
        for label, points, number in lines:
            colour = drawing.COLOURS[number % drawing.NUM_COLOURS]
            marker = {'marker': 'o', 'markersize': 3} if len(points.steps) <= _FEW else {}
            dashes = '-' if number < drawing.NUM_COLOURS else '--'
            axes.plot(points.steps, points.values, dashes, color=colour, label=label, **marker)
            if (points.most > points.least).any():
                axes.fill_between(points.steps, points.least, points.most, color=colour, alpha=0.18, linewidth=0)
        if _spans_decades(lines):
            axes.set_yscale('log')
        for sign in signs:
            _sign(axes, sign)
        axes.set(xlabel='step', ylabel=ylabel, xlim=(-0.02 * last, 1.02 * last))
        axes.grid()
        if axes.get_yscale() == 'linear' and axes.get_ylim()[1] >= 1000:
            axes.yaxis.set_major_formatter(ticker.StrMethodFormatter('{x:,.0f}'))
        axes.xaxis.set_major_locator(ticker.MaxNLocator(9 if wide else 5, integer=True, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _step(value)))

    described = f'{ylabel} by step: {", ".join(line.label for line in lines)}'
    return _both(name, described, draw, legend=len(lines) > 1 or bool(signs))


def _sign(axes: Axes, sign: StepMarks) -> None:
    steps = np.array(sign.steps, float)
    if sign.ticks:
        foot = axes.get_xaxis_transform()
        axes.plot(steps, np.zeros(len(steps)), '|', color=sign.colour, markersize=11, transform=foot, label=sign.label)
        return
    for number, step in enumerate(steps):
        axes.axvline(step, color=sign.colour, linestyle=':', linewidth=1.4, label=None if number else sign.label)


def _spans_decades(lines: Sequence[Curve]) -> bool:
    values = np.concatenate([line.points.values for line in lines])
    return bool(values.min() > 0 and np.percentile(values, 98) / values.min() > 50)


def lanes(name: str, line: kinds.Timeline) -> markupsafe.Markup:
    """The timeline: a lane for each task."""
    drawn = drawn_lanes(line)
    times = _time_locator(line.ended - line.began)

    def draw(axes: Axes, wide: bool) -> None:
        for place, lane in enumerate(drawn):
            for kind, height, colour in ((kinds.RUNS, 0.42, drawing.PALE), (kinds.TRAINS, 0.2, drawing.COLOURS[0])):
                spans = [(bar.began - line.began, bar.ended - bar.began) for bar in lane.bars if bar.kind == kind]
                axes.broken_barh(spans, (place - height / 2, height), color=colour, linewidth=0)
        for kind, (marker, colour, size, words) in _MARKS.items():
            places = [
                (mark.at - line.began, place)
                for place, lane in enumerate(drawn)
                for mark in lane.marks
                if mark.kind == kind
            ]
            if places:
                axes.plot(*zip(*places), marker, color=colour, markersize=size, label=words, clip_on=False)
        axes.broken_barh([], (0, 0), color=drawing.PALE, label='process runs')
        axes.broken_barh([], (0, 0), color=drawing.COLOURS[0], label='steps are trained')
        axes.set(xlabel='time since the first start', ylim=(len(drawn) - 0.4, -0.6))
        margin = 0.015 * max(line.ended - line.began, 1)
        axes.set_xlim(-margin, line.ended - line.began + margin)
        axes.set_yticks(range(len(drawn)), [lane.name for lane in drawn])
        axes.tick_params('y', length=0)
        axes.xaxis.set_major_locator(ticker.MultipleLocator(times if wide else 2 * times))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: duration(value) if value else '0'))
        axes.grid(axis='x')
        axes.spines['left'].set_visible(False)

    height = 0.42 * len(drawn) + 1.3
    return _both(name, 'timeline of the tasks; the list below tells the same', draw, True, height)


def drawn_lanes(line: kinds.Timeline) -> list[kinds.Lane]:
    """The lanes that have room: of very many tasks those that failed or restarted, and the first ones."""
    if len(line.lanes) <= _MOST_LANES:
        return list(line.lanes)
    bad = (kinds.RESTART, kinds.FAILED, kinds.KILLED, kinds.EVALUATION)
    ranked = sorted(
        range(len(line.lanes)), key=lambda i: (not any(mark.kind in bad for mark in line.lanes[i].marks), i)
    )
    return [line.lanes[i] for i in sorted({0, *ranked[: _MOST_LANES - 1]})]


def _time_locator(secs: float) -> float:
    least = max(secs, 1) / 9
    return next((step for step in _TIMES if step >= least), _DAY * max(1, round(least / _DAY)))


def _both(
    name: str, label: str, draw: Callable[[Axes, bool], None], legend: bool, height: float | None = None
) -> markupsafe.Markup:
    parts = []
    for form, (width, usual), columns in (('wide', _WIDE, 7), ('narrow', _NARROW, 3)):
        with drawing.style():
            plot = figure.Figure(figsize=(width, height or usual), layout='constrained')
            axes = plot.subplots()
            draw(axes, form == 'wide')
            if legend:
                plot.legend(loc='outside lower center', ncols=columns, handlelength=2.2, columnspacing=1.4)
        svg = drawing.as_svg(plot, f'{name}-{form}', label)
        parts.append(f'<div class="{form}-plot">{svg}</div>')
    return markupsafe.Markup('\n'.join(parts))


def _step(value: float) -> str:
    for size, unit in ((1e9, 'G'), (1e6, 'M')):
        if abs(value) >= size:
            return f'{value / size:g}{unit}'
    return f'{value / 1000:g}k' if abs(value) >= 100_000 else f'{value:,.0f}'
