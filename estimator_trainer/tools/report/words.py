"""Numbers, times and the best trial of a sweep as people read them. Pure."""

from collections.abc import Mapping
from typing import Any

from estimator_trainer.this_process.log import day, duration, number

__all__ = ['best_trial', 'clock', 'day', 'duration', 'number', 'share', 'size', 'whole']


def whole(value: Any) -> str:
    """A step or a count; – where it is not known."""
    return f'{value:,}' if type(value) is int else '–'


def size(count: float) -> str:
    """Bytes: 4.2 MB, in powers of 1,000."""
    for unit in ('B', 'kB', 'MB', 'GB'):
        if count < 999.5:
            return f'{count:.0f} {unit}' if unit == 'B' or count >= 99.95 else f'{count:.1f} {unit}'
        count /= 1000
    return f'{count:,.1f} TB'


def share(part: float, total: float) -> str:
    percent = 100 * part / total if total > 0 else 0
    return f'{percent:.0f} %' if percent >= 10 or percent == 0 else f'{percent:.1f} %'


def clock(seconds: float, since: float) -> str:
    """Time since the start of a run: '+1m07s'; with a fraction below ten seconds."""
    after = seconds - since
    return f'+{after:.1f}s' if 0 <= after < 10 else f'+{duration(max(after, 0))}'


def best_trial(sweep: Mapping[str, Any]) -> str:
    """The best trial of a sweep, in a sentence or two; '' without one. `sweep`: sweep.json, {} without one."""
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
