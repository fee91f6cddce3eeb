"""Where the time of the profiled steps went. Pure.

Each moment, from the beginning of the profile to the end of its last call of TensorFlow, counts once, as the first of
these that was going on in any thread:

    computing      an operation of the step ran
    communicating  an operation of the step waited for tensors of another task or device
    input          the step waited for its next batch
    overhead       a call of TensorFlow was under way, and nothing of the above
    Python         no call of TensorFlow was under way: hooks, callbacks, checkpoints, reports
"""

import collections
import dataclasses
import re
from collections.abc import Iterable, Iterator, Sequence

from estimator_trainer.monitoring.profiles import event_names
from estimator_trainer.monitoring.profiles.trace import TraceEvent, TraceLine

COMPUTING, COMMUNICATING, INPUT, OVERHEAD, PYTHON = 'computing', 'communicating', 'input', 'overhead', 'Python'
KINDS = (COMPUTING, COMMUNICATING, INPUT, OVERHEAD, PYTHON)
_SAID = {
    COMPUTING: 'computing',
    COMMUNICATING: 'waiting for other tasks or devices',
    INPUT: 'waiting for input',
    OVERHEAD: "TensorFlow's own work in its calls",
    PYTHON: 'Python between the calls',
}
_TOP = 3  # operations that are named

_OPERATION = re.compile(r'[^:\s][^:]*:_?[A-Z]\w*$')  # name and type, such as dense/MatMul:MatMul
_COMMUNICATES = re.compile(r'_?(Host)?(Send|Recv)$|_?Collective\w+$')  # types
_GETS_INPUT = re.compile(r'IteratorGetNext(Sync|AsOptional)?$')  # others fetch in the background
_GETTING_INPUT = re.compile(r'IteratorGetNext\w*Op::DoCompute$')  # in an eager loop there is no operation around it
_INPUT_THREAD = 'tf_data_'
_CAPTURED = 'InstantiatedCapturedFunction::'  # runs a function of the job's data set; `id` is that of its executor
_EXECUTOR = 'ExecutorState::Process'
_START, _DONE = 'ExecutorState::ProcessAsync::Start', 'ExecutorState::ProcessAsync::Done'
# What TensorFlow puts before the name of an operation in a loop or a condition.
_CONTROL_FLOW = re.compile(r'(^|(?<=/))(training_steps/body/_\d+/step|(while|cond|case)(_\d+)?|body|then|else|_\d+)/')

_NOTHING = 'no step of the training ended in the profile'

Interval = tuple[int, int]


class NoSteps(ValueError):
    """No step of the training ended in the profile."""


@dataclasses.dataclass(frozen=True)
class Shares:
    """Times are in seconds.

    Attributes:
        steps: number of steps.
        secs: from the beginning of the profile to the end of its last call.
        of_kind: {kind: the part of `secs` that it took}; they add up to 1.
        threads: how many threads ran operations of the steps while any did, on average.
        top: (operation, its type, its part of the time that these threads took), the longest first.
    """

    steps: int
    secs: float
    of_kind: dict[str, float]
    threads: float
    top: tuple[tuple[str, str, float], ...]


def of(lines: Sequence[TraceLine]) -> Shares:
    """Adds up the times of a profile.

    Raises:
        NoSteps: no step ended in it.
    """
    calls = [event for line in lines for event in line.events if event.name == event_names.CALL]
    calls = [call for call in calls if event_names.LAST in call.stats]
    if not calls:
        raise NoSteps(_NOTHING)
    began = [event.start for line in lines for event in line.events if event.name == event_names.BEGIN]
    window = min([*began, *(call.start for call in calls)]), max(call.end for call in calls)
    steps = sum(int(call.stats[event_names.LAST]) - int(call.stats[event_names.FIRST]) + 1 for call in calls)
    length = window[1] - window[0]
    if steps < 1 or length < 1:
        raise NoSteps(_NOTHING)
    times = _times(lines, window)
    intervals = {kind: times[kind].intervals for kind in times}
    intervals |= {OVERHEAD: [(call.start, call.end) for call in calls], PYTHON: [window]}
    parts: dict[str, float] = {}
    covered: list[Interval] = []
    for kind in KINDS:
        before = _length(covered)
        covered = _union([*covered, *_within(intervals[kind], window)])
        parts[kind] = (_length(covered) - before) / length
    computing = times[COMPUTING]
    busy, total = _length(_union(computing.intervals)), sum(computing.of_name.values())
    top = tuple((*_split(name), time / total) for name, time in computing.of_name.most_common(_TOP))
    return Shares(steps, length / 1e12, parts, total / busy if busy else 0.0, top)


def describe(shares: Shares) -> list[str]:
    """Two lines."""
    parts = ', '.join(f'{shares.of_kind[kind]:.0%} {_SAID[kind]}' for kind in KINDS)
    first = f'{1000 * shares.secs / shares.steps:.3g} ms a step: {parts}'
    if not shares.top:
        return [first, 'no operation took long enough to be recorded']
    longest = ', '.join(f'{part:.0%} {name} ({kind})' for name, kind, part in shares.top)
    return [first, f'computing, on {shares.threads:.2g} threads on average: {longest}']


