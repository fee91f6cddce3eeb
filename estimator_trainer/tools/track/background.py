"""`python -m estimator_trainer.tools.track.background PID MODEL_DIR TRACKER`: what the process PID starts beside a run.

It is told on stdin: `follow` when the run begins, and the exit code of the run when that has ended. It writes lines for
the log of the run to stdout. It ends with 0 if everything was sent.
"""

import contextlib
import dataclasses
import multiprocessing.connection
import os
import sys
import time
from collections.abc import Callable

from estimator_trainer import exit_codes
from estimator_trainer.monitoring import senders, trackers
from estimator_trainer.run_dir import file_names
from estimator_trainer.this_process import parent_process
from estimator_trainer.tools.track import sending, tracker, tracking_state
from estimator_trainer.tools.track.tracker import FAILED, FINISHED, KILLED, TrackerUnavailable

_FIRST_SECS, _EVERY_SECS = 3, 15  # from the begin of a run to the first look at its files, and between two
_AGAIN_SECS, _LONGEST_SECS = 5, 300  # between two tries of a tracker that does not answer
_SAY_AGAIN_TIMES = 10  # as long as it had lasted at the last word, and at least:
_SAY_AGAIN_SECS = 60


@dataclasses.dataclass
class Outage:
    """When to try a tracker again that does not answer, and when to say so. Pure: it is given the time."""

    _since: float | None = None
    _tries: int = 0
    _say_at: float = 0.0

    def failed(self, now: float) -> bool:
        """A try has failed. Whether to say so: at once, and whenever the outage has lasted ten times longer."""
        if self._since is None:
            self._since, self._tries, self._say_at = now, 0, now
        self._tries += 1
        if now < self._say_at:
            return False
        self._say_at = self._since + max(_SAY_AGAIN_SECS, _SAY_AGAIN_TIMES * (now - self._since))
        return True

    def over(self, now: float) -> float | None:
        """A try has succeeded. For how many seconds none had; None if the one before had, too."""
        since, self._since = self._since, None
        return None if since is None else now - since

    @property
    def pause(self) -> float:
        """Seconds until the next try."""
        return min(_LONGEST_SECS, _AGAIN_SECS * 2 ** min(self._tries - 1, 10))


class Orders:
    """Lines from a descriptor."""

    def __init__(self, descriptor: int = 0):
        self._descriptor, self._rest = descriptor, b''

    def wait(self, secs: float | None) -> str | None:
        """The next line. None: there is none within the time. '': there will be none."""
        while b'\n' not in self._rest:
            if not multiprocessing.connection.wait([self._descriptor], secs):
                return None
            data = os.read(self._descriptor, 1 << 10)
            if not data:
                return ''
            self._rest += data
        line, _, self._rest = self._rest.partition(b'\n')
        return line.decode()


def follow(
    sender: sending.TrackerSender,
    target: trackers.Target,
    orders: Orders,
    has_begun: Callable[[], bool],
    say: Callable[[str], None],
    first_secs: float = _FIRST_SECS,
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Sends until the run has ended. The exit code of this process.

    Args:
        has_begun: whether the files of the model_dir tell of this start of the run.
    """
    outage, pause = Outage(), first_secs
    while True:
        order = orders.wait(pause)
        if order == '':
            return exit_codes.FAILED  # the run was killed
        if order is None and not has_begun():
            continue
        status = None if order is None else status_of(int(order))
        try:
            sender.send(status, time.time())
        except (TrackerUnavailable, OSError) as error:
            if outage.failed(clock()):
                say(f'WARNING: {target}: {error}; it is tried again, and the run is not affected')
            pause = outage.pause
        else:
            if outage.over(clock()) is not None:
                say(f'{target}: it answers again')
            pause = _EVERY_SECS
            if order is not None:
                return exit_codes.OK
        if order is not None:
            return exit_codes.FAILED


def status_of(code: int) -> str:
    """How a run is that has ended with this exit code."""
    return FINISHED if code == exit_codes.OK else KILLED if exit_codes.was_stopped(code) else FAILED


def main(argv: list[str]) -> int:
    parent, model_dir, text = argv
    parent_process.tie_to_parent(int(parent))
    os.nice(10)  # the steps come first; with less priority it would not be ready at the end of a short run
    stdout, sys.stdout = sys.stdout, sys.stderr  # what a library prints is not for the log of the run
    say = lambda line: print(line, file=stdout, flush=True)  # noqa: E731
    orders, target = Orders(), trackers.parse(text)
    config = os.path.join(model_dir, file_names.CONFIG)
    before = _version(config)  # the chief writes it anew in each start
    with contextlib.suppress(TrackerUnavailable):  # what fails here fails again when it is needed
        tracker.imported(target)  # while the run starts, so that a short run need not wait for it
    if orders.wait(None) != senders.FOLLOW:
        return exit_codes.OK
    try:
        with tracking_state.hold(model_dir, target) as file:
            sender = sending.TrackerSender(model_dir, target, file, say)
            return follow(sender, target, orders, lambda: _version(config) != before, say)
    except tracking_state.AlreadyTracked as taken:
        say(f'WARNING: {target}: {taken}')
    except OSError as error:
        say(f'WARNING: {target}: {error.filename}: {error.strerror}')
    return exit_codes.FAILED


def _version(path: str) -> tuple[int, int] | None:
    """Another value whenever another file was renamed to `path`. None: there is none."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
