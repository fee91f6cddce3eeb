"""Figures of Matplotlib as inline SVG whose colours are those of the page: light, dark or printed.

A figure is drawn with the colours below, which nobody would choose. In the SVG each of them becomes a variable of CSS;
a page that shows the figure has CSS in its style.
"""

import io
import re

import matplotlib
from matplotlib import figure

NUM_COLOURS = 8
INK, RULE, GOOD, BAD, PALE = '#0a0b00', '#0a0b01', '#0a0b02', '#0a0b03', '#0a0b04'
COLOURS = tuple(f'#0a0b1{number}' for number in range(NUM_COLOURS))
_VARIABLES = {INK: 'ink', RULE: 'rule', GOOD: 'good', BAD: 'bad', PALE: 'pale'}
_VARIABLES |= {colour: f'c{number}' for number, colour in enumerate(COLOURS)}
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
