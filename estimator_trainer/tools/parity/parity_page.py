"""The parity report as one HTML page that needs nothing from elsewhere."""

import pathlib
from collections.abc import Sequence

import jinja2
import markupsafe
from matplotlib import figure

from estimator_trainer.tools import drawing
from estimator_trainer.tools.parity import parity_report
from estimator_trainer.tools.parity.run_differences import Difference, RunValues

_TEMPLATE = pathlib.Path(__file__).with_name('page.html.jinja')


def page(
    title: str, facts: Sequence[str], traces: Sequence[RunValues], found: Sequence[Difference], tolerance: float
) -> str:
    """The page.

    Args:
        title: what was compared.
        facts: lines that say how: the flags, the versions.
    """
    verdict, *hints = parity_report.conclusion(found, tolerance)
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_TEMPLATE.read_text(encoding='utf-8')).render(
        title=title,
        css=markupsafe.Markup(drawing.CSS),
        verdict=verdict,
        hints=hints,
        curves=markupsafe.Markup(curves(traces)),
        pairs=found,
        note=parity_report.NOTE,
        facts=facts,
        number=parity_report.number,
        judge=parity_report.verdict,
        parting=parity_report.parting,
    )


def curves(traces: Sequence[RunValues]) -> str:
    """The loss curves as an inline SVG; '' without any. Later runs are dashed, so that equal curves show."""
    if not any(trace.losses for trace in traces):
        return ''
    with drawing.style():
        drawn = figure.Figure(figsize=(9, 4), layout='constrained')
        axes = drawn.subplots()
        for number, trace in enumerate(traces):
            line = (5 * number, (6, 6 + 4 * number)) if number else '-'
            axes.plot(
                list(trace.losses), list(trace.losses.values()), label=trace.name, linestyle=line, gid=f'curve-{number}'
            )
        axes.set(xlabel='step', ylabel='loss')
        axes.grid()
        drawn.legend(loc='outside lower center', ncols=3)
    return drawing.as_svg(drawn, 'losses', 'the loss of each step')
