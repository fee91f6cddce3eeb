"""Processes of our own beside a run, which send it to its trackers: one for each value of --track.

A run starts them, tells them when it begins and how it ended, and gives them a bounded time to send the rest. They
read the files of the model_dir and nothing else, so that a tracker that is slow or away holds up no training step.
What they could not send is sent by the next start, or by the command `track`.
"""

import contextlib
import os
import sys
import time
from collections.abc import Callable, Sequence

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.monitoring import trackers
from estimator_trainer.monitoring.side_process import SideProcess, SideProcessFailed

LAST_SECS = 10  # that a run waits at its end for all of its trackers
STOPPED_SECS = 2  # the same, for a run that was told to stop: its time is short
_POLL_SECS = 0.05
_SENDER = (sys.executable, '-m', 'estimator_trainer.tools.track.background')
FOLLOW = 'follow'  # what a sender is told on its stdin: this, and later the exit code of the run


def for_run(values: Sequence[str], model_dir: str | None) -> 'Senders':
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
        stopped_secs: the same, for a run that was told to stop.
        sender: the command of a process; it gets the number of this process, the model_dir and the tracker.
    """

    def __init__(
        self,
        targets: Sequence[trackers.Target],
        model_dir: str,
        last_secs: float = LAST_SECS,
        sender: Sequence[str] = _SENDER,
        stopped_secs: float = STOPPED_SECS,
    ):
        self._targets, self._model_dir = targets, os.path.abspath(model_dir)
        self._last_secs, self._stopped_secs, self._sender = last_secs, min(last_secs, stopped_secs), sender
        self._processes: dict[trackers.Target, SideProcess] = {}
        self._failed = ''
        self._say: Callable[[str], None] = lambda line: None

    def __enter__(self) -> 'Senders':
        for target in self._targets:
            process = SideProcess(self._sender)
            try:
                process.start(str(os.getpid()), self._model_dir, str(target))
                self._processes[target] = process
            except SideProcessFailed as error:
                self._failed = str(error)
        return self

    def __exit__(self, *exc_info: object) -> None:
        for process in self._processes.values():
            process.kill()  # all of them, before the first is awaited
        for process in self._processes.values():
            process.end()

    def follow(self, say: Callable[[str], None]) -> None:
        """The run begins. What the processes have to say is told to `say`, line by line, by threads."""
        self._say = say
        if self._failed:
            say(f'WARNING: the process that sends to a tracker cannot be started: {self._failed}; {self._later()}')
        for process in self._processes.values():
            process.tell(FOLLOW)
            process.pass_on(say)

    def last(self, code: int) -> None:
        """The run has ended with `code`. Waits a bounded time until everything is sent; Ctrl-C ends that at once."""
        until = time.monotonic() + (self._stopped_secs if exit_codes.was_stopped(code) else self._last_secs)
        for process in self._processes.values():
            process.tell(str(code))
        with contextlib.suppress(KeyboardInterrupt):
            while time.monotonic() < until and any(each.poll() is None for each in self._processes.values()):
                time.sleep(_POLL_SECS)
        unsent = [str(target) for target, process in self._processes.items() if process.poll() != exit_codes.OK]
        if unsent:
            self._say(f'WARNING: {", ".join(unsent)}: not everything is sent yet; {self._later()}')

    def _later(self) -> str:
        return f'the next start sends it, and so does: python -m estimator_trainer track {self._model_dir}'
