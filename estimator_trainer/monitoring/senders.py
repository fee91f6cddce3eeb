"""Processes of our own beside a run, which send it to its trackers: one for each value of --track.

A run starts them, tells them when it begins and how it ended, and gives them a bounded time to send the rest. They
read the files of the model_dir and nothing else, so that a tracker that is slow or away holds up no training step.
What they could not send is sent by the next start, or by the command `track`.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.monitoring import trackers

LAST_SECS = 10  # that a run waits at its end for all of its trackers
_STOPPED_SECS = 2  # the same, for a run that was told to stop: its time is short
_READ_SECS = 1  # for the last words of a process that has ended
_POLL_SECS = 0.05
_SENDER = (sys.executable, '-m', 'estimator_trainer.tools.track.background')
FOLLOW = 'follow'  # what a sender is told on its stdin: this, and later the exit code of the run


def of(values: Sequence[str], model_dir: str | None) -> 'Senders':
    """The senders of a run; none without a model_dir, or if --track is wrong: the trainer will say what is wrong."""
    try:
        targets = trackers.targets(values) if model_dir else ()
    except UsageError:
        targets = ()
    return Senders(targets, model_dir or '')


class Senders:
    """A context that starts the processes. They wait until `follow`, and end with the context or this process.

    They have the network of the moment at which they are started: a cluster enters one without trackers.

    Args:
        targets: one process for each.
        model_dir: of the run.
        last_secs: what `last` waits.
        sender: the command of a process; it gets the number of this process, the model_dir and the tracker.
    """

    def __init__(
        self,
        targets: Sequence[trackers.Target],
        model_dir: str,
        last_secs: float = LAST_SECS,
        sender: Sequence[str] = _SENDER,
    ):
        self._targets, self._model_dir = targets, os.path.abspath(model_dir)
        self._last_secs, self._sender = last_secs, sender
        self._processes: dict[trackers.Target, subprocess.Popen] = {}
        self._readers: list[threading.Thread] = []
        self._failed = ''
        self._say: Callable[[str], None] = lambda line: None

    def __enter__(self) -> 'Senders':
        for target in self._targets:
            try:
                self._processes[target] = subprocess.Popen(
                    [*self._sender, str(os.getpid()), self._model_dir, str(target)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,  # what the libraries of trackers say
                    bufsize=0,
                    start_new_session=True,  # it is no helper process of the job, and Ctrl-C is not for it
                )
            except OSError as error:
                self._failed = str(error.strerror)
        return self

    def __exit__(self, *exc_info) -> None:
        for process in self._processes.values():
            with contextlib.suppress(ProcessLookupError):  # its number is its own until `wait`
                os.killpg(process.pid, signal.SIGKILL)  # with the helpers of a tracker's library
            process.wait()
            assert process.stdin is not None  # a pipe
            with contextlib.suppress(OSError):
                process.stdin.close()
        for reader in self._readers:
            reader.join(_READ_SECS)

    def follow(self, say: Callable[[str], None]) -> None:
        """The run begins. What the processes have to say is told to `say`, line by line, by threads."""
        self._say = say
        if self._failed:
            say(f'WARNING: the process that sends to a tracker cannot be started: {self._failed}; {self._later()}')
        for process in self._processes.values():
            self._tell(process, FOLLOW)
            reader = threading.Thread(target=self._pass_on, args=(process,), name='track', daemon=True)
            with contextlib.suppress(RuntimeError):  # too many processes of this user
                reader.start()
                self._readers.append(reader)

    def last(self, code: int) -> None:
        """The run has ended with `code`. Waits a bounded time until everything is sent; Ctrl-C ends that at once."""
        until = time.monotonic() + (
            min(self._last_secs, _STOPPED_SECS) if exit_codes.was_stopped(code) else self._last_secs
        )
        for process in self._processes.values():
            self._tell(process, str(code))
        with contextlib.suppress(KeyboardInterrupt):
            while time.monotonic() < until and any(_code(each) is None for each in self._processes.values()):
                time.sleep(_POLL_SECS)
        unsent = [str(target) for target, process in self._processes.items() if _code(process) != exit_codes.OK]
        if unsent:
            self._say(f'WARNING: {", ".join(unsent)}: not everything is sent yet; {self._later()}')

    def _later(self) -> str:
        return f'the next start sends it, and so does: python -m estimator_trainer track {self._model_dir}'

    def _tell(self, process: subprocess.Popen, word: str) -> None:
        assert process.stdin is not None  # a pipe
        with contextlib.suppress(OSError):  # it has ended
            process.stdin.write(f'{word}\n'.encode())

    def _pass_on(self, process: subprocess.Popen) -> None:
        for line in process.stdout or ():
            self._say(line.decode(errors='replace').rstrip('\n'))


def _code(process: subprocess.Popen) -> int | None:
    """The exit code of a process, which stays to be waited for. None while it runs."""
    try:
        ended = os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:  # somebody else has waited for it
        return exit_codes.FAILED
    if ended is None:
        return None
    return ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
