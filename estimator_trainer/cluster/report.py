"""What the supervisor says about a run. Pure: text in, text out."""

import signal
from collections.abc import Sequence

from estimator_trainer import exit_codes
from estimator_trainer.cluster.plan import Command
from estimator_trainer.cluster.policy import Ended, Outcome, Why


def start(gang: Sequence[Command], addresses: Sequence[str], cores: int, log_dir: object) -> str:
    """One line: tasks, addresses, cores, log folder."""
    tasks = ', '.join(f'{task.name} {address}' for task, address in zip(gang, addresses))
    pins = '; '.join(f'{t.name} on {_ranges(t.cores)}' for t in gang if t.cores)
    return f'start: {tasks}; {cores} cores, {pins or "not pinned"}; logs in {log_dir}'


def stopping(why: str, running: Sequence[str], grace_secs: float) -> str:
    if not running:
        return why
    return f'{why}; stopping {", ".join(running)} (SIGTERM, SIGKILL after {grace_secs:g} s)'


def draining(running: Sequence[str], drain_secs: float) -> str:
    return (
        f'training is done; waiting for {", ".join(running)} to end, at most {drain_secs:g} s '
        '(--drain_secs)'
    )


def how(task: Ended) -> str:
    """'worker:1 ended with exit code 3 (…) after 0.2 s'."""
    if task.code < 0:
        try:
            end = signal.Signals(-task.code).name
        except ValueError:  # a real-time signal
            end = f'signal {-task.code}'
    else:
        end = f'exit code {task.code} ({exit_codes.describe(task.code)})'
    return f'{task.name} ended with {end} after {task.secs:.1f} s'


def end(outcome: Outcome, log: object, tail: Sequence[str]) -> str:
    """The closing block.

    Args:
      outcome: of the gang.
      log: path of the stderr log of the task that failed first, if one did.
      tail: its last lines.
    """
    stop = outcome.stop
    lines = []
    if stop.why is Why.FAILED:
        lines += [f'{how(stop.cause)}: the first to fail', f'last lines of {log}:']
        lines += [f'  | {line}' for line in tail] or ['  (it is empty)']
    if stop.why is Why.NOT_DRAINED:
        lines.append(f'training was done, but did not end in time: {", ".join(stop.late)}')
    if stop.why is not Why.DONE:
        lines += [how(task) for task in outcome.ended if task is not stop.cause]
    return '\n'.join([*lines, f'end: exit code {stop.exit_code} after {outcome.secs:.1f} s'])


def _ranges(cores: Sequence[int]) -> str:
    """Sorted core numbers, runs of them as '0-3'."""
    runs: list[list[int]] = []
    for core in cores:
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ','.join(str(a) if a == b else f'{a}-{b}' for a, b in runs)
