"""Sends what a model_dir has and a tracker has not. What was sent is in track/<tracker>.json of the model_dir."""

import contextlib
import dataclasses
import os
import time
import uuid
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from estimator_trainer.monitoring.trackers import Target
from estimator_trainer.run_dir import file_names, locks, metrics_log, protocol
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools.track import adapters
from estimator_trainer.tools.track.adapters import (
    EntryDeleted,
    ExportFailed,
    MetricsLine,
    TrackerRefused,
    TrackerUnavailable,
    bounded,
)

CALL_SECS = 120  # for what a tracker does at once, if its library has no bound of its own
_EXPORT_SECS = 3600
_KINDS = {file_names.METRICS: 'train', file_names.EVALUATIONS: 'eval'}  # what their metrics are called: train/loss
_ALL_OF = 2000  # lines of a file that are all sent


class AlreadyTracked(Exception):
    """Another process sends to this tracker. The message names it."""


@dataclasses.dataclass
class FileProgress:
    """How far a file of metrics was sent.

    Attributes:
        position: bytes that were read.
        head: a checksum of the first line, by which another file is noticed.
        lines: how many were read, and the number of the last one that was sent; both count from 1.
    """

    position: int = 0
    head: int | None = None
    lines: int = 0
    last: int = 0


@dataclasses.dataclass
class Progress:
    """What a tracker has of a run.

    Attributes:
        key: of the run, made before the tracker is asked for an entry: an entry whose making was interrupted is found
            again by it.
        began: when the run was first looked at, seconds since the epoch.
        entry: the tracker's id of the run; '' before there is one.
        files: path in the model_dir -> how far it was sent.
        exports: paths in the model_dir of those that were sent.
    """

    key: str = dataclasses.field(default_factory=lambda: uuid.uuid4().hex)
    began: float = dataclasses.field(default_factory=lambda: round(time.time(), 3))
    entry: str = ''
    files: dict[str, FileProgress] = dataclasses.field(default_factory=dict)
    exports: list[str] = dataclasses.field(default_factory=list)

    @classmethod
    def read(cls, path: str) -> 'Progress':
        """What the file says; nothing was sent where it is not there, or not ours."""
        value = protocol.read_json(path)
        try:
            fields = [field.name for field in dataclasses.fields(FileProgress)]
            files = {name: FileProgress(*(sent[each] for each in fields)) for name, sent in value['files'].items()}
            return cls(value['key'], value['began'], value['entry'], files, list(value['exports']))
        except (KeyError, TypeError, AttributeError):
            return cls()


@contextlib.contextmanager
def sender(model_dir: str, target: Target, say: Callable[[str], None], **more: Any) -> Iterator['TrackerSender']:
    """A TrackerSender. One process at a time has that of a tracker.

    Raises:
        AlreadyTracked: another process has it.
        OSError: the model_dir cannot be written.
    """
    made = TrackerSender(model_dir, target, say, **more)
    os.makedirs(os.path.dirname(made.path), exist_ok=True)
    with locks.Lock(os.path.join(os.path.dirname(made.path), f'.{target.file_name}.lock')) as lock:
        if not lock.take():
            raise AlreadyTracked(f'{lock.holder()} sends there already; wait for it')
        protocol.remove_unfinished(made.path)
        yield made


