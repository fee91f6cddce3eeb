"""The parity report as one HTML page that needs nothing from elsewhere."""

import pathlib
from collections.abc import Sequence

from estimator_trainer.tools import pages
from estimator_trainer.tools.parity import parity_report
from estimator_trainer.tools.parity.run_differences import Difference, RunValues

_TEMPLATE = pathlib.Path(__file__).with_name('page.html.jinja')


def page(
    title: str, facts: Sequence[str], traces: Sequence[RunValues], pairs: Sequence[Difference], tolerance: float
) -> str:
    """The page.

    Args:
        title: what was compared.
        facts: lines that say how: the flags, the versions.
    """
    verdict, *hints = parity_report.conclusion(pairs, tolerance)
    losses = {trace.name: trace.losses for trace in traces}
    return pages.render(
        _TEMPLATE,
        title=title,
        width='70rem',
        verdict=verdict,
        hints=hints,
        curves=pages.lines(losses, 'loss', 'losses', 'the loss of each step') if any(losses.values()) else '',
        pairs=pairs,
        note=parity_report.NOTE,
        facts=facts,
        number=parity_report.number,
        judge=parity_report.verdict,
        parting=parity_report.parting,
    )
