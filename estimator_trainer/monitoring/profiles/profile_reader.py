"""Starts another process that reads a profile, so that no training step waits for it."""

import contextlib
import os
import pathlib
import subprocess
import sys

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
        self._process: subprocess.Popen | None = None

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
            self._process = subprocess.Popen(
                [*self._command, f'--parent={os.getpid()}', path],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors='replace',
                start_new_session=True,  # it is no helper process of the job
                cwd=_ROOT,  # the job may have changed the current folder
            )
        except OSError as error:
            raise CannotReadProfile(error.strerror) from error
        if self._killed:  # `kill` may have looked before the process was there
            self._process.kill()
        with self._process as process:
            try:
                said, wrong = process.communicate(timeout=_SECS)
            except subprocess.TimeoutExpired:
                process.kill()
                raise CannotReadProfile(f'it took longer than {_SECS} s') from None
        if self._killed:
            raise CannotReadProfile(_OVER)
        if process.returncode:
            lines = wrong.strip().splitlines()
            raise CannotReadProfile(lines[-1] if lines else f'its process ended with {process.returncode}')
        return said.splitlines()

    def kill(self) -> None:
        """Ends the process. From here on none is started."""
        self._killed = True
        if self._process:
            with contextlib.suppress(OSError):
                self._process.kill()