class _Times:
    """Attributes: intervals; of_name: {name: their length}."""

    def __init__(self) -> None:
        self.intervals: list[Interval] = []
        self.of_name: collections.Counter = collections.Counter()

    def add(self, name: str, intervals: Iterable[Interval], window: Interval) -> None:
        inside = _within(intervals, window)
        self.intervals += inside
        self.of_name[name] += _length(inside)


def _times(lines: Sequence[TraceLine], window: Interval) -> dict[str, _Times]:
    """Of the three kinds that single events tell of."""
    times = {kind: _Times() for kind in (COMPUTING, COMMUNICATING, INPUT)}
    captured = {event.stats.get('id') for line in lines for event in line.events if event.name.startswith(_CAPTURED)}
    for line in lines:
        for event, alone, of_input in _operations(line, captured):
            if not of_input:
                name = str(event.stats.get('tf_op') or event.name)  # a kernel of a GPU names the operation
                times[_kind_of(_split(name)[1]) or COMPUTING].add(name, alone, window)
        for event in line.events:
            if event.name == event_names.ADD_UP:
                times[COMMUNICATING].add(event.name, [(event.start, event.end)], window)
            elif _GETTING_INPUT.match(event.name):
                times[INPUT].add(event.name, [(event.start, event.end)], window)
    for name, type_, interval in _waits(lines):
        kind = _kind_of(type_)
        if kind:
            times[kind].add(name, [interval], window)
    return times


def _kind_of(type_: str) -> str | None:
    """What a type of operation waits for, if it does."""
    return COMMUNICATING if _COMMUNICATES.match(type_) else INPUT if _GETS_INPUT.match(type_) else None


def _operations(line: TraceLine, captured: set) -> Iterator[tuple[TraceEvent, list[Interval], bool]]:
    """(operation, when it and nothing that it called ran, whether it prepares the input) of a thread."""
    open_: list[tuple[TraceEvent, list[Interval], bool]] = []  # the events around the next one; what they called

    def closed(until: int) -> Iterator[tuple[TraceEvent, list[Interval], bool]]:
        while open_ and open_[-1][0].end <= until:
            event, called, of_input = open_.pop()
            if line.on_device or _OPERATION.match(event.name):
                yield event, _without((event.start, event.end), called), of_input

    for event in line.events:
        yield from closed(event.start)
        of_input = line.name.startswith(_INPUT_THREAD) or bool(open_ and open_[-1][2])
        if event.name == _EXECUTOR:
            of_input = event.stats.get('id') in captured
        if open_ and (_OPERATION.match(event.name) or event.name == event_names.ADD_UP):
            for _, called, _ in open_:
                called.append((event.start, event.end))
        open_.append((event, [], of_input))
    yield from closed(max((event.end for event in line.events), default=0))


def _waits(lines: Sequence[TraceLine]) -> Iterator[tuple[str, str, Interval]]:
    """(name, type, from its start until it was done) of each asynchronous operation.

    In a loop the same operation runs again and again under one number: its first start belongs to its first end.
    """
    starts, ends = collections.defaultdict(list), collections.defaultdict(list)
    for line in lines:
        for event in line.events:
            if event.name in (_START, _DONE):
                key = event.stats.get('name', ''), event.stats.get('kernel_type', ''), event.stats.get('step_id')
                if event.name == _START:
                    starts[key].append(event.start)
                else:
                    ends[key].append(event.start)
    for key, began in starts.items():
        done = collections.deque(sorted(ends[key]))
        for start in sorted(began):
            while done and done[0] < start:
                done.popleft()
            if done:
                yield key[0], key[1], (start, done.popleft())


def _split(label: str) -> tuple[str, str]:
    """Name and type of an operation, for people."""
    name, _, kind = label.rpartition(':')
    return _CONTROL_FLOW.sub('', name or kind), kind


def _within(intervals: Iterable[Interval], window: Interval) -> list[Interval]:
    cut = ((max(start, window[0]), min(end, window[1])) for start, end in intervals)
    return [(start, end) for start, end in cut if start < end]


def _union(intervals: Iterable[Interval]) -> list[Interval]:
    joined: list[Interval] = []
    for start, end in sorted(intervals):
        if joined and start <= joined[-1][1]:
            joined[-1] = joined[-1][0], max(joined[-1][1], end)
        else:
            joined.append((start, end))
    return joined


def _without(interval: Interval, others: Iterable[Interval]) -> list[Interval]:
    left, end = interval
    rest = []
    for other_start, other_end in _union(others):
        if left < other_start:
            rest.append((left, other_start))
        left = max(left, other_end)
    return [*rest, (left, end)] if left < end else rest


def _length(intervals: Iterable[Interval]) -> int:
    return sum(end - start for start, end in intervals)
