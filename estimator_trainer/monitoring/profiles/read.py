"""`python -m estimator_trainer.monitoring.profiles.read FILE.xplane.pb`: says where time went, and writes the trace.

A task that has recorded a profile starts this as a process of its own (`ProfileReader`), so that no training step waits
for it. The process is told the number of the task's process (`--parent`), and ends when the task does.
"""

import argparse
import os
import pathlib
import signal
import sys
from collections.abc import Sequence

from google.protobuf import message

from estimator_trainer import exit_codes
from estimator_trainer.monitoring.profiles import shares, trace
from estimator_trainer.monitoring.side_process import SideProcess
from estimator_trainer.this_process import parent_process

_SUFFIX = '.xplane.pb'
_SECS = 300  # a profile of 76 MB took 32 s of a core
_ROOT = pathlib.Path(__file__).parents[3]  # the folder that holds the package
_COMMAND = (sys.executable, '-m', 'estimator_trainer.monitoring.profiles.read')
BY_HAND = 'python -m estimator_trainer.monitoring.profiles.read'
_MOST_SECS = _SECS + 30  # the process ends even if nobody waits for it any more


class ProfileReader(SideProcess):
    """Reads one profile.

    Args:
        command: gets the number of this process and the path of the profile.
    """

    def __init__(self, command: Sequence[str] = _COMMAND):
        super().__init__(command, cwd=_ROOT)

    def read(self, path: str) -> list[str]:
        """Writes the trace beside the profile, and says in three lines where the time of the steps went, and where
        the trace is. Call it in a thread that lives until it returns: the process ends with its thread.

        Raises:
            SideProcessFailed: it failed, was killed, or took longer than five minutes.
        """
        return self.run(f'--parent={os.getpid()}', path, secs=_SECS).splitlines()


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
