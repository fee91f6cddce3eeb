"""`python -m estimator_trainer.monitoring.profiles.read FILE.xplane.pb`: says where time went, and writes the trace.

A task that has recorded a profile starts this as a process of its own (`ProfileReader`), so that no training step waits
for it. The process is told the number of the task's process (`--parent`), and ends when the task does.
"""

import argparse
import contextlib
import os
import pathlib
import signal
import sys

from google.protobuf import message

from estimator_trainer import exit_codes
from estimator_trainer.monitoring.profiles import shares, trace
from estimator_trainer.this_process import child_process, parent_process

_SUFFIX = '.xplane.pb'
_SECS = 300  # a profile of 76 MB took 32 s of a core
_ROOT = pathlib.Path(__file__).parents[3]  # the folder that holds the package
_COMMAND = (sys.executable, '-m', 'estimator_trainer.monitoring.profiles.read')
_OVER = 'training is over'
BY_HAND = 'python -m estimator_trainer.monitoring.profiles.read'
_MOST_SECS = _SECS + 30  # the process ends even if nobody waits for it any more


class CannotReadProfile(Exception):
    """The text says why."""


class ProfileReader:
    """Reads one profile.

    Args:
        command: gets the number of this process and the path of the profile.
    """

    def __init__(self, command=_COMMAND):
        self._command, self._killed = command, False
        self._process: child_process.Child | None = None

    def read(self, path: str) -> list[str]:
        """Writes the trace beside the profile, and says in three lines where the time of the steps went, and where
        the trace is.

        Call it in a thread that lives until it returns: the process ends with its thread.

        Raises:
            CannotReadProfile: it failed, was killed, or took longer than five minutes.
        """
        if self._killed:
            raise CannotReadProfile(_OVER)
        try:
            self._process = child_process.Child(
                [*self._command, f'--parent={os.getpid()}', path],
                stdout=child_process.PIPE,
                stderr=child_process.PIPE,
                ties=False,  # it ties itself to its --parent
                cwd=_ROOT,  # the job may have changed the current folder
            )
        except OSError as error:
            raise CannotReadProfile(error.strerror) from error
        if self._killed:  # `kill` may have looked before the process was there
            self._process.kill()
        with self._process as process:
            try:
                output = process.finish(_SECS)
            except child_process.TookTooLong as error:
                raise CannotReadProfile(str(error)) from None
        if self._killed:
            raise CannotReadProfile(_OVER)
        if output.code:
            raise CannotReadProfile(output.last_line)
        return output.out.decode(errors='replace').splitlines()

    def kill(self) -> None:
        """Ends the process. From here on none is started."""
        self._killed = True
        if self._process:
            with contextlib.suppress(OSError):
                self._process.kill()


def main(argv: list[str]) -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog='python -m estimator_trainer.monitoring.profiles.read', description=__doc__)
    parser.add_argument('--parent', type=int, help=argparse.SUPPRESS)
    parser.add_argument('file', help='plugins/profile/steps-FIRST-LAST/TASK.xplane.pb of a model_dir')
    given = parser.parse_args(argv)
    if given.parent:
        parent_process.tie_to_parent(given.parent)
        signal.alarm(_MOST_SECS)
        os.nice(5)  # the training goes on; with 19 this takes minutes beside it
    try:
        with open(given.file, 'rb') as file:
            threads = trace.lines(file.read())
        traced = f'{given.file.removesuffix(_SUFFIX)}.trace.json.gz'
        trace.write(traced, threads)
        print(*shares.describe(shares.of(threads)), sep='\n')
        print(f'{traced}: for https://ui.perfetto.dev; TensorBoard with the package xprof shows it as well')
    except (OSError, message.DecodeError, shares.NoSteps) as error:
        print(f'error: {given.file}: {error}', file=sys.stderr)
        return exit_codes.FAILED
    return exit_codes.OK


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
