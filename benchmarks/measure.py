"""From single measurements to medians, ratios and tables. Pure: no process, no clock, no TensorFlow."""

import dataclasses
import statistics


@dataclasses.dataclass(frozen=True)
class Row:
    """One thing that was measured, beside the base of its table.

    Attributes:
        name: what was measured.
        median: of all its rounds; None if there is none.
        ratio: of the medians, to the base's; None if one of them is missing.
        lowest, highest: ratio of a round, in which both ran one after the other.
        rounds: how many there are.
        note: why it is missing.
    """

    name: str
    median: float | None = None
    ratio: float | None = None
    lowest: float | None = None
    highest: float | None = None
    rounds: int = 0
    note: str = ''


def speed(lines, warm_up: int) -> float:
    """Steps per second out of the lines of a metrics.jsonl, after the warm-up.

    One call of TensorFlow may take many steps. Those that it reports are written when it ends, at one time and with
    one measurement of the speed: only the last of them tells when its step was finished.

    Args:
        lines: dicts with kind, step, time and examples_per_sec.
        warm_up: the step from which on it counts.

    Raises:
        ValueError: there are not two reports after the warm-up.
    """
    ends = []
    for line in lines:
        if line['kind'] != 'train':
            continue
        if ends and ends[-1].get('examples_per_sec') == line.get('examples_per_sec'):
            ends.pop()
        ends.append(line)
    counted = [line for line in ends if line['step'] >= warm_up]
    if len(counted) < 2 or counted[-1]['time'] <= counted[0]['time']:
        raise ValueError(f'no two reports after step {warm_up}: more --steps are needed')
    first, last = counted[0], counted[-1]
    return (last['step'] - first['step']) / (last['time'] - first['time'])


def intervals(times) -> list[float]:
    """Seconds from each time to the next one."""
    return [later - earlier for earlier, later in zip(times, times[1:])]


def rows(rounds, names, notes=None) -> list[Row]:
    """Rows of a table, in the order of `names`. The first of them is the base; without it there are no ratios.

    Args:
        rounds: for each round {name: value}; what failed is not in it.
        names: all that should have been measured.
        notes: {name: why it was not measured}.
    """
    values = {name: [found[name] for found in rounds if name in found] for name in names}
    base = names[0]
    made = []
    for name in names:
        if not values[name]:
            made.append(Row(name, note=(notes or {}).get(name, 'not measured')))
            continue
        pairs = [found[name] / found[base] for found in rounds if name in found and base in found]
        median = statistics.median(values[name])
        ratio = median / statistics.median(values[base]) if values[base] else None
        lowest, highest = (min(pairs), max(pairs)) if pairs else (None, None)
        made.append(Row(name, median, ratio, lowest, highest, len(values[name])))
    return made


def table(made, unit: str) -> str:
    """The rows as a table of Markdown, with columns that line up on a terminal."""
    lines = [('', unit, 'ratio', 'lowest to highest', 'rounds')]
    for row in made:
        if row.median is None:
            lines.append((f'{row.name}: {row.note}', '', '', '', ''))
            continue
        ratio = '' if row.ratio is None else f'{row.ratio:.2f}'
        spread = '' if row.lowest is None else f'{row.lowest:.2f} to {row.highest:.2f}'
        lines.append((row.name, number(row.median), ratio, spread, str(row.rounds)))
    widths = [max(len(line[column]) for line in lines) for column in range(5)]
    lines.insert(
        1, tuple('-' * width if not column else '-' * (width - 1) + ':' for column, width in enumerate(widths))
    )
    return '\n'.join(
        '| ' + ' | '.join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in cells) + ' |'
        for cells in (list(enumerate(zip(line, widths))) for line in lines)
    )


def number(value: float) -> str:
    """With three digits that count: 0.123, 12.3, 1,234."""
    if abs(value) >= 100:
        return f'{value:,.0f}'
    return f'{value:.1f}' if abs(value) >= 10 else f'{value:.3g}'
