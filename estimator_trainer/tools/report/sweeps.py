"""What sweep.json tells of a sweep, in words. Pure."""

from collections.abc import Mapping

from estimator_trainer.tools.report.words import number, whole


def best_trial(sweep: Mapping) -> str:
    """The best trial, in a sentence or two; '' without one. `sweep`: sweep.json, {} without one."""
    best = sweep.get('best')
    if not isinstance(best, dict):
        return ''
    params = best.get('params')
    values = ', '.join(
        f'{name} {number(value) if isinstance(value, float) else value}'
        for name, value in (params if isinstance(params, dict) else {}).items()
    )
    what = f'{sweep.get("metric")} {number(best.get("value"))} at step {whole(best.get("step"))}'
    export = f' Its export: {best["export"]}.' if best.get('export') else ''
    return f'The best is trial {best.get("trial")}: {what}{", with " + values if values else ""}.{export}'
