"""Which objects of a store a URL with *, **, ? or [...] names: those that glob.glob would find among files. Pure."""

import fnmatch
import glob
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple
from urllib.parse import unquote

_MAGIC = frozenset('*?[')
_ESCAPED = re.compile('%(2A|3F|5B)', re.IGNORECASE)


class Pattern(NamedTuple):
    """A URL, divided above its first part with a letter of a glob.

    Attributes:
        folder: the URL of the folder that all objects lie in.
        name: what the URL has below that, decoded: of an object that is there, it is the name.
        parts: the pattern of each part of `name`.
        is_glob: whether it has such a letter. An escaped one (%2A) is itself.
    """

    folder: str
    name: str
    parts: tuple[str, ...]
    is_glob: bool


def split(url: str) -> Pattern:
    scheme, _, rest = url.partition('://')
    place, *path = rest.split('/')
    fixed = next((number for number, part in enumerate(path) if _MAGIC & set(part)), len(path))
    is_glob = fixed < len(path)
    fixed = fixed if is_glob else max(0, len(path) - 1)
    below = path[fixed:]
    parts = tuple(_unquoted(part) if _MAGIC & set(part) else glob.escape(unquote(part)) for part in below)
    folder = f'{scheme}://{"/".join([place, *path[:fixed]])}'
    return Pattern(folder, '/'.join(map(unquote, below)), parts, is_glob)


def _unquoted(part: str) -> str:
    """A part of a pattern without escapes. Letters of a glob that are escaped stand for themselves."""
    return unquote(_ESCAPED.sub(lambda escaped: f'[{unquote(escaped[0])}]', part))


def matching(names: Iterable[str], pattern: Pattern) -> list[str]:
    """Those of the names, which are relative to the pattern's folder, that it means; sorted."""
    found = sorted(names)
    if pattern.name in found:  # it has the letters of a glob in its name
        return [pattern.name]
    return [name for name in found if _matches(name.split('/'), pattern.parts)]


def folders(names: Iterable[str], meant: Iterable[str], pattern: Pattern) -> list[str]:
    """The folders of the names that a pattern means, but for those in which it means a name; sorted.

    Args:
        names: relative to the pattern's folder.
        meant: those of them that the pattern means.
        pattern: the pattern.
    """
    return matching(_folders_of(names) - _folders_of(meant), pattern)


def _folders_of(names: Iterable[str]) -> set[str]:
    """All folders that the names lie in."""
    known: set[str] = set()
    for name in names:
        while (name := name.rpartition('/')[0]) and name not in known:
            known.add(name)
    return known


def _matches(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """`*` stays within a folder, and neither `*` nor `**` finds hidden files."""
    if not pattern or not parts:
        return not parts and all(part == '**' for part in pattern)
    hidden = parts[0].startswith('.') and not pattern[0].startswith('.')
    if pattern[0] == '**':
        return _matches(parts, pattern[1:]) or (not hidden and _matches(parts[1:], pattern))
    return not hidden and fnmatch.fnmatchcase(parts[0], pattern[0]) and _matches(parts[1:], pattern[1:])
