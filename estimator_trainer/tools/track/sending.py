"""Sends what a model_dir has and a tracker has not."""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator

from estimator_trainer.monitoring.trackers import Target
from estimator_trainer.run_dir import file_names
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.tools.track import tracker, unsent
from estimator_trainer.tools.track import tracking_state as states
from estimator_trainer.tools.track.tracker import EntryDeleted, TrackerRefused, TrackerUnavailable

_CALL_SECS = 120  # for what a tracker does at once, if its library has no bound of its own
_EXPORT_SECS = 3600


class TrackerSender:
    """Sends one run to one tracker.

    Args:
        file: of what was sent; held by this process.
        say: is given a line about what was begun, and what the tracker refuses.
        make: Target -> Tracker.
        address: how the entry names the model_dir, if that is a copy; '' for its path.
    """

    def __init__(
        self,
        model_dir: str,
        target: Target,
        file: states.StateFile,
        say: Callable[[str], None],
        make: Callable[[Target], tracker.Tracker] = tracker.make,
        address: str = '',
    ):
        self._folder, self._target, self._file, self._make = model_dir, target, file, make
        self._address, self._say = address, say
        self._tracker: tracker.Tracker | None = None
        self._state = states.new()
        self._refused: set[str] = set()

    def send(self, status: str | None, at: float) -> None:
        """Sends what is new.

        Args:
            status: of the run, if this is the end of the session; None: `send` will be called again.
            at: when the run ended or will have been seen last, seconds since the epoch.

        Raises:
            TrackerUnavailable: the tracker does not answer, or not as it should. What it has not confirmed is sent
                again.
            OSError: the model_dir cannot be read or written.
        """
        try:
            self._send(status, at)
        except EntryDeleted as error:
            self._tracker = None
            raise TrackerUnavailable(
                'the entry of the run was deleted there'
            ) from error  # the next try makes a new one
        except BaseException:
            self._tracker = None  # the next try begins where the state file says
            raise

    def _send(self, status: str | None, at: float) -> None:
        if not os.path.exists(os.path.join(self._folder, file_names.CONFIG)):
            return  # the run has not come so far
        if self._tracker is None:
            self._begin()
        for path, kind in unsent.KINDS.items():
            sent = self._state.files.setdefault(path, states.FileProgress())
            for lines in unsent.blocks(os.path.join(self._folder, path), kind, sent):
                self._send_lines(lines)
            if status is not None:
                self._send_lines(unsent.waiting(sent))
        failed = self._send_exports()
        if status is not None:
            with _bounded(_CALL_SECS):
                self._tracker.end(status, at)
            self._tracker = None
            self._file.write(self._state)
        if failed:
            raise failed

    def _begin(self) -> None:
        self._state = self._file.read()
        if any(unsent.is_another(os.path.join(self._folder, name), sent) for name, sent in self._state.files.items()):
            self._state = states.new()
        if not self._state.entry:
            self._file.write(self._state)  # its key, before the tracker gets it
        with _bounded(_CALL_SECS):
            made = self._make(self._target)
            before = self._state.entry
            try:
                self._state.entry = made.begin(self._run(), before)
            except EntryDeleted:
                self._say(f'{self._target}: the entry of the run was deleted there; a new one begins')
                self._state, before = states.new(), ''
                try:
                    self._state.entry = made.begin(self._run(), '')
                except EntryDeleted as error:
                    raise TrackerUnavailable('it has no place for the run') from error
        if not before:
            self._file.write(self._state)
            self._say(f'{self._target}: the run is there as {self._state.entry}')
        self._tracker = made

    def _run(self) -> tracker.TrackedRun:
        run = RunFolder(self._folder)
        tags = unsent.tags(run, self._address)
        parent, name = os.path.split(tags['model_dir'].rstrip('/'))
        return tracker.TrackedRun(
            key=self._state.key,
            name=name or 'run',
            group=os.path.basename(parent) or 'runs',
            began=self._state.began,
            folder=self._folder,
            address=tags['model_dir'],
            scratch=os.path.join(self._folder, states.FOLDER),
            params=unsent.params(run),
            tags=tags,
        )

    def _send_lines(self, lines: list[tracker.MetricsLine]) -> None:
        if lines:
            with _bounded(_CALL_SECS), self._may_refuse('lines of metrics'):
                self._tracker.lines(lines)
        self._confirm()

    def _send_exports(self) -> TrackerUnavailable | None:
        """Exports are many bytes, and may need a package or a right that metrics do not: the rest goes on without."""
        there = [export.path for export in RunFolder(self._folder).exports if export.is_whole]
        self._state.exports = [name for name in self._state.exports if name in there]
        for name in there:
            if name in self._state.exports:
                continue
            folder = os.path.join(self._folder, name)
            try:
                with _bounded(_EXPORT_SECS), self._may_refuse(name):
                    self._tracker.export(folder, name)
            except (TrackerUnavailable, OSError) as error:
                if os.path.isdir(folder):  # else a better one has taken its place
                    return TrackerUnavailable(f'{name}: {tracker.words_of(error)}')
            else:
                self._state.exports.append(name)
                self._confirm()
        return None

    def _confirm(self) -> None:
        if self._tracker.confirms:
            self._file.write(self._state)

    @contextlib.contextmanager
    def _may_refuse(self, what: str) -> Iterator[None]:
        try:
            yield
        except TrackerRefused as error:
            if str(error) not in self._refused:
                self._refused.add(str(error))
                self._say(f'WARNING: {self._target}: {what}: the tracker refuses them: {error}; the rest is sent')


@contextlib.contextmanager
def _bounded(secs: float) -> Iterator[None]:
    """Raises TrackerUnavailable in the block when the time is over. Main thread only."""

    def over(signum, frame):
        raise TrackerUnavailable(f'no answer within {secs:g} s')

    handler, timer = signal.signal(signal.SIGALRM, over), signal.setitimer(signal.ITIMER_REAL, secs)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, *timer)


def ended_at(model_dir: str, now: float) -> float:
    """When a run that has ended did so, as far as its files say."""
    run = RunFolder(model_dir)
    times = (run.report.get('ended'), run.training.get('time'))
    return next((value for value in times if type(value) in (int, float)), now)
