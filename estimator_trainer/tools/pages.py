"""The pages that tools write: one HTML file each, which needs nothing from elsewhere. Template, colours and plots.

A template of a tool extends `base.html.jinja`, which has the head, the colours and the style of all pages.

Matplotlib draws the plots, with colours that nobody would choose. In the SVG each of them becomes a variable of CSS, so
that a plot is light, dark or printed as its page is. Matplotlib takes seconds to import: only what draws imports it.
"""

import functools
import io
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jinja2
import markupsafe
import numpy as np

from estimator_trainer.tools import reporting

_FOLDER = pathlib.Path(__file__).parent
_LIGHT = (
    '--ink: #1d2329; --paper: #fff; --rule: #d5dadf; --pale: #b9c4cf; '
    '--good: #176639; --bad: #b3151f; --warn: #8a5a00; '
    '--c0: #0b62c4; --c1: #c2570c; --c2: #1a7f4b; --c3: #7c3fb5; '
    '--c4: #c2255c; --c5: #0f7c8a; --c6: #8a5a2b; --c7: #5b6470'
)
_DARK = (
    '--ink: #e4e8ec; --paper: #14181d; --rule: #363e47; --pale: #55616d; '
    '--good: #6fd39a; --bad: #ff8f8a; --warn: #f0c15c; '
    '--c0: #6cb6ff; --c1: #ffa657; --c2: #6fd39a; --c3: #c8a2ff; '
    '--c4: #ff8fb1; --c5: #56d4dd; --c6: #d9b38c; --c7: #a9b4c0'
)
CSS = f"""\
:root {{ color-scheme: light dark; {_LIGHT} }}
@media screen and (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}
body {{ color: var(--ink); background: var(--paper) }}
"""

NUM_COLOURS = 8
INK, RULE, GOOD, BAD, PALE = '#0a0b00', '#0a0b01', '#0a0b02', '#0a0b03', '#0a0b04'
COLOURS = tuple(f'#0a0b1{number}' for number in range(NUM_COLOURS))
_VARIABLES = {INK: 'ink', RULE: 'rule', GOOD: 'good', BAD: 'bad', PALE: 'pale'}
_VARIABLES |= {colour: f'c{number}' for number, colour in enumerate(COLOURS)}
_STYLE = {
    'text.parse_math': False,  # names of metrics and runs may hold $
    'svg.fonttype': 'none',  # text stays text
    'svg.hashsalt': 'estimator_trainer',  # the same bytes each time
    'path.simplify': True,
    'font.size': 9,
    'text.color': INK,
    'axes.labelcolor': INK,
    'axes.edgecolor': RULE,
    'axes.facecolor': 'none',
    'axes.spines.top': False,
    'axes.spines.right': False,
    'figure.facecolor': 'none',
    'grid.color': RULE,
    'grid.linewidth': 0.6,
    'legend.frameon': False,
    'legend.labelcolor': INK,
    'lines.linewidth': 1.4,
    'savefig.facecolor': 'none',
    'xtick.color': RULE,
    'ytick.color': RULE,
    'xtick.labelcolor': INK,
    'ytick.labelcolor': INK,
}

_NO_XML = re.compile('[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]')
_FORMS = (('wide', 10.6, 7), ('narrow', 4.5, 3))  # of a plot: name, width in inches, columns of the legend
_LEGEND = {'handlelength': 2.2, 'columnspacing': 1.4}
_FEW = 100  # points that are drawn with a dot each


class Points(NamedTuple):
    """A curve, in the order of the steps. Arrays of one length."""

    steps: np.ndarray
    values: np.ndarray
    least: np.ndarray  # a shade reaches from here
    most: np.ndarray  # to here


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


