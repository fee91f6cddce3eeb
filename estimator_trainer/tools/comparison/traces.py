"""What a run has computed: values by key. `read` reads what `compat/recorder` has written. NumPy only."""

import dataclasses
import hashlib
import json
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.compat.recorder.estimator_recorder import recording

INPUTS, LOSS, WEIGHTS, UPDATES, SLOTS = 'inputs', 'losses', 'weights', 'updates', 'slots'
METRICS, PREDICTIONS, EXPORTS, ANSWERS = 'metrics', 'predictions', 'exports', 'exported answers'
THINGS = (INPUTS, LOSS, WEIGHTS, UPDATES, SLOTS, METRICS, PREDICTIONS, EXPORTS, ANSWERS)


class Key(NamedTuple):
    """What a value is: of which thing, Estimator and call; at which step or for which example; its name."""

    thing: str
    estimator: int
    call: int
    step: int
    name: str

    @property
    def series(self) -> tuple[str, int, str]:
        """What it has in common with the same value at other steps. Evaluations and exports are called anew."""
        return self.thing, self.estimator, self.name

    @property
    def is_variable(self) -> bool:
        return self.thing in (WEIGHTS, SLOTS)


class Value(NamedTuple):
    """An array, or some of its elements. `numbers` is None for strings and descriptions: only `digest` counts."""

    shape: tuple
    digest: str
    numbers: np.ndarray | None = None
    largest: float | None = None  # of an array of which `numbers` is a sample; so `norm`, `moved`
    norm: float | None = None
    moved: float | None = None
    text: str = ''

    @classmethod
    def of(cls, numbers: Any, **more: Any) -> 'Value':
        numbers = np.asarray(numbers)
        return cls(numbers.shape, hashlib.sha1(numbers.tobytes()).hexdigest(), numbers.reshape(-1), **more)

    @property
    def sampled(self) -> bool:
        return self.largest is not None


@dataclasses.dataclass
class Record:
    """The values of a run in the order of their recording.

    Attributes:
        name: what sentences call the run.
        trainable: names of the weights that an optimizer changes.
        labels: number of an Estimator -> its model_dir in the folder of the run.
        rows: (Estimator, call, step) -> digests of the examples of the batch.
        not_called: (folder, signature, reason) of exported models.
        skipped: calls of train beyond the last step.
        other_processes: how many processes used Estimators and were not recorded.
    """

    name: str = ''
    values: dict[Key, Value] = dataclasses.field(default_factory=dict)
    trainable: set[str] = dataclasses.field(default_factory=set)
    labels: dict[int, str] = dataclasses.field(default_factory=dict)
    rows: dict[tuple, Sequence[str]] = dataclasses.field(default_factory=dict)
    not_called: list[tuple] = dataclasses.field(default_factory=list)
    skipped: int = 0
    other_processes: int = 0

    def keys(self, *things: str) -> list[Key]:
        return [key for key in self.values if key.thing in things]

    def losses(self) -> dict[int, dict[int, float]]:
        """Estimator -> step -> loss."""
        found: dict[int, dict[int, float]] = {}
        for key in self.keys(LOSS):
            numbers = self.values[key].numbers
            if numbers is not None and numbers.size:
                found.setdefault(key.estimator, {})[key.step] = float(numbers[0])
        return found

    def updates(self) -> dict[Key, Key]:
        """Key of a trainable weight after a step -> its key before that step."""
        found, last = {}, {}
        for key in self.keys(WEIGHTS):
            before = last.get((key.series, key.call), key)
            last[key.series, key.call] = key
            if before.step < key.step and key.name in self.trainable:
                found[key] = before
        return found


def read(folder: str, name: str = '') -> Record:
    """The record that `compat/recorder` has left in the folder of a run."""
    found, arrays = Record(name), os.path.join(folder, recording.ARRAYS)
    has_arrays = os.path.exists(arrays) and os.path.getsize(arrays)
    data = np.memmap(arrays, mode='r') if has_arrays else np.empty(0, 'u1')
    for line in _lines(folder, recording.EVENTS):
        if line.endswith('\n'):  # else the process was killed as it wrote
            _add(found, json.loads(line), data)
    _join_examples(found)
    found.other_processes = len(set(_lines(folder, recording.OTHERS)))
    return found


