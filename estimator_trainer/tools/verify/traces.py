"""What a run has recorded, read back: values by key. NumPy only."""

import json
import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from estimator_trainer.tools.verify import program_runs

INPUTS, LOSS, WEIGHTS, SLOTS = 'inputs', 'losses', 'weights', 'slots'
METRICS, PREDICTIONS, EXPORTS, ANSWERS = 'metrics', 'predictions', 'exports', 'exported answers'
THINGS = (INPUTS, LOSS, WEIGHTS, SLOTS, METRICS, PREDICTIONS, EXPORTS, ANSWERS)


class Key(NamedTuple):
    """What a value is: of which thing, Estimator and call; at which step or for which example; its name."""

    thing: str
    estimator: int
    call: int
    step: int
    name: str


class Value(NamedTuple):
    """An array, or some of its elements. `numbers` is None for strings and descriptions: only `digest` counts."""

    shape: tuple
    digest: str
    numbers: np.ndarray | None = None
    largest: float | None = None  # of an array of which `numbers` is a sample; so `norm`, `moved`
    norm: float | None = None
    moved: float | None = None
    text: str = ''

    @property
    def sampled(self) -> bool:
        return self.largest is not None


class Trace:
    """The values of a run in the order of their recording.

    Attributes:
        values: Key -> Value.
        trainable: names of the weights that an optimizer changes.
        labels: number of an Estimator -> its model_dir in the folder of the run.
        rows: (Estimator, call, step) -> digests of the examples of the batch.
        not_called: (folder, signature, reason) of exported models.
        skipped: calls of train beyond the last step.
        other_processes: how many processes used Estimators and were not recorded.
    """

    def __init__(self):
        self.values: dict[Key, Value] = {}
        self.trainable: set[str] = set()
        self.labels: dict[int, str] = {}
        self.rows: dict[tuple, Sequence[str]] = {}
        self.not_called: list[tuple] = []
        self.skipped = 0
        self.other_processes = 0

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


def read(folder: str) -> Trace:
    """The trace that a run has left in its folder."""
    found = Trace()
    data = np.memmap(os.path.join(folder, 'arrays.bin'), mode='r') if _size(folder, 'arrays.bin') else np.empty(0, 'u1')
    if _size(folder, program_runs.EVENTS):
        with open(os.path.join(folder, program_runs.EVENTS), encoding='utf-8') as file:
            for line in file:
                if line.endswith('\n'):  # else the process was killed as it wrote
                    _add(found, json.loads(line), data)
    _join_examples(found)
    if _size(folder, 'others'):
        with open(os.path.join(folder, 'others'), encoding='utf-8') as file:
            found.other_processes = len(set(file))
    return found


def _size(folder, name) -> int:
    try:
        return os.path.getsize(os.path.join(folder, name))
    except FileNotFoundError:
        return 0


def _add(trace, event, data) -> None:
    where = event['estimator'], event['call']
    trace.labels.setdefault(event['estimator'], event['model_dir'])

    def put(thing, step, values):
        for name, described in values.items():
            trace.values[Key(thing, *where, step, name)] = _value(described, data)

    kind = event['kind']
    if kind == 'step':
        put(INPUTS, event['step'], event['inputs'])
        put(LOSS, event['step'], {'loss': event['loss']})
        trace.rows[(*where, event['step'])] = event['rows']
    elif kind == 'weights':
        trace.trainable.update(event['trainable'])
        slots = {name for name in event['variables'] if _is_slot(name, trace.trainable)}
        put(WEIGHTS, event['step'], {name: each for name, each in event['variables'].items() if name not in slots})
        put(SLOTS, event['step'], {name: each for name, each in event['variables'].items() if name in slots})
    elif kind == 'first_batch':
        put(INPUTS, 0, {f'{event["of"]}: {name}': each for name, each in event['inputs'].items()})
    elif kind == 'evaluation':
        put(METRICS, 0, event['metrics'])
    elif kind == 'prediction':
        put(PREDICTIONS, event['example'], event['values'])
    elif kind == 'export':
        _add_export(trace, event, put)
    elif kind == 'skipped':
        trace.skipped += 1


def _join_examples(trace) -> None:
    """Makes one array of the predictions of a call: an example alone may be near zero, and so all rounding."""
    together: dict[Key, list[Value]] = {}
    for key in trace.keys(PREDICTIONS):
        together.setdefault(key._replace(step=0), []).append(trace.values.pop(key))
    for key, members in together.items():
        numbers = [each.numbers for each in members if each.numbers is not None and not each.sampled]
        trace.values[key] = Value(
            (len(members), *(members[0].shape if len({each.shape for each in members}) == 1 else (-1,))),
            ' '.join(each.digest for each in members),
            np.concatenate([each.reshape(-1) for each in numbers]) if len(numbers) == len(members) else None,
            text=' '.join(each.text for each in members),
        )


def _add_export(trace, event, put) -> None:
    for name, signature in event['signatures'].items():
        text = json.dumps(signature, sort_keys=True)
        put(EXPORTS, 0, {f'{event["folder"]}: {name}': {'shape': [], 'digest': text, 'text': text}})
    for name, outputs in event['answers'].items():
        put(ANSWERS, 0, {f'{event["folder"]}: {name}: {key}': each for key, each in outputs.items()})
    trace.not_called += [(event['folder'], name, reason) for name, reason in event['not_called'].items()]


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
    more = {name: described.get(name) for name in ('largest', 'norm', 'moved')}
    return Value(shape, described['digest'], numbers, **more)
