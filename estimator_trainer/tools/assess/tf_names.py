"""The names that TensorFlow has, from names.txt: which of them TensorFlow 1 alone had at its top level."""

import functools
import pathlib
from typing import NamedTuple

FILE = pathlib.Path(__file__).with_name('names.txt')
TOP = 'tf'
BOTH, ONLY_1, ONLY_2, UNKNOWN = 'both', 'only 1', 'only 2', 'unknown'
_VERSIONS = {'both': BOTH, '1': ONLY_1, '2': ONLY_2}
# tf.keras and what TensorFlow 2 takes from it have no list: Keras's package supplies them.
_OF_KERAS = ('tf.keras', 'tf.initializers', 'tf.optimizers', 'tf.losses', 'tf.metrics')
_IN_BOTH = 'tf.losses.Reduction'  # TensorFlow 1's and Keras's: they share some of their values


class Known(NamedTuple):
    """A public name. `name` leaves out the attributes of a class or function; `version` is one of the four above."""

    name: str
    version: str


def find(dotted: str) -> Known:
    """What a dotted name such as 'tf.estimator.ModeKeys.TRAIN' names: here tf.estimator.ModeKeys, in both versions."""
    versions, modules = _public()
    name, *parts = dotted.split('.')
    for part in parts:
        name = f'{name}.{part}'
        if part.startswith('__'):
            return Known(name, BOTH)
        if name in modules:
            continue
        if name in versions:
            return Known(name, versions[name])
        return Known(dotted, BOTH if name.startswith(_OF_KERAS) else UNKNOWN)
    return Known(name, versions.get(name, BOTH))


@functools.cache
def _public() -> tuple[dict[str, str], set[str]]:
    versions, modules = {}, {TOP}
    for kind, module, names in _lines():
        if kind != 'private':
            modules.add(module)
            for name in names:
                of_keras = f'{module}.{name}'.startswith(_OF_KERAS[:3]) or f'{module}.{name}' in (*_OF_KERAS, _IN_BOTH)
                versions[f'{module}.{name}'] = BOTH if of_keras else _VERSIONS[kind]
    return versions, modules


@functools.cache
def private_modules() -> frozenset[str]:
    """The modules in tensorflow that have no public names."""
    found = set()
    for kind, module, names in _lines():
        if kind == 'private':
            found |= {module, *(f'{module}.{name}' for name in names)}
    return frozenset(found)


@functools.cache
def _lines() -> list[tuple[str, str, list[str]]]:
    lines = []
    for line in FILE.read_text(encoding='utf-8').splitlines():
        if line and not line.startswith('#'):
            head, _, names = line.partition(':')
            kind, _, module = head.partition(' ')
            lines.append((kind, module, names.split()))
    return lines
