"""The parity report as one HTML page without anything from elsewhere."""

import html
import math
from collections.abc import Sequence

from estimator_trainer.tools.parity import report
from estimator_trainer.tools.parity.compare import Difference, Trace

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 760, 320, 56, 36, 12, 12
_COLOURS = ('#1b6ca8', '#c8553d', '#2e8b57', '#8e5ea2', '#b8860b', '#00868b', '#7a4e2d', '#d81b60', '#444444')
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
       color: #222; background: #fff }
table { border-collapse: collapse; font-size: 14px; width: 100% }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #ddd }
td.number { font-variant-numeric: tabular-nums }
.equal { color: #176639 } .differs { color: #a31515; font-weight: 600 }
svg { width: 100%; height: auto } svg text { font: 12px system-ui, sans-serif; fill: #555 }
ul.key { list-style: none; padding: 0; columns: 3; font-size: 14px }
ul.key span { display: inline-block; width: 1.6rem; border-top: 3px solid; margin: 0 .5rem .25rem 0 }
.wide { overflow-x: auto }
"""


def page(
    title: str, facts: Sequence[str], traces: Sequence[Trace], found: Sequence[Difference], tolerance: float
) -> str:
    """The page.

    Args:
        title: what was compared.
        facts: lines that say how: the flags, the versions.
    """
    verdict, *rest = report.conclusion(found, tolerance)
    kind = 'differs' if rest else 'equal'
    text = html.escape
    return '\n'.join(
        [
            '<!doctype html>',
            '<html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width">',
            f'<title>{text(title)}</title><style>{_STYLE}</style></head><body>',
            f'<h1>{text(title)}</h1>',
            f'<p class="{kind}">{text(verdict)}</p>',
            *(f'<p>{text(line)}</p>' for line in rest),
            '<h2>Loss of each step</h2>',
            curves(traces),
            _key(traces),
            '<h2>Differences</h2>',
            '<div class="wide">',
            _table(found),
            '</div>',
            f'<p>{text(report.NOTE)}</p>',
            '<h2>How</h2>',
            *(f'<p>{text(fact)}</p>' for fact in facts),
            '</body></html>',
            '',
        ]
    )


def curves(traces: Sequence[Trace]) -> str:
    """The loss curves as an inline SVG. Later runs are dashed, so that equal curves show."""
    points = [(step, loss) for trace in traces for step, loss in trace.losses.items() if math.isfinite(loss)]
    if not points:
        return '<p>No losses were reported.</p>'
    steps, losses = zip(*points)
    across, up = _scale(steps, _LEFT, _WIDTH - _RIGHT), _scale(losses, _HEIGHT - _BOTTOM, _TOP)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="loss by step">']
    for value in _ticks(losses):
        parts.append(
            f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{up(value):.1f}" '
            f'y2="{up(value):.1f}" stroke="#e5e5e5"/><text x="{_LEFT - 8}" '
            f'y="{up(value) + 4:.1f}" text-anchor="end">{value:.3g}</text>'
        )
    for step in sorted({min(steps), (min(steps) + max(steps)) // 2, max(steps)}):
        parts.append(f'<text x="{across(step):.1f}" y="{_HEIGHT - 14}" text-anchor="middle">step {step}</text>')
    for number, trace in enumerate(traces):
        line = ' '.join(
            f'{across(step):.1f},{up(loss):.1f}' for step, loss in sorted(trace.losses.items()) if math.isfinite(loss)
        )
        parts.append(
            f'<polyline points="{line}" fill="none" stroke="{_colour(number)}" '
            f'stroke-width="{3 if number == 0 else 2}"{_dash(number)}>'
            f'<title>{html.escape(trace.name)}</title></polyline>'
        )
    return ''.join([*parts, '</svg>'])


def _dash(number) -> str:
    return f' stroke-dasharray="6 {6 + 4 * number}" stroke-dashoffset="{5 * number}"' if number else ''


def _colour(number) -> str:
    return _COLOURS[number % len(_COLOURS)]


def _scale(values, start, end):
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return lambda value: start + (value - low) / span * (end - start)


def _ticks(values) -> list:
    low, high = min(values), max(values)
    return [low + (high - low) * part / 4 for part in range(5)] if high > low else [low]


def _key(traces) -> str:
    return (
        '<ul class="key">'
        + ''.join(
            f'<li><span style="color:{_colour(number)}"></span>{html.escape(trace.name)}</li>'
            for number, trace in enumerate(traces)
        )
        + '</ul>'
    )


def _table(found) -> str:
    rows = [
        '<table><tr><th>one</th><th>other</th><th>loss</th><th>update</th><th>weights</th>'
        '<th>evaluation</th><th>verdict</th><th>first difference</th></tr>'
    ]
    for pair in found:
        at = [
            (pair.loss, f'step {pair.loss_step}'),
            (pair.update, f'{pair.update_variable}, step {pair.update_step}'),
            (pair.weight, f'{pair.weight_variable}, step {pair.weight_step}'),
            (pair.evaluation, ''),
        ]
        cells = ''.join(
            f'<td class="number" title="{html.escape(where)}">{report.number(size)}</td>' for size, where in at
        )
        first = '' if pair.equal else html.escape(report.parting(pair))
        rows.append(
            f'<tr><td>{html.escape(pair.one)}</td><td>{html.escape(pair.other)}</td>{cells}'
            f'<td class="{report.verdict(pair)}">{report.verdict(pair)}</td><td>{first}</td></tr>'
        )
    return '\n'.join([*rows, '</table>'])
