"""Starts another process that reads a profile, so that no training step waits for it."""

import contextlib
import os
import pathlib
import sys

from estimator_trainer.this_process import child_process

_SECS = 300  # a profile of 76 MB took 32 s of a core
_ROOT = pathlib.Path(__file__).parents[3]  # the folder that holds the package
_COMMAND = (sys.executable, '-m', 'estimator_trainer.monitoring.profiles.read')
_OVER = 'training is over'
BY_HAND = 'python -m estimator_trainer.monitoring.profiles.read'


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