def _lines(folder, name) -> Iterator[str]:
    path = os.path.join(folder, name)
    if os.path.exists(path):
        with open(path, encoding='utf-8') as file:
            yield from file


def _add(record, event, data) -> None:
    where = event['estimator'], event['call']
    record.labels.setdefault(event['estimator'], event['model_dir'])

    def put(thing, step, values):
        for name, described in values.items():
            record.values[Key(thing, *where, step, name)] = _value(described, data)

    kind = event['kind']
    if kind == 'step':
        put(INPUTS, event['step'], event['inputs'])
        put(LOSS, event['step'], {'loss': event['loss']})
        record.rows[(*where, event['step'])] = event['rows']
    elif kind == 'weights':
        record.trainable.update(event['trainable'])
        slots = {name for name in event['variables'] if _is_slot(name, record.trainable)}
        put(WEIGHTS, event['step'], {name: each for name, each in event['variables'].items() if name not in slots})
        put(SLOTS, event['step'], {name: each for name, each in event['variables'].items() if name in slots})
    elif kind == 'first_batch':
        put(INPUTS, 0, {f'{event["of"]}: {name}': each for name, each in event['inputs'].items()})
    elif kind == 'evaluation':
        put(METRICS, 0, event['metrics'])
    elif kind == 'prediction':
        put(PREDICTIONS, event['example'], event['values'])
    elif kind == 'export':
        for name, signature in event['signatures'].items():
            text = json.dumps(signature, sort_keys=True)
            put(EXPORTS, 0, {f'{event["folder"]}: {name}': {'shape': [], 'digest': text, 'text': text}})
        for name, outputs in event['answers'].items():
            put(ANSWERS, 0, {f'{event["folder"]}: {name}: {key}': each for key, each in outputs.items()})
        record.not_called += [(event['folder'], name, reason) for name, reason in event['not_called'].items()]
    elif kind == 'skipped':
        record.skipped += 1


def _join_examples(record) -> None:
    """Makes one array of the predictions of a call: an example alone may be near zero, and so all rounding."""
    together: dict[Key, list[Value]] = {}
    for key in record.keys(PREDICTIONS):
        together.setdefault(key._replace(step=0), []).append(record.values.pop(key))
    for key, members in together.items():
        numbers = [each.numbers for each in members if each.numbers is not None]
        sampled = any(each.sampled for each in members) and len(numbers) == len(members)
        record.values[key] = Value(
            (len(members), *(members[0].shape if len({each.shape for each in members}) == 1 else (-1,))),
            ' '.join(each.digest for each in members),
            np.concatenate([each.reshape(-1) for each in numbers]) if len(numbers) == len(members) else None,
            max(map(_largest, members)) if sampled else None,
            math.hypot(*map(_norm, members)) if sampled else None,
            text=' '.join(each.text for each in members),
        )


def _largest(value: Value) -> float:
    return value.largest if value.sampled else float(np.max(np.abs(value.numbers), initial=0))


def _norm(value: Value) -> float:
    return value.norm if value.sampled else float(np.linalg.norm(value.numbers))


def _is_slot(name, trainable) -> bool:
    """Whether a variable holds what an optimizer keeps for a weight: its name contains the weight's."""
    return name not in trainable and any(f'/{each}/' in f'/{name}/' for each in trainable)


def _value(described: dict[str, Any], data: np.ndarray) -> Value:
    shape = tuple(described['shape'])
    if 'at' not in described:
        return Value(shape, described['digest'], text=described.get('text') or str(described.get('strings', ''))[:200])
    dtype = np.dtype(described['dtype'])
    end = described['at'] + described['taken'] * dtype.itemsize
    numbers = np.frombuffer(data[described['at'] : end], dtype)
    return Value(shape, described['digest'], numbers, *(described.get(name) for name in ('largest', 'norm', 'moved')))
