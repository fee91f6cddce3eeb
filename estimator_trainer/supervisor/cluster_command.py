"""`python -m estimator_trainer cluster`, which `run_local_cluster.sh` starts: argv -> a cluster and an exit code."""

import contextlib
import os
import random
import socket
import sys
import time

from estimator_trainer import exit_codes
from estimator_trainer.config import trainer_config
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import JobError, job_file
from estimator_trainer.monitoring import port, senders
from estimator_trainer.run_dir import log_folders, ownership
from estimator_trainer.storage import stored_run as storage_run
from estimator_trainer.supervisor import local_supervisor, options
from estimator_trainer.supervisor.policy import causes, task_commands
from estimator_trainer.supervisor.processes import ports
from estimator_trainer.this_process import console, isolate
from estimator_trainer.this_process.child_process import PIPE, Child, TookTooLong

TRAINER = (sys.executable, '-m', 'estimator_trainer')
CHECK_SECS = 300  # it takes 0.3 s on a quiet machine, and seconds with TensorFlow or a job on a slow file system


def usable_cores() -> tuple[int, ...]:
    """The cores on which this process may run. On macOS only their number is true."""
    if hasattr(os, 'sched_getaffinity'):
        return tuple(sorted(os.sched_getaffinity(0)))
    return tuple(range(os.cpu_count() or 1))


def check_flags(command: task_commands.TaskCommand, show: bool) -> int:
    """Lets the trainer judge its flags, and returns its exit code. If that is not 0, the trainer has said why.

    `show` passes on what it says in any case.
    """
    try:
        with Child(command.argv, env=command.env, stdout=PIPE, stderr=PIPE) as child:
            done = child.finish(CHECK_SECS)
    except TookTooLong:
        print(
            f'error: the check of the flags did not end within {CHECK_SECS} s, and nothing was started. It loads the '
            "job: look whether the job's module waits for something. If the machine or its file system is only slow, "
            'the same command may work later.',
            file=sys.stderr,
        )
        return exit_codes.FAILED
    if done.code != exit_codes.OK or show:
        sys.stdout.buffer.write(done.out)
        sys.stderr.buffer.write(done.err)
    return causes.TaskEnd('check', done.code, 0).exit_code


def run(
    opts: options.Options,
    claim: ports.Claim,
    isolated: isolate.Isolation,
    sending: senders.Senders,
    metrics: socket.socket | None,
) -> int:
    """Runs the cluster, whose first gang has the claimed ports, and returns its exit code.

    `metrics` listens at --metrics_port.
    """
    out, err = console.for_this_process(os.environ, has_line=opts.trainer.config.progress != 'off')
    machine = local_supervisor.Machine(TRAINER, os.environ, usable_cores(), out, err, isolated.isolated, metrics)
    environ = task_commands.environment(os.environ, 'check', time.time(), isolated.isolated, opts.shape.workers)
    gang = local_supervisor.gang_commands(opts, machine, opts.shape.workers, claim.ports, environ)
    if opts.own.program is None:  # a program cannot be asked
        code = check_flags(task_commands.flag_check(gang, quick=not opts.trainer.just_asks), opts.trainer.just_asks)
        if code != exit_codes.OK or opts.trainer.just_asks:
            return code
    flag = '--model_dir' if opts.own.program is None else '--log_dir'
    with ownership.supervise(opts.model_dir, flag) if opts.model_dir else contextlib.nullcontext():
        try:
            folder = log_folders.new(opts.log_dir)
        except OSError as error:
            raise UsageError(f'--log_dir={opts.log_dir}: {error.strerror}; give a folder that can be written') from None
        ended = None
        try:
            with out, err:
                err.say(isolated.note)
                sending.follow(err.say)
                ended = local_supervisor.LocalSupervisor(opts, machine, random.Random(), claim, folder).run()
                sending.last(ended)
        except KeyboardInterrupt:
            if ended is None:
                raise
        assert ended is not None
        return ended  # a Ctrl-C that comes later changes nothing


def _in_scratch(opts: options.Options, argv: list[str]) -> tuple[trainer_config.TrainerConfig, list[str]]:
    """The trainer's config, and the command line of a cluster that works in the scratch folder of its URL."""
    trainer = trainer_config.parse(['trainer', *opts.words])
    return trainer, [*argv, *storage_run.trainer_flags(trainer, os.environ)]


def main(argv: list[str]) -> int:
    """Runs the command line `argv`, which has no program name, and returns the exit code."""
    try:
        if options.wants_help(argv):
            print(options.help_text())
            return exit_codes.OK
        opts = options.parse(argv)
        if opts.trainer.url:
            trainer, argv = _in_scratch(opts, argv)
            if not opts.trainer.just_asks:
                return storage_run.run(['cluster', *argv], trainer, os.environ)
            opts = options.parse(argv)
        with contextlib.ExitStack() as stack:
            metrics = None
            asked, just_asks = opts.trainer.config, opts.trainer.just_asks
            if asked.metrics_port and opts.model_dir and not just_asks:
                metrics = stack.enter_context(port.listen(asked.metrics_port))
            sending = stack.enter_context(senders.for_run(() if just_asks else asked.track, opts.model_dir))
            job_file.check(asked.job)
            # After what needs the network out here, before a port is claimed.
            isolated = isolate.enter(opts.own.isolate, opts.trainer.data_in_store)
            claim = stack.enter_context(ports.claim(opts.shape.size))
            return run(opts, claim, isolated, sending, metrics)
    except (UsageError, JobError, isolate.CannotIsolate) as error:
        print(f'error: {error}', file=sys.stderr)
        return exit_codes.USAGE
    except ports.NoPorts as error:
        print(f'error: {error}', file=sys.stderr)
        return exit_codes.FAILED
    except KeyboardInterrupt:  # before the gang was started
        return exit_codes.INTERRUPTED
