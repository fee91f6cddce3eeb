"""An assessment as one HTML page that needs nothing from elsewhere."""

import pathlib

from estimator_trainer.tools import pages
from estimator_trainer.tools.assess import assess_report
from estimator_trainer.tools.assess.findings import Assessment

_TEMPLATE = pathlib.Path(__file__).with_name('page.html.jinja')


def page(title: str, assessment: Assessment) -> str:
    return pages.render(
        _TEMPLATE,
        title=title,
        width='80rem',
        verdict=assess_report.verdict(assessment),
        state=assessment.state,
        summary=assess_report.summary(assessment),
        places=assess_report.places,
        sections=list(assess_report.sections(assessment)),
    )
