"""`python -m estimator_trainer.monitoring.profiles.read FILE.xplane.pb`: says where time went, and writes the trace.

A task that has recorded a profile starts this with the number of its own process (`--parent`). Then this process ends
when the task does.
"""

import argparse
import os
import signal
import sys

from google.protobuf import message

from estimator_trainer import exit_codes
from estimator_trainer.monitoring.profiles import shares, trace
from estimator_trainer.this_process import parent_process

_SUFFIX = '.xplane.pb'
_MOST_SECS = 330  # it ends even if nobody waits for it any more


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
