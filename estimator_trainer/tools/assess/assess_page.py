"""An assessment as one HTML page that needs nothing from elsewhere."""

import pathlib

import jinja2

from estimator_trainer.tools.assess import assess_report
from estimator_trainer.tools.assess.findings import Assessment

_TEMPLATE = pathlib.Path(__file__).with_name('page.html.jinja')


def page(title: str, found: Assessment) -> str:
    environment = jinja2.Environment(autoescape=True, trim_blocks=True, undefined=jinja2.StrictUndefined)
    return environment.from_string(_TEMPLATE.read_text(encoding='utf-8')).render(
        title=title,
        verdict=assess_report.verdict(found),
        state=found.state,
        summary=assess_report.summary(found),
        places=assess_report.places,
        sections=list(assess_report.sections(found)),
    )
