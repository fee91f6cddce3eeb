"""`tf.contrib`, as far as it can be had: other names of what TensorFlow and tf-slim have, and a few small modules here.

names.ini says for each name where it is found; absent.ini says of all others what to use instead;
module_names.txt lists what the modules that names.ini names have.
"""

from __future__ import annotations

import configparser
import functools
import importlib
import pathlib
import types
from collections.abc import Sequence
from typing import Any

_HERE = pathlib.Path(__file__).parent
MODULE_NAMES = _HERE / 'module_names.txt'


class Contrib(types.ModuleType):
    """One part of tf.contrib, such as tf.contrib.layers. Its names are looked up when they are first used."""

    def __init__(self, path: str) -> None:
        super().__init__(f'tensorflow.contrib.{path}' if path else 'tensorflow.contrib')
        self.__path__ = []
        self._part = path

    def __getattr__(self, name: str) -> Any:
        if name == '__all__':  # of `from tensorflow.contrib.layers import *`
            return [each for each in names_of(self._part) if hasattr(self, each)]
        if name.startswith('__'):
            raise AttributeError(name)
        value = find(f'{self._part}.{name}' if self._part else name)
        setattr(self, name, value)
        return value


@functools.cache
def root() -> Contrib:
    """tf.contrib."""
    return Contrib('')


def find(path: str) -> Any:
    """What `tf.contrib.<path>` is.

    Raises:
        AttributeError: it cannot be had; the message says what to use instead.
        ImportError: it is in tf-slim, which is not installed.
    """
    parents, _, name = path.rpartition('.')
    names = _read('names.ini')
    part = parents.split('.python')[0]  # layers.python.layers was where layers was written: programs import from both
    if names.has_option(part, name):
        return load(names[part][name], path)
    if _is_part(path, names):
        return Contrib(path)
    if is_absent(path):
        raise AttributeError(absent(path))
    for place in (names[part].get('*') or '').split() if names.has_section(part) else ():
        try:
            return load(f'{place}.{name}' if ':' in place else f'{place}:{name}', path)
        except AttributeError:
            pass
    raise AttributeError(absent(path))


def names_of(part: str) -> list[str]:
    """The names of a part of tf.contrib that can be had, such as 'layers'; '' for its parts."""
    places = _read('names.ini')
    own = [name for name in places[part] if name not in ('*', '.python')] if places.has_section(part) else []
    parts = [section.removeprefix(f'{part}.' if part else '').partition('.')[0] for section in places.sections()]
    inner = [name for name, section in zip(parts, places.sections()) if section != part and _is_below(section, part)]
    return sorted({*own, *inner, *_module_names().get(part, ())})


def _is_below(section: str, part: str) -> bool:
    return not part or section.startswith(f'{part}.')


def is_listed(path: str) -> bool:
    """Whether `tf.contrib.<path>` can be had, by names.ini and module_names.txt. Imports nothing.

    A path that goes on behind a function, a class or a module of another package is taken to be right there.
    """
    places, names = _read('names.ini'), path.split('.')
    for length in range(1, len(names) + 1):
        above = '.'.join(names[: length - 1]).partition('.python')[0]
        first_part = '.'.join(names[:length])
        if places.has_section(above) and names[length - 1] in places[above]:
            return _is_in_module(f'{above}.{names[length - 1]}', names[length:])
        if not _is_part(first_part, places):
            return above in _module_names() and not is_absent(first_part) and _is_in_module(above, names[length - 1 :])
    return True


def _is_in_module(module: str, names: Sequence[str]) -> bool:
    for name in names:
        if module not in _module_names():
            break
        if name not in _module_names()[module]:
            return False
        module = f'{module}.{name}'
    return True


def is_in_slim(path: str) -> bool:
    """Whether tf.contrib.<path> is something of the package tf-slim. Imports nothing."""
    names, rest = _read('names.ini'), path.split('.')
    for length in range(len(rest), 0, -1):
        part, name = '.'.join(rest[:length]).partition('.python')[0], '.'.join(rest[length : length + 1])
        if names.has_section(part):
            own = names[part].get(name) if name else None
            return any(each.startswith('tf_slim') for each in (own or names[part].get('*') or '').split())
    return False


def _is_part(path: str, names: configparser.ConfigParser) -> bool:
    part, is_written, file = path.partition('.python')
    if is_written:
        files = (names[part].get('.python') or '').split() if names.has_section(part) else ()
        return any(f'.{each}.'.startswith(f'{file}.') for each in files)
    return any(f'{section}.'.startswith(f'{path}.') for section in names.sections())


def load(place: str, path: str) -> Any:
    """What stands at a place as names.ini has it, such as 'tensorflow.compat.v1:data', for tf.contrib.<path>."""
    module, _, names = place.partition(':')
    try:
        loaded = importlib.import_module(__package__ + module[3:] if module.startswith('tf1.') else module)
    except ModuleNotFoundError as error:
        if error.name != 'tf_slim':
            raise
        raise ImportError(f'tf.contrib.{path} is in the package tf-slim: pip install tf-slim') from error
    return functools.reduce(getattr, names.split('.'), loaded) if names else loaded


def is_absent(path: str) -> bool:
    """Whether absent.ini has a sentence for this very name, wherever else its part is looked for."""
    parents, _, name = path.rpartition('.')
    return _read('absent.ini').has_option('names', f'{parents.partition(".python")[0]}.{name}')


def absent(path: str) -> str:
    """One sentence: what cannot be had, and what to use instead."""
    sentences = _read('absent.ini')
    part, is_written, _ = path.partition('.python')
    parts = [part, path.rpartition('.')[2]] if is_written else path.split('.')
    for length in range(len(parts), 0, -1):
        for section in sentences.sections():
            advice = sentences[section].get('.'.join(parts[:length]))
            if advice:
                return f'tf.contrib.{path} was removed in TensorFlow 2: {advice}.'
    return (
        f'tf.contrib.{path} was removed in TensorFlow 2, and compat has no stand-in for it: replace it in the program.'
    )


def places() -> configparser.ConfigParser:
    """names.ini: part of tf.contrib -> name -> place."""
    return _read('names.ini')


@functools.cache
def _module_names() -> dict[str, frozenset[str]]:
    lines = MODULE_NAMES.read_text(encoding='utf-8').splitlines()
    parts = (line.partition(': ') for line in lines if not line.startswith('#'))
    return {part: frozenset(names.split()) for part, _, names in parts}


@functools.cache
def _read(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(delimiters=('=',), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((_HERE / name).read_text(encoding='utf-8'))
    return parser
