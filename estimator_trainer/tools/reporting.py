"""How tools print: wrapped lines, points and tables, and numbers, times and values as people read them. Pure."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from estimator_trainer.this_process.log import day, duration, number
from tf_config import tables

__all__ = ['day', 'duration', 'number']  # for those who import this

WIDTH = 110  # characters of a line


def wrapped(lines: Iterable[str], first: str = '', others: str = '') -> list[str]:
    """Lines of at most WIDTH characters.

    Args:
        first, others: what the first line of each text begins with, and what its further lines begin with.
    """
    wrapper = textwrap.TextWrapper(
        WIDTH, initial_indent=first, subsequent_indent=others, break_long_words=False, break_on_hyphens=False
    )
    return [part for line in lines for part in wrapper.wrap(line)]


def section(title: str, lines: Sequence[str]) -> list[str]:
    """A title with points below it, after an empty line; [] without points."""
    return ['', f'{title}:', *wrapped(lines, '  ', '    ')] if lines else []


def table(rows: Iterable[tuple[str, ...]]) -> list[str]:
    """Rows whose columns are aligned, and indented as the points of a section are."""
    return [f'  {line}' for line in tables.aligned(list(rows))]


def some(words: Sequence[str], most: int) -> str:
    """'a, b and 3 more'."""
    rest = f' and {len(words) - most} more' if len(words) > most else ''
    return ', '.join(words[:most]) + rest


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


def in_words(value: Any) -> str:
    """A value of JSON as a flag would have it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return ', '.join(map(in_words, value)) or 'none'
    if isinstance(value, dict):
        return ', '.join(f'{name}={in_words(each)}' for name, each in value.items()) or 'none'
    return '–' if value in (None, '') else str(value)


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
