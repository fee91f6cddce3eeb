"""Numbers and times as people read them. Pure."""

import time

from estimator_trainer.this_process.log import duration, number

__all__ = ['clock', 'day', 'duration', 'number', 'share', 'size', 'whole']


def whole(value) -> str:
    """A step or a count; – where it is not known."""
    return f'{value:,}' if type(value) is int else '–'


def size(count: float) -> str:
    """Bytes: 4.2 MB, in powers of 1,000."""
    for unit in ('B', 'kB', 'MB', 'GB'):
        if count < 999.5:
            return f'{count:.0f} {unit}' if unit == 'B' or count >= 99.95 else f'{count:.1f} {unit}'
        count /= 1000
    return f'{count:,.1f} TB'


def share(part: float, whole: float) -> str:
    percent = 100 * part / whole if whole > 0 else 0
    return f'{percent:.0f} %' if percent >= 10 or percent == 0 else f'{percent:.1f} %'


def day(seconds: float | None) -> str:
    """'2026-11-22 23:24:36 UTC': a page is read elsewhere, and later."""
    return '–' if not seconds else time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(seconds))


def clock(seconds: float, since: float) -> str:
    """Time since the start of a run: '+1m07s'; with a fraction below ten seconds."""
    after = seconds - since
    return f'+{after:.1f}s' if 0 <= after < 10 else f'+{duration(max(after, 0))}'
