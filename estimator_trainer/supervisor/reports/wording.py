"""What the supervisor says about a run. Pure: text in, text out."""

import signal
from collections.abc import Mapping, Sequence

from estimator_trainer import exit_codes
from estimator_trainer.supervisor.policy.causes import Cause, TaskEnd
from estimator_trainer.supervisor.policy.restarts import Attempt, Decision, Reason, Rules, is_permanent
from estimator_trainer.supervisor.policy.task_commands import TaskCommand

CTRL_C = 'Ctrl-C'


def start(gang: Sequence[TaskCommand], pids: Mapping[str, int | None], cores: int, log_dir: object) -> str:
    """One line: tasks, addresses, PIDs, cores, log folder. `pids`: by name of task; None: it has no process."""
    tasks = ', '.join(f'{task.name} {task.address} ({_pid(pids.get(task.name))})' for task in gang)
    pins = '; '.join(f'{t.name} on {_ranges(t.cores)}' for t in gang if t.cores)
    return f'start: {tasks}; {cores} cores, {pins or "not pinned"}; logs in {log_dir}'


def stopping(why: str, running: Sequence[str], signum: signal.Signals, secs: float) -> str:
    if not running:
        return why
    what = 'printing the stacks of' if signum == signal.SIGUSR1 else 'stopping'
    again = f'; a second {CTRL_C} kills them at once' if signum == signal.SIGINT else ''
    return f'{why}; {what} {", ".join(running)} ({order(signum)}, SIGKILL after {secs:g} s{again})'


def draining(running: Sequence[str], drain_secs: float) -> str:
    return f'training is done; waiting for {", ".join(running)} to end, at most {drain_secs:g} s (--drain_secs)'


def all_but(serve_for_ever: Sequence[str]) -> str:
    return f'all other tasks are done, and {", ".join(serve_for_ever)} would wait for ever'


def symptom(task: TaskEnd, secs: float) -> str:
    return f'{how(task)}; waiting for whoever is to blame, at most {secs:g} s'


def task_restart(task: TaskEnd, decision: Decision, max_restarts: int) -> str:
    """What follows the end of a task that the others can do without. '' if nothing is to be said."""
    if decision.restart:
        return f'{how(task)}; restarting it alone, {decision.number} of {max_restarts}, in {decision.delay:.1f} s'
    if decision.reason is Reason.SPENT:
        return f'{task.name} has been restarted alone {max_restarts} times, and is not again'
    return ''


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f'signal {number}'


def order(signum: signal.Signals) -> str:
    """The name of a signal that tells us to stop, as its sender knows it."""
    return CTRL_C if signum == signal.SIGINT else signum.name


def how(task: TaskEnd) -> str:
    """'worker:1 ended with exit code 3 (…) after 0.2 s'."""
    if task.never_started:
        return f'{task.name} {task.message}'
    again = '' if task.life == 1 else f' (life {task.life})'
    if task.code < 0:
        end = signal_name(-task.code)
    else:
        end = f'exit code {task.code} ({exit_codes.describe(task.code)})'
    return f'{task.name}{again} ended with {end} after {task.secs:.1f} s'


def cause(what: Cause) -> str:
    """Why a gang failed, in one phrase."""
    if what.ended:
        missed = f' (missed by {what.reporter.name})' if what.reporter else ''
        return how(what.ended) + missed
    if what.reporter is None:
        return exit_codes.describe(what.code)
    did = 'never came' if what.code == exit_codes.NO_PEER else 'was lost: it did not answer'
    return f'{what.name} {did} (reported by {what.reporter.name})'


def brief(what: Cause) -> str:
    """Why a gang failed, in fewer words: 'worker:1, exit code 1: ValueError: …'."""
    task = what.ended
    if task is None or task.never_started:
        return cause(what)
    end = signal_name(-task.code) if task.code < 0 else f'exit code {task.code}'
    message = f': {task.message}' if task.message else ''
    return f'{task.name}, {end}{message}'


def restart(decision: Decision, max_restarts: int, checkpoint: int | None, why: Cause, is_program: bool = False) -> str:
    begin = 'the beginning' if checkpoint is None else f'the checkpoint at step {checkpoint}'
    if is_program:
        begin = "the program's own last checkpoint"
    return f'restart {decision.number} of {max_restarts} in {decision.delay:.1f} s, from {begin}: {brief(why)}'


def reason(decision: Decision) -> str:
    """Why there is a restart or none, for report.json."""
    if decision.reason is Reason.SPENT:
        return f'{Reason.SPENT.value}: {decision.number} were made without a new checkpoint (--max_restarts)'
    return decision.reason.value


