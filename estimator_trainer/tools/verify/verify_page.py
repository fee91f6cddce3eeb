"""The comparison as one HTML page that needs nothing from elsewhere."""

import pathlib
from collections.abc import Mapping, Sized

import markupsafe

from estimator_trainer.tools import pages
from estimator_trainer.tools.verify import program_runs, traces
from estimator_trainer.tools.verify import verify_report as reports
from estimator_trainer.tools.verify.traces import Key
from estimator_trainer.tools.verify.verify_report import Report

_TEMPLATE = pathlib.Path(__file__).with_name('page.html.jinja')
_SMALLEST, _LARGEST = 1e-9, 10.0  # of the logarithmic axis: what is equal stands at its foot


def page(report: Report, losses: Mapping, differences: Mapping[str, Mapping[Key, float]]) -> str:
    """The page.

    Args:
        losses: name of a run -> Estimator -> step -> loss.
        differences: name of two runs -> their differences.
    """
    drawings = [(f'Loss of each step{title}', each) for title, each in _losses(losses)]
    drawings += [
        (f'Largest difference of the weights at each step{title}', each) for title, each in _growth(differences)
    ]
    return pages.render(
        _TEMPLATE,
        report=report,
        title=report.title,
        width='75rem',
        verdict=reports.verdict(report),
        cells=reports.cells,
        drawings=drawings,
        perturb=program_runs.PERTURB,
        untold=reports.untold(report),
    )


def _losses(losses):
    estimators = sorted({each for run in losses.values() for each in run})
    for estimator in estimators:
        lines = {name: run.get(estimator, {}) for name, run in losses.items()}
        yield _title(estimator, estimators), _lines(lines, 'loss')


def _growth(differences):
    """For each Estimator how far the pairs of runs are apart, step by step."""
    estimators: dict[int, dict[str, dict[int, float]]] = {}
    for name, sizes in differences.items():
        for key, size in sizes.items():
            if key.thing in (traces.WEIGHTS, traces.SLOTS):
                steps = estimators.setdefault(key.estimator, {}).setdefault(name, {})
                steps[key.step] = max(min(size, _LARGEST), steps.get(key.step, _SMALLEST))
    for estimator, lines in sorted(estimators.items()):
        yield _title(estimator, estimators), _lines(lines, 'relative difference', logarithmic=True)


def _title(estimator: int, estimators: Sized) -> str:
    return f', Estimator {estimator + 1}' if len(estimators) > 1 else ''


def _lines(lines: Mapping[str, Mapping[int, float]], ylabel: str, logarithmic: bool = False) -> markupsafe.Markup:
    return pages.lines(lines, ylabel, ylabel.replace(' ', '-'), f'{ylabel} by step', 3.5, logarithmic)
