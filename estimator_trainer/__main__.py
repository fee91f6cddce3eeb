"""`python -m estimator_trainer` and the console script `estimator-trainer`: runs one of the commands."""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from absl import flags

import estimator_trainer.own_tf_config  # noqa: F401 -- before what imports tf_config
from estimator_trainer import exit_codes
from estimator_trainer.config import commands
from estimator_trainer.run_dir import protocol
from tf_config import inherited


def main() -> NoReturn:
    inherited.mend()
    _heed_sigterm()
    signal.signal(protocol.PROFILE_SIGNAL, signal.SIG_IGN)  # it would end a process that knows no profiles
    if sys.argv[1:] == ['--version']:
        print(commands.version_text())
        sys.exit(exit_codes.OK)
    try:
        name, arguments = commands.split(sys.argv[1:])
    except ValueError as error:
        print(f'error: {error}', file=sys.stderr)
        sys.exit(exit_codes.USAGE)
    flags.FLAGS.mark_as_parsed()  # the command line is ours: flags that a job defines have their defaults
    command = commands.find(name)
    if name != commands.TRAIN:
        sys.exit(_run(command, arguments))

    from estimator_trainer.secure import entering

    entering.begin(os.environ)  # before anything starts a thread

    from estimator_trainer.lifecycle import ending

    ending.leave(command([sys.argv[0], *arguments]))  # whatever threads and processes the job has left behind


def _heed_sigterm() -> None:
    """The first process of a container ignores SIGTERM as long as it has no handler of its own (signal(7), kill(2)): it
    would start up for many seconds, and train until its engine kills it."""
    if os.getpid() == 1 and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda signum, frame: sys.exit(exit_codes.TERMINATED))


def _run(command: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> int:
    """Runs a command; where TensorFlow lacks what it needs, one sentence says so."""
    try:
        return command(arguments)
    except Exception as error:
        from estimator_trainer.compat import lacks

        said = lacks.refusal(error)
        if said is None:
            raise
        print(f'error: {said}', file=sys.stderr)
        return exit_codes.USAGE


if __name__ == '__main__':
    main()
