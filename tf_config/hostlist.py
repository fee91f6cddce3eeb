"""Slurm's short form of a list of nodes, 'n[1-3,07-10],login', written out. Runs no scontrol."""

import itertools
import re

MOST = 65536  # nodes; more is a slip, not a cluster
_BETWEEN_ITEMS = re.compile(r',(?![^][]*\])')
_ITEM = re.compile(r'(?:[A-Za-z0-9._-]|\[[^][]*\])+')
_PART = re.compile(r'\[(.*?)\]|([^][]+)')
_RANGE = re.compile(r'([0-9]{1,18})(?:-([0-9]{1,18}))?')


def expand(text):
    """The names in the order of the list: not sorted, and not made unique.

    A number keeps the zeros with which its range begins ('n[08-10]': n08, n09, n10); of several
    brackets in a name the last one runs fastest. Raises ValueError on what is no such list.
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


def _numbers(ranges):
    """The numbers, as text, of what stands between brackets."""
    numbers = []
    for one in ranges.split(','):
        found = _RANGE.fullmatch(one)
        first, last = (found[1], found[2] or found[1]) if found else ('1', '0')
        if int(last) < int(first):
            raise ValueError(f'has a bad range "[{ranges}]": one such as "[1-3,7]" is wanted')
        if int(last) - int(first) >= MOST:
            raise ValueError(f'names more than {MOST} nodes')
        numbers += [str(number).zfill(len(first)) for number in range(int(first), int(last) + 1)]
    return numbers