def render(template: pathlib.Path, **values: Any) -> str:
    """The page of a template, in which these values have their names, and `words` is reporting.py."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, _FOLDER]),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    return environment.get_template(template.name).render(css=markupsafe.Markup(CSS), words=reporting, **values)


def style():
    """A context in which figures are made and drawn."""
    import matplotlib

    return matplotlib.rc_context({**_STYLE, 'axes.prop_cycle': matplotlib.cycler(color=COLOURS)})


def words_of(text: str) -> str:
    """Text for Matplotlib that means itself: a _ at its beginning hides nothing from a legend.

    What no XML may hold is shown as a box.
    """
    text = _NO_XML.sub('\ufffd', text)
    return f' {text}' if text.startswith('_') else text


def as_svg(drawing, name: str = 'figure', label: str = '') -> str:
    """A figure of Matplotlib as inline SVG.

    Args:
        name: unlike those of the other figures of the page; the ids in the SVG begin with it.
        label: what it shows, for those who cannot see it.
    """
    text = io.StringIO()
    with style():
        drawing.savefig(text, format='svg', metadata={'Date': None})
    svg = text.getvalue()[text.getvalue().index('<svg') :]
    svg = re.sub(r'<metadata>.*?</metadata>\s*', '', svg, flags=re.DOTALL)
    svg = re.sub(r'\b(id="|href="#|url\(#)(?!curve-)', rf'\g<1>{name}-', svg)
    svg = re.sub(r'font: ([\d.]+px)[^;"]*', r'font: \1 system-ui, sans-serif', svg)
    svg = re.sub(r'#0a0b[01][0-9]', lambda match: f'var(--{_VARIABLES[match[0]]})', svg)
    escaped = _NO_XML.sub('\ufffd', label).replace('&', '&amp;').replace('<', '&lt;').replace('"', '&quot;')
    return svg.replace('<svg ', f'<svg role="img" aria-label="{escaped}" ', 1) if label else svg


def plot(
    name: str, label: str, draw: Callable[[Any], None], width: float, height: float, columns: int = 0
) -> markupsafe.Markup:
    """A plot as inline SVG.

    Args:
        name, label: as of `as_svg`.
        draw: draws into the axes that it gets.
        width, height: in inches.
        columns: of the legend; 0: there is none.
    """
    from matplotlib import figure

    with style():
        drawing = figure.Figure(figsize=(width, height), layout='constrained')
        draw(drawing.subplots())
        if columns:
            drawing.legend(loc='outside lower center', ncols=columns, **_LEGEND)
    return markupsafe.Markup(as_svg(drawing, name, label))


def wide_and_narrow(
    name: str, label: str, draw: Callable[[Any, bool], None], height: float = 3.0, legend: bool = True
) -> markupsafe.Markup:
    """A plot in two forms, of which the page shows the one that fits its reader's screen.

    `draw`: as of `plot`; it is told as well whether the form is the wide one.
    """
    parts = []
    for form, width, columns in _FORMS:
        drawn = functools.partial(draw, wide=form == 'wide')
        svg = plot(f'{name}-{form}', label, drawn, width, height, columns if legend else 0)
        parts.append(f'<div class="{form}-plot">{svg}</div>')
    return markupsafe.Markup('\n'.join(parts))


def curves(
    name: str, ylabel: str, lines: Sequence[Curve], signs: Sequence[StepMarks] = (), last_step: float = 0
) -> markupsafe.Markup:
    """Curves over the steps, from 0 to `last_step` at least; empty where no line has a point."""
    from matplotlib import ticker

    lines = [line for line in lines if len(line.points.steps)]
    if not lines:
        return markupsafe.Markup('')
    last = max(1.0, last_step, *(float(line.points.steps.max()) for line in lines))

    def draw(axes, wide: bool) -> None:
        for label, points, number in lines:
            colour = COLOURS[number % NUM_COLOURS]
            marker = {'marker': 'o', 'markersize': 3} if len(points.steps) <= _FEW else {}
            dashes = '-' if number < NUM_COLOURS else '--'
            axes.plot(points.steps, points.values, dashes, color=colour, label=words_of(label), **marker)
            if (points.most > points.least).any():
                axes.fill_between(points.steps, points.least, points.most, color=colour, alpha=0.18, linewidth=0)
        if _spans_decades(np.concatenate([line.points.values for line in lines])):
            axes.set_yscale('log')
        for sign in signs:
            _draw_sign(axes, sign)
        axes.set(xlabel='step', ylabel=words_of(ylabel), xlim=(-0.02 * last, 1.02 * last))
        axes.grid()
        if axes.get_yscale() == 'linear' and axes.get_ylim()[1] >= 1000:
            axes.yaxis.set_major_formatter(ticker.StrMethodFormatter('{x:,.0f}'))
        axes.xaxis.set_major_locator(ticker.MaxNLocator(9 if wide else 5, integer=True, steps=[1, 2, 5, 10]))
        axes.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _step(value)))

    described = f'{ylabel} by step: {", ".join(line.label for line in lines)}'
    return wide_and_narrow(name, described, draw, legend=len(lines) > 1 or bool(signs))


def _draw_sign(axes, sign: StepMarks) -> None:
    label = words_of(sign.label)
    if sign.ticks:
        foot = axes.get_xaxis_transform()
        axes.plot(sign.steps, [0] * len(sign.steps), '|', color=sign.colour, markersize=11, transform=foot, label=label)
        return
    for number, step in enumerate(sign.steps):
        axes.axvline(step, color=sign.colour, linestyle=':', linewidth=1.4, label=None if number else label)


def _spans_decades(values: np.ndarray) -> bool:
    return bool(values.min() > 0 and np.percentile(values, 98) / values.min() > 50)


def _step(value: float) -> str:
    for size, unit in ((1e9, 'G'), (1e6, 'M')):
        if abs(value) >= size:
            return f'{value / size:g}{unit}'
    return f'{value / 1000:g}k' if abs(value) >= 100_000 else f'{value:,.0f}'


def lines(
    curves: Mapping[str, Mapping[int, float]],
    ylabel: str,
    name: str,
    label: str,
    height: float = 4.0,
    logarithmic: bool = False,
) -> markupsafe.Markup:
    """Lines over the steps, as inline SVG. Later lines are dashed, so that equal ones show.

    Args:
        curves: name of a line -> step -> value.
        name, label: as of `as_svg`.
        height: in inches.
    """

    def draw(axes) -> None:
        for number, (title, points) in enumerate(curves.items()):
            dashes = (5 * number, (6, 6 + 4 * number)) if number else '-'
            marks = {'linestyle': dashes, 'marker': '.', 'gid': f'curve-{number}'}
            axes.plot(list(points), list(points.values()), label=words_of(title), **marks)
        axes.set(xlabel='step', ylabel=words_of(ylabel), **({'yscale': 'log'} if logarithmic else {}))
        axes.grid()

    return plot(name, label, draw, 9, height, columns=3)
