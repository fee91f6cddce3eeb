"""`python -m estimator_trainer.tools.track.background PID MODEL_DIR TRACKER`: what the process PID starts beside a run.

It is told on stdin: `follow` when the run begins, and the exit code of the run when that has ended. It writes lines for
the log of the run to stdout. It ends with 0 if everything was sent.
"""

import contextlib
import functools
import multiprocessing.connection
import os
import sys
import time
from collections.abc import Callable
from typing import IO

from estimator_trainer import exit_codes
from estimator_trainer.monitoring import senders, trackers
from estimator_trainer.run_dir import file_names
from estimator_trainer.this_process import parent_process
from estimator_trainer.tools.track import adapters, sending
from estimator_trainer.tools.track.adapters import FAILED, FINISHED, KILLED, TrackerUnavailable

_FIRST_SECS, _EVERY_SECS = 3, 15  # from the begin of a run to the first look at its files, and between two
_AGAIN_SECS, _LONGEST_SECS = 5, 300  # between two tries of a tracker that does not answer
_SAY_AGAIN_SECS, _SAY_AGAIN_TIMES = 60, 10  # when an outage is told again: so much longer than at the last word


def pause(tries: int) -> float:
    """Seconds until a tracker is tried again that did not answer at the last `tries` tries."""
    return min(_LONGEST_SECS, _AGAIN_SECS * 2 ** min(tries - 1, 10))


def order(stdin: IO[bytes], secs: float | None) -> str | None:
    """The next line of a file without a buffer; lines come whole. None: there is none within the time. '': there will
    be none."""
    return stdin.readline().decode().strip() if multiprocessing.connection.wait([stdin], secs) else None


def follow(
    sender: sending.TrackerSender,
    wait: Callable[[float], str | None],
    has_begun: Callable[[], bool],
    clock: Callable[[], float] = time.monotonic,
) -> int:
    """Sends until the run has ended. The exit code of this process.

    Args:
        wait: seconds -> the exit code of the run when that has ended, as `order` gives it.
        has_begun: whether the files of the model_dir tell of this start of the run.
    """
    secs, tries, began, told_at = _FIRST_SECS, 0, 0.0, 0.0
    while True:
        code = wait(secs)
        if code == '':
            return exit_codes.FAILED  # the run was killed
        if code is None and not has_begun():
            continue
        try:
            sender.send(None if code is None else status_of(int(code)), time.time())
        except (TrackerUnavailable, OSError) as error:
            now = clock()
            began, tries = began if tries else now, tries + 1
            if tries == 1 or now >= told_at:
                sender.say(f'WARNING: {sender.target}: {error}; it is tried again, and the run is not affected')
                told_at = began + max(_SAY_AGAIN_SECS, _SAY_AGAIN_TIMES * (now - began))
            secs = pause(tries)
        else:
            if tries:
                sender.say(f'{sender.target}: it answers again')
            tries, secs = 0, _EVERY_SECS
        if code is not None:
            return exit_codes.FAILED if tries else exit_codes.OK


def status_of(code: int) -> str:
    """How a run is that has ended with this exit code."""
    return FINISHED if code == exit_codes.OK else KILLED if exit_codes.was_stopped(code) else FAILED


def main(argv: list[str]) -> int:
    parent, model_dir, text = argv
    parent_process.tie_to_parent(int(parent))
    os.nice(10)  # the steps come first; with less priority it would not be ready at the end of a short run
    stdout, sys.stdout = sys.stdout, sys.stderr  # what a library prints is not for the log of the run
    say = functools.partial(print, file=stdout, flush=True)
    wait, target = functools.partial(order, open(0, 'rb', buffering=0)), trackers.parse(text)
    config = os.path.join(model_dir, file_names.CONFIG)
    before = _version(config)  # the chief writes it anew in each start
    with contextlib.suppress(TrackerUnavailable):  # what fails here fails again when it is needed
        adapters.imported(target)  # while the run starts, so that a short run need not wait for it
    if wait(None) != senders.FOLLOW:
        return exit_codes.OK
    try:
        with sending.sender(model_dir, target, say) as sender:
            return follow(sender, wait, lambda: _version(config) != before)
    except sending.AlreadyTracked as taken:
        say(f'WARNING: {target}: {taken}')
    except OSError as error:
        say(f'WARNING: {target}: {error.filename}: {error.strerror}')
    return exit_codes.FAILED


def _version(path: str) -> tuple[int, int] | None:
    """Another value whenever another file was renamed to `path`. None: there is none."""
    with contextlib.suppress(OSError):
        status = os.stat(path)
        return status.st_ino, status.st_mtime_ns
    return None


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