class TrackerSender:
    """Sends one run to one tracker.

    Args:
        say: is given a line about what was begun, and what the tracker refuses.
        make: Target -> Tracker.
        address: how the entry names the model_dir, if that is a copy; '' for its path.
        written: called when what was sent has been written down.
    """

    def __init__(
        self,
        model_dir: str,
        target: Target,
        say: Callable[[str], None],
        make: Callable[[Target], adapters.Tracker] = adapters.make,
        address: str = '',
        written: Callable[[], None] = lambda: None,
    ):
        self.target, self.say = target, say
        self.path = os.path.join(model_dir, adapters.FOLDER, f'{target.file_name}.json')
        self._folder, self._make, self._address, self._written = model_dir, make, address, written
        self._tracker: adapters.Tracker | None = None
        self._sent = Progress()
        self._refused: set[str] = set()

    def send(self, status: str | None, at: float) -> None:
        """Sends what is new.

        Args:
            status: of the run, if this is the end of the session; None: `send` will be called again.
            at: when the run ended or will have been seen last, seconds since the epoch.

        Raises:
            TrackerUnavailable: the tracker does not answer, or not as it should. What it has not confirmed is sent
                again; after an ExportFailed that is the export alone.
            OSError: the model_dir cannot be read or written.
        """
        try:
            try:
                self._send(status, at)
            except EntryDeleted:
                self.say(f'{self.target}: the entry of the run was deleted there; a new one begins')
                self._tracker, self._sent = None, Progress()
                self._write()
                self._send(status, at)
        except EntryDeleted as error:
            self._tracker = None
            raise TrackerUnavailable('it has no place for the run') from error
        except ExportFailed:
            raise
        except BaseException:
            self._tracker = None  # the next try begins where the file says
            raise

    def _send(self, status: str | None, at: float) -> None:
        if not os.path.exists(os.path.join(self._folder, file_names.CONFIG)):
            return  # the run has not come so far
        tracker = self._tracker = self._tracker or self._begun()
        for name, kind in _KINDS.items():
            path, sent = os.path.join(self._folder, name), self._sent.files.setdefault(name, FileProgress())
            for lines in blocks(path, kind, sent):
                self._send_lines(tracker, lines)
            if status is not None:
                self._send_lines(tracker, last_line(path, kind, sent))
        failed = self._send_exports(tracker)
        if status is not None:
            with bounded(CALL_SECS):
                tracker.end(status, at)
            self._tracker = None
            self._write()
        if failed:
            raise failed

    def _begun(self) -> adapters.Tracker:
        self._sent = Progress.read(self.path)
        others = [name for name, sent in self._sent.files.items() if is_another(os.path.join(self._folder, name), sent)]
        if file_names.METRICS in others:  # the run was begun anew
            self._sent = Progress()
        for name in others:  # only the evaluations were
            self._sent.files.pop(name, None)
        if not self._sent.entry:
            self._write()  # its key, before the tracker gets it
        run = adapters.described(self._folder, self._address, self._sent.key, self._sent.began)
        with bounded(CALL_SECS):
            tracker = self._make(self.target)
            entry = tracker.begin(run, self._sent.entry)
        if entry != self._sent.entry:
            self._sent.entry = entry
            self._write()
            self.say(f'{self.target}: the run is there as {entry}')
        return tracker

    def _send_lines(self, tracker: adapters.Tracker, lines: list[MetricsLine]) -> None:
        if lines:
            with bounded(CALL_SECS), self._may_refuse('lines of metrics'):
                tracker.lines(lines)
        if tracker.confirms:
            self._write()

    def _send_exports(self, tracker: adapters.Tracker) -> ExportFailed | None:
        """Exports are many bytes, and may need a package or a right that metrics do not: the rest goes on without."""
        there = [export.path for export in RunFolder(self._folder).exports if export.is_whole]
        self._sent.exports = [name for name in self._sent.exports if name in there]
        for name in there:
            if name in self._sent.exports:
                continue
            folder = os.path.join(self._folder, name)
            try:
                with bounded(_EXPORT_SECS), self._may_refuse(name):
                    tracker.export(folder, name)
            except (TrackerUnavailable, OSError) as error:
                if os.path.isdir(folder):  # else a better one has taken its place
                    return ExportFailed(f'{name}: {adapters.words_of(error)}')
            else:
                self._sent.exports.append(name)
                if tracker.confirms:
                    self._write()
        return None

    def _write(self) -> None:
        protocol.write_json(self.path, {'to': str(self.target), **dataclasses.asdict(self._sent)})
        self._written()

    @contextlib.contextmanager
    def _may_refuse(self, what: str) -> Iterator[None]:
        try:
            yield
        except TrackerRefused as error:
            if str(error) not in self._refused:
                self._refused.add(str(error))
                self.say(f'WARNING: {self.target}: {what}: the tracker refuses them: {error}; the rest is sent')


def is_another(path: str, sent: FileProgress) -> bool:
    """Whether the file is another one than `sent` describes, or is gone."""
    if not sent.position:
        return False
    try:
        with open(path, 'rb') as file:
            return zlib.crc32(file.readline()) != sent.head or os.fstat(file.fileno()).st_size < sent.position
    except FileNotFoundError:
        return True


def blocks(path: str, kind: str, sent: FileProgress) -> Iterator[list[MetricsLine]]:
    """The lines that are to be sent, in blocks. Between two blocks `sent` says how far they go.

    The first 2,000 lines are all sent; of the later ones so many that 5,000,000 lines become about 18,000. All
    evaluations are sent. A line that was cut short is left out.

    Raises:
        OSError: the file is there and cannot be read.
    """
    if not sent.position and os.path.exists(path):
        with open(path, 'rb') as file:
            sent.head = zlib.crc32(file.readline())
    for block in metrics_log.blocks(path, sent.position):
        if block.end == sent.position:
            return
        chosen = []
        for line in _lines(block.lines, kind):
            sent.lines += 1
            if kind == 'eval' or is_sent(sent.lines, sent.last):
                sent.last = sent.lines
                chosen.append(line)
        sent.position = block.end
        yield chosen


def is_sent(number: int, last: int) -> bool:
    """Whether to send line `number` of a file, if `last` was the last one that was sent. Pure."""
    return number - last >= number / _ALL_OF


def last_line(path: str, kind: str, sent: FileProgress) -> list[MetricsLine]:
    """The last line of a file, if it was left out so far. It counts as sent now."""
    left_out, sent.last = sent.last < sent.lines, sent.lines
    return list(_lines([metrics_log.last(path)], kind)) if left_out else []


def _lines(entries, kind: str) -> Iterator[MetricsLine]:
    for entry in entries:
        step, at = protocol.whole(entry.get('step')), protocol.real(entry.get('time'))
        if step is not None and at is not None:
            yield MetricsLine(
                kind, step, at, {f'{kind}/{name}': value for name, value in metrics_log.values_of(entry).items()}
            )
