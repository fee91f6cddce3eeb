"""python -m estimator_trainer.cluster --workers=2 -- <trainer flags>."""

import os
import subprocess
import sys

from estimator_trainer import exit_codes
from estimator_trainer.cluster import logs, options, plan, policy, ports, process, report
from estimator_trainer.cluster.signals import Signals
from estimator_trainer.cluster.supervisor import Supervisor

TRAINER = (sys.executable, '-m', 'estimator_trainer')
CHECK_SECS = 60  # a check that takes 0.3 s on a quiet machine
JUST_ASKING = {'help', 'helpfull', 'h', 'dry_run'}  # trainer flags that start nothing


def usable_cores() -> tuple[int, ...]:
    """The cores this process may run on; on macOS just their number is true."""
    if hasattr(os, 'sched_getaffinity'):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def check_flags(command: plan.Command, show: bool) -> int:
    """Lets the trainer judge its flags. Its exit code; if not 0, it has said why.

    `show` passes on what it says in any case.
    """
    parent = os.getpid()
    try:
        done = subprocess.run(
            command.argv,
            env=command.env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=CHECK_SECS,
            preexec_fn=lambda: process.tie_to_parent(parent),
        )
    except subprocess.TimeoutExpired:
        print(f"the trainer's --dry_run did not end within {CHECK_SECS} s", file=sys.stderr)
        return exit_codes.FAILED
    if done.returncode != exit_codes.OK or show:
        sys.stdout.buffer.write(done.stdout)
        sys.stderr.buffer.write(done.stderr)
    return policy.Ended('check', done.returncode, 0).exit_code


def run(opts: options.Options, claim: ports.Claim) -> int:
    """Runs the cluster at the claimed ports. Its exit code."""
    addresses = [f'127.0.0.1:{port}' for port in claim.ports]
    cores = usable_cores()
    affinity = opts.cpu_affinity and hasattr(os, 'sched_setaffinity')
    gang = plan.commands(
        opts.shape, addresses, TRAINER, opts.trainer_flags, os.environ, cores, affinity
    )
    just_asks = bool({flag.lstrip('-') for flag in opts.trainer_flags} & JUST_ASKING)
    code = check_flags(plan.check(gang), just_asks)
    if code != exit_codes.OK or just_asks:
        return code
    try:
        folder = logs.new_attempt(opts.log_dir)
    except OSError as error:
        raise options.UsageError(
            f'--log_dir={opts.log_dir}: {error.strerror}; give a folder that can be written'
        ) from None
    out, err = (logs.Console.of(stream.fileno(), os.environ) for stream in (sys.stdout, sys.stderr))
    err.say(report.start(gang, addresses, len(cores), folder))
    with Signals() as signals:
        outcome = Supervisor(opts.limits, out, err).run(gang, folder, signals)
    cause = outcome.stop.cause
    log = logs.path_of(folder, cause.name, 'err') if cause else None
    err.say(report.end(outcome, log, logs.tail(log) if log else ()))
    return outcome.stop.exit_code


def main(argv: list[str]) -> int:
    """Runs the command line `argv`, without program name. The exit code."""
    try:
        opts = options.parse(argv)
        if opts is None:
            print(options.help_text())
            return exit_codes.OK
        with ports.claim(opts.shape.size) as claim:
            return run(opts, claim)
    except options.UsageError as error:
        print(f'run_local_cluster.sh: {error}', file=sys.stderr)
        return exit_codes.USAGE
    except ports.NoPorts as error:
        print(f'run_local_cluster.sh: {error}', file=sys.stderr)
        return exit_codes.FAILED
    except KeyboardInterrupt:  # before the gang was started
        return exit_codes.INTERRUPTED


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
