"""Expands Slurm's short form of a list of nodes, such as 'n[1-3,07-10],login'. Does not run scontrol."""

import itertools
import re

MOST = 65536  # nodes; more is a slip, not a cluster
_BETWEEN_ITEMS = re.compile(r',(?![^][]*\])')
_ITEM = re.compile(r'(?:[A-Za-z0-9._-]|\[[^][]*\])+')
_PART = re.compile(r'\[(.*?)\]|([^][]+)')
_RANGE = re.compile(r'([0-9]{1,18})(?:-([0-9]{1,18}))?')


def expand(text: str) -> tuple[str, ...]:
    """The names of the nodes, in the order of the list. A name that the list has twice is returned twice.

    A number has as many digits as the first number of its range: 'n[08-10]' is n08, n09, n10. If a name has several
    brackets, the last one changes fastest.

    Raises:
        ValueError: `text` is no such list, or names more than MOST nodes. The message is the end of a sentence
            ('names more than 65536 nodes').
    """
    names: list[str] = []
    for item in _BETWEEN_ITEMS.split(text):
        if not _ITEM.fullmatch(item):
            raise ValueError('is not a list of nodes such as "n[1-3,7],login"')
        parts = [[name] if name else _numbers(ranges) for ranges, name in _PART.findall(item)]
        names += itertools.islice(map(''.join, itertools.product(*parts)), MOST + 1)
        if len(names) > MOST:
            raise ValueError(f'names more than {MOST} nodes')
    return tuple(names)


def _numbers(ranges: str) -> list[str]:
    """The numbers of the text between two brackets: '1-3,07' -> 1, 2, 3, 07."""
    numbers: list[str] = []
    for one in ranges.split(','):
        match = _RANGE.fullmatch(one)
        first, last = (match[1], match[2] or match[1]) if match else ('1', '0')
        if int(last) < int(first):
            raise ValueError(f'has a bad range "[{ranges}]": one such as "[1-3,7]" is wanted')
        if int(last) - int(first) >= MOST:
            raise ValueError(f'names more than {MOST} nodes')
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers
