"""The table knowledge.ini: what a name means here, and what it becomes in Keras 3. And which names run with `--tf1`.

Under `compat run --tf1` the names of a program are those of TensorFlow 1, so `findings.py` judges it as one that
imports tensorflow.compat.v1. What it would still find there may run all the same. Imports no TensorFlow.
"""

import configparser
import functools
import pathlib
from typing import NamedTuple

from estimator_trainer.compat import internals
from estimator_trainer.compat.tf1_names import contrib

FILE = pathlib.Path(__file__).with_name('knowledge.ini')
RUNS, TF1, OTHER, NEEDS, BLOCKS = 'runs', 'tf1', 'other', 'needs', 'blocks'
CONTRIB = 'tf.contrib.'
_DATA_SETS = 'tf.examples.tutorials.mnist'
_PRIVATE = 'tensorflow.python.'
_IN_GRAPHS = '.ProfilerHook'  # TensorFlow 1 computes in graphs everywhere
EFFORTS = ('none', 'small', 'medium', 'large')


class KnowledgeEntry(NamedTuple):
    """A section of the table: `title` is its first name, the other fields are its keys."""

    title: str
    state: str
    here: str
    keras: str
    effort: str


def entry(title: str) -> KnowledgeEntry:
    """The section for exactly this name."""
    return table()[title]


def find(name: str) -> KnowledgeEntry | None:
    """The section for a name, or else for the nearest name above it."""
    while name:
        if name in table():
            return table()[name]
        name = name.rpartition('.')[0]
    return None


def find_argument(name: str, argument: str) -> KnowledgeEntry | None:
    """The section for an argument of a call of a name, or else of the nearest name above it."""
    while name:
        found = table().get(f'{name}({argument})')
        if found:
            return found
        name = name.rpartition('.')[0]
    return None


@functools.cache
def packages() -> tuple[str, ...]:
    """The packages beside TensorFlow of which the table has something to say."""
    roots = {title.split('.')[0] for title in table() if title[0] not in '.(' and ' ' not in title}
    return tuple(sorted(roots - {'tf', 'tensorflow', 'tensorflow_estimator'}))


@functools.cache
def table() -> dict[str, KnowledgeEntry]:
    """Every name that the file has, with its section.

    Raises:
        ValueError: the file says something that it cannot, such as a name twice.
    """
    parser = configparser.ConfigParser(interpolation=None, delimiters=('=',), comment_prefixes=('#',))
    parser.read(FILE, encoding='utf-8')
    found: dict[str, KnowledgeEntry] = {}
    for title in parser.sections():
        section = dict(parser[title])
        also = [name.strip() for name in section.pop('also', '').split(',')]
        one = KnowledgeEntry(
            title, section.pop('state'), section.pop('here', ''), section.pop('keras'), section.pop('effort')
        )
        if section or one.state not in (RUNS, TF1, OTHER, NEEDS, BLOCKS) or one.effort not in EFFORTS:
            raise ValueError(f'{FILE}: [{title}] has an unknown key, state or effort.')
        for name in filter(None, (title, *also)):
            if name in found:
                raise ValueError(f'{FILE}: {name} is there twice.')
            found[name] = one
    return found


def runs_with_tf1(name: str) -> bool:
    """Whether a name that TensorFlow 2 lacks, or has in another way, runs with --tf1, such as 'tf.contrib.rnn.x'."""
    if name.startswith(CONTRIB):
        return contrib.is_listed(name.removeprefix(CONTRIB))
    if name.startswith(_PRIVATE):
        return _has_moved(name.removeprefix(_PRIVATE))
    return f'{name}.'.startswith(f'{_DATA_SETS}.') or name == CONTRIB.rstrip('.') or name.endswith(_IN_GRAPHS)


def _has_moved(name: str) -> bool:
    table = internals.table()
    module, _, last = name.rpartition('.')
    return name in table['*'] or module in table['*'] or last in table.get(module, ())