def no_restart(decision: Decision, rules: Rules, why: Cause) -> str:
    of_code = f'exit code {why.code} is permanent, {Reason.PERMANENT.value}'
    because = {
        Reason.NEVER: '--max_restarts=0',
        Reason.PERMANENT: of_code if is_permanent(why.code) else f'{Reason.PERMANENT.value}: {brief(why)}',
        Reason.REPEATED: f'{Reason.REPEATED.value}: {brief(why)}',
        Reason.SPENT: (
            f'--max_restarts={rules.max_restarts} were made without a new checkpoint; the last cause: {brief(why)}'
        ),
    }[decision.reason]
    return f'no restart: {because}'


def profiling(names: Sequence[str], profile_tasks: str) -> str:
    """The answer to a signal that asks for a profile."""
    if not names:
        return f'received SIGUSR2: no task of --profile_tasks={profile_tasks} runs now'
    return f'received SIGUSR2, which asks {", ".join(names)} for a profile (--profile_tasks={profile_tasks})'


def shrinking(why: Cause, workers: int, batch_size: int) -> str:
    return (
        f'{why.name} is given up: going on with {workers} worker(s), --batch_size={batch_size} '
        f'keeps the global batch at {workers} x {batch_size}'
    )


def no_shrinking(why: Cause, min_workers: int, global_batch: int) -> str:
    return (
        f'{why.name} keeps failing, and no smaller number of workers down to '
        f'--min_workers={min_workers} shares the global batch of {global_batch} evenly'
    )


def closing(attempt: Attempt, log: object, tail: Sequence[str]) -> str:
    """How an attempt ended: which task failed and how, how the other tasks ended, and which steps are lost.

    Args:
      log: the path of the stderr log of the task at fault, if there is one.
      tail: the last lines of that log.
    """
    end = attempt.outcome.end
    lines = []
    if end.cause:
        lines.append(f'{cause(end.cause)}: the first to fail')
        lines += _details(attempt, end.cause, log, tail)
    if end.late:
        lines.append(f'training was done, but did not end in time: {", ".join(end.late)}')
    if end.exit_code:
        lines += [_fate(task) for task in attempt.outcome.ended if task is not end.at_fault]
        if attempt.steps_lost:
            where = 'there is no checkpoint'
            if attempt.checkpoint is not None:
                where = f'the last checkpoint is of step {attempt.checkpoint}'
            lines.append(f'{attempt.steps_lost} steps are lost: step {attempt.step} was done, {where}')
    return '\n'.join(lines)


def on_disk(checkpoint: int | None) -> str:
    """What the same command will do after a run that was stopped."""
    if checkpoint is None:
        return 'there is no checkpoint, so the same command begins anew'
    return f'the same command goes on from the checkpoint at step {checkpoint}'


def end(code: int, secs: float, restarts: int, report_path: str | None, left: str = '', alone: int = 0) -> str:
    """The very last line.

    Args:
      restarts: of all tasks.
      left: what `on_disk` says, if the run was stopped.
      alone: restarts of single tasks.
    """
    often = f', {restarts} restart(s)' if restarts else ''
    often += f', {alone} restart(s) of single tasks' if alone else ''
    where = f'; report in {report_path}' if report_path else ''
    what = exit_codes.describe(code)
    if left:
        what = f'{what.partition(";")[0]}; {left}'
    meaning = f' ({what})' if code else ''
    return f'end: exit code {code}{meaning} after {secs:.1f} s{often}{where}'


def _details(attempt: Attempt, why: Cause, log: object, tail: Sequence[str]) -> list[str]:
    task = why.evidence
    if task is None:
        return [f'the stacks of all tasks are in {attempt.folder}']
    lines = []
    if attempt.out_of_memory:
        lines.append(
            'the kernel has killed a process of this control group for want of memory (oom_kill): '
            'give it more, or half of --batch_size with twice the --accumulate_steps'
        )
    if task.message and not task.never_started:
        lines.append(f'{task.name} says: {task.message}')
    if task.error and task.error.traceback:
        return [*lines, 'end of its traceback:', *(f'  | {line}' for line in task.error.traceback)]
    if task.never_started:
        return lines
    return [*lines, f'last lines of {log}:', *([f'  | {line}' for line in tail] or ['  (it is empty)'])]


def _fate(task: TaskEnd) -> str:
    """How a task ended that was not the first to fail."""
    return how(task) if task.last_signal is None else f'{how(task)}, {task.how.value}'


def _pid(pid: int | None) -> str:
    return 'not started' if pid is None else f'PID {pid}'


def _ranges(cores: Sequence[int]) -> str:
    """Sorted core numbers, runs of them as '0-3'."""
    runs: list[list[int]] = []
    for core in cores:
        if runs and core == runs[-1][1] + 1:
            runs[-1][1] = core
        else:
            runs.append([core, core])
    return ','.join(str(a) if a == b else f'{a}-{b}' for a, b in runs)
