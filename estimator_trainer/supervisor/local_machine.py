"""What a run is given to work with, and the commands of its gangs. Pure."""

import dataclasses
import os
import socket
import sys
from collections.abc import Mapping, Sequence

from estimator_trainer.supervisor.options import Options
from estimator_trainer.supervisor.policy import task_commands
from estimator_trainer.supervisor.processes.console import Console

COMPAT_RUN = ('-m', 'estimator_trainer.compat', 'run')


@dataclasses.dataclass(frozen=True)
class Machine:
    """What a run is given to work with."""

    trainer: Sequence[str]  # its command, without flags
    environ: Mapping[str, str]
    cores: Sequence[int]
    out: Console
    err: Console
    isolated: bool
    metrics: socket.socket | None = None  # listens at --metrics_port
    python: Sequence[str] = (sys.executable,)


def gang(
    opts: Options, machine: Machine, workers: int, claimed: Sequence[int], environ: Mapping[str, str]
) -> list[task_commands.TaskCommand]:
    """The commands of a gang with `workers` at the `claimed` ports."""
    shape = dataclasses.replace(opts.shape, workers=workers)
    addresses = [f'127.0.0.1:{port}' for port in claimed]
    fewer: tuple[str, ...] = ()
    if workers != opts.shape.workers:
        fewer = (f'--batch_size={opts.trainer.config.batch_size * opts.shape.workers // workers}',)
    no_port = ('--metrics_port=',) if opts.trainer.config.metrics_port else ()  # the supervisor serves for all tasks
    affinity = opts.own.cpu_affinity and hasattr(os, 'sched_setaffinity')
    command, is_program = machine.trainer, opts.own.program is not None
    if opts.own.program is not None:
        switches = [f'--{name}' for name in ('tf1', 'horovod') if getattr(opts.own, name)]
        command = (*machine.python, *COMPAT_RUN, *switches, opts.own.program)
    flags = (*opts.words, *fewer, *no_port)
    return task_commands.commands(shape, addresses, command, flags, environ, machine.cores, affinity, is_program)
