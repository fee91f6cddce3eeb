"""`tf.contrib`, as far as it can be had: other names of what TensorFlow and tf-slim have, and a few small modules here.

names.ini says for each name where it is found; absent.ini says of all others what to use instead.
"""

from __future__ import annotations

import configparser
import functools
import importlib
import pathlib
import types
from typing import Any

_HERE = pathlib.Path(__file__).parent


class Contrib(types.ModuleType):
    """One part of tf.contrib, such as tf.contrib.layers. Its names are looked up when they are first used."""

    def __init__(self, path: str) -> None:
        super().__init__(f'tensorflow.contrib.{path}' if path else 'tensorflow.contrib')
        self.__path__ = []
        self._part = path

    def __getattr__(self, name: str) -> Any:
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
        return _target(names[part][name], path)
    if _is_part(path, names):
        return Contrib(path)
    if _read('absent.ini').has_option('names', f'{part}.{name}'):
        raise AttributeError(absent(path))
    for target in (names[part].get('*') or '').split() if names.has_section(part) else ():
        try:
            return _target(f'{target}.{name}' if ':' in target else f'{target}:{name}', path)
        except AttributeError:
            pass
    raise AttributeError(absent(path))


def is_listed(path: str) -> bool:
    """Whether names.ini has a place for this name, or one where it may be. Imports nothing."""
    names, part = _read('names.ini'), path.partition('.python')[0]
    if _is_part(path, names) or names.has_section(part):
        return True
    parents, _, name = path.rpartition('.')
    parents = parents.split('.python')[0]
    if _read('absent.ini').has_option('names', f'{parents}.{name}') or not parents:
        return False
    return names.has_option(parents, name) or names.has_option(parents, '*') or is_listed(parents)


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


def _target(target: str, path: str) -> Any:
    module, _, names = target.partition(':')
    try:
        loaded = importlib.import_module(__package__ + module[3:] if module.startswith('tf1.') else module)
    except ModuleNotFoundError as error:
        if error.name != 'tf_slim':
            raise
        raise ImportError(
            f'tf.contrib.{path} is in the package tf-slim: pip install "estimator-trainer[tf1]"'
        ) from error
    return functools.reduce(getattr, names.split('.'), loaded) if names else loaded


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


@functools.cache
def _read(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(delimiters=('=',), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((_HERE / name).read_text(encoding='utf-8'))
    return parser
