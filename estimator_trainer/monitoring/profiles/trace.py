"""Reads the events of a profile, and writes them as a trace that Perfetto and Chrome open."""

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from estimator_trainer.run_dir import files
from estimator_trainer.run_dir.protos import DOUBLE, INT64, MANY, ONE, STRING, UINT64, classes

_NOISE = 'ThreadpoolListener::'  # three events without a length for each piece of work of a thread pool
_MESSAGES = classes(  # as tsl/profiler/protobuf/xplane.proto describes them
    'estimator_trainer.xplane',
    {
        'XSpace': [('planes', 1, 'XPlane', MANY)],
        'XPlane': [
            ('name', 2, STRING, ONE),
            ('lines', 3, 'XLine', MANY),
            ('event_metadata', 4, 'EventMetadataEntry', MANY),  # a map
            ('stat_metadata', 5, 'StatMetadataEntry', MANY),
        ],
        'EventMetadataEntry': [('key', 1, INT64, ONE), ('value', 2, 'Metadata', ONE)],
        'StatMetadataEntry': [('key', 1, INT64, ONE), ('value', 2, 'Metadata', ONE)],
        'Metadata': [('name', 2, STRING, ONE)],
        'XLine': [('name', 2, STRING, ONE), ('timestamp_ns', 3, INT64, ONE), ('events', 4, 'XEvent', MANY)],
        'XEvent': [
            ('metadata_id', 1, INT64, ONE),
            ('offset_ps', 2, INT64, ONE),
            ('duration_ps', 3, INT64, ONE),
            ('stats', 4, 'XStat', MANY),
        ],
        'XStat': [
            ('metadata_id', 1, INT64, ONE),
            ('double_value', 2, DOUBLE, ONE),
            ('uint64_value', 3, UINT64, ONE),
            ('int64_value', 4, INT64, ONE),
            ('str_value', 5, STRING, ONE),
            ('ref_value', 7, UINT64, ONE),  # the number of a stat_metadata whose name is the value
        ],
    },
)
XSpace = _MESSAGES['XSpace']


class TraceEvent(NamedTuple):
    """Something that a thread did. Times are in picoseconds since the profile began."""

    name: str
    start: int
    length: int
    stats: dict  # numbers and texts

    @property
    def end(self) -> int:
        return self.start + self.length


class TraceLine(NamedTuple):
    """A thread, or a stream of a GPU, with its events in the order in which they began; an outer one comes first."""

    name: str
    on_device: bool  # a stream of a GPU
    events: list[TraceEvent]


def lines(data: bytes) -> list[TraceLine]:
    """The threads of a profile.

    Args:
        data: of an .xplane.pb file.

    Raises:
        google.protobuf.message.DecodeError: it is none, or is cut short.
    """
    trace_lines = []
    for plane in XSpace.FromString(data).planes:
        names = {entry.key: entry.value.name for entry in plane.event_metadata}
        texts = {entry.key: entry.value.name for entry in plane.stat_metadata}
        for line in plane.lines:
            began = line.timestamp_ns * 1000
            events = [
                TraceEvent(
                    names.get(event.metadata_id, ''),
                    began + event.offset_ps,
                    event.duration_ps,
                    {texts.get(stat.metadata_id, ''): _value(stat, texts) for stat in event.stats},
                )
                for event in line.events
            ]
            events = [event for event in events if not event.name.startswith(_NOISE)]
            if events:
                trace_lines.append(TraceLine(line.name, plane.name.startswith('/device:'), _nested(events)))
    return trace_lines


def _nested(events: list[TraceEvent]) -> list[TraceEvent]:
    """In the order of a TraceLine. Of two events that overlap, the first ends where the second begins: TensorFlow's
    executor says that it goes on a little before it says that it has stopped."""
    events.sort(key=lambda event: (event.start, -event.length))
    open_: list[int] = []
    for number, event in enumerate(events):
        while open_ and events[open_[-1]].end < event.end:
            last = open_.pop()
            if events[last].end > event.start:
                events[last] = events[last]._replace(length=event.start - events[last].start)
        open_.append(number)
    return events


def _value(stat: Any, texts: Mapping[int, str]) -> Any:
    for field in ('str_value', 'int64_value', 'uint64_value', 'double_value'):
        if stat.HasField(field):
            return getattr(stat, field)
    return texts.get(stat.ref_value, '') if stat.HasField('ref_value') else 0


def write(path: str, threads: list[TraceLine]) -> None:
    """Writes `threads` in the Trace Event Format, compressed by gzip.

    Raises:
        OSError: it cannot be written.
    """
    with files.replacing(path, f'{path}.tmp') as temporary:
        with files.create(temporary, 'wb') as raw, gzip.open(raw, 'wt', encoding='utf-8') as file:
            before = '{"displayTimeUnit": "ms", "traceEvents": ['
            for event in _in_format(threads):
                file.write(f'{before}\n{json.dumps(event)}')
                before = ','
            file.write('\n]}\n')


def _in_format(threads: Iterable[TraceLine]) -> Iterator[dict[str, Any]]:
    for number, line in enumerate(threads, 1):
        where = {'pid': 1, 'tid': number}
        yield {'ph': 'M', **where, 'name': 'thread_name', 'args': {'name': line.name}}
        for event in line.events:
            times = {'ts': event.start / 1e6, 'dur': event.length / 1e6}  # microseconds
            stats = {name: value for name, value in event.stats.items() if name and not name.startswith('_')}
            yield {'ph': 'X', **where, 'name': event.name, **times, 'args': stats}
