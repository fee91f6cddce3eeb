"""Figures of Matplotlib as inline SVG whose colours are those of the page: light, dark or printed.

A figure is drawn with the colours below, which nobody would choose. In the SVG each of them becomes a variable of CSS;
a page that shows the figure has the CSS of `pages.py`.
"""

import io
import re
from collections.abc import Mapping

import markupsafe
import matplotlib
from matplotlib import figure

NUM_COLOURS = 8
INK, RULE, GOOD, BAD, PALE = '#0a0b00', '#0a0b01', '#0a0b02', '#0a0b03', '#0a0b04'
COLOURS = tuple(f'#0a0b1{number}' for number in range(NUM_COLOURS))
_VARIABLES = {INK: 'ink', RULE: 'rule', GOOD: 'good', BAD: 'bad', PALE: 'pale'}
_VARIABLES |= {colour: f'c{number}' for number, colour in enumerate(COLOURS)}
_STYLE = {
    'svg.fonttype': 'none',  # text stays text
    'svg.hashsalt': 'estimator_trainer',  # the same bytes each time
    'path.simplify': True,
    'font.size': 9,
    'text.color': INK,
    'axes.labelcolor': INK,
    'axes.edgecolor': RULE,
    'axes.facecolor': 'none',
    'axes.prop_cycle': matplotlib.cycler(color=COLOURS),
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


def style():
    """A context in which figures are made and drawn."""
    return matplotlib.rc_context(_STYLE)


def as_svg(drawing: figure.Figure, name: str = 'figure', label: str = '') -> str:
    """A figure as inline SVG.

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
    escaped = label.replace('&', '&amp;').replace('<', '&lt;').replace('"', '&quot;')
    return svg.replace('<svg ', f'<svg role="img" aria-label="{escaped}" ', 1) if label else svg


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
    with style():
        drawing = figure.Figure(figsize=(9, height), layout='constrained')
        axes = drawing.subplots()
        for number, (title, points) in enumerate(curves.items()):
            dashes = (5 * number, (6, 6 + 4 * number)) if number else '-'
            marks = {'linestyle': dashes, 'marker': '.', 'gid': f'curve-{number}'}
            axes.plot(list(points), list(points.values()), label=title, **marks)
        axes.set(xlabel='step', ylabel=ylabel, **({'yscale': 'log'} if logarithmic else {}))
        axes.grid()
        drawing.legend(loc='outside lower center', ncols=3)
    return markupsafe.Markup(as_svg(drawing, name, label))
