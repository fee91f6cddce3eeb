"""How a run is, in one line. Pure."""

from collections.abc import Mapping, Sequence

from estimator_trainer import exit_codes
from estimator_trainer.supervisor.reports import earlier_starts, progress_line
from estimator_trainer.supervisor.reports.progress_line import LinePart
from estimator_trainer.tools.report import run_verdict
from estimator_trainer.tools.report.run_verdict import Verdict
from estimator_trainer.tools.report.words import duration, number
from estimator_trainer.tools.status.status_now import Now

ALIVE, UNKNOWN = 3, 4  # exit codes of `status` alone
_NOT_METRICS = ('kind', 'step', 'time')
_LEAST_WAIT = 0.05  # of the time
_PACE_LINES = 10  # of metrics.jsonl, over which the time left is measured


def judge(now: Now) -> Verdict:
    return run_verdict.of(now.training, now.status, now.report, now.alive, now.at, now.stop)


def exit_code(found: Verdict) -> int:
    """Of the command: ALIVE while the run lives; else the run's own code, or UNKNOWN."""
    if found.kind == run_verdict.ALIVE:
        return ALIVE
    return UNKNOWN if found.code is None else found.code


def of(now: Now, name: str, width: int | None = None) -> str:
    """The line, of at most `width` characters, such as

    runs/two trains: step 220 of 400 (55 %), loss 0.1871, 4,480 examples/s, 12s left; 3 of 3 tasks alive, 1 restart;
    checkpoint at step 200; evaluation at step 200: accuracy 0.9520, loss 0.1932
    """
    found = judge(now)
    alive = found.kind == run_verdict.ALIVE
    last = now.lines[-1] if now.lines else {}
    parts = progress_line.steps(now.training, last, secs_left(now) if alive else None, runs=alive)
    if now.status and (alive or found.kind == run_verdict.LOST):
        told_of = now.status.get('tasks') if now.alive.cluster else None
        parts += progress_line.tasks(told_of, now.status.get('restarts'), now.status.get('start'))
    gangs = earlier_starts.of({}, now.report, {}, {}) if not alive else []
    if gangs:
        parts += progress_line.ended(gangs[-1]['start'], int(_sum(gangs, 'restarts')))
    told: list[str] = _waits(now.lines[-_PACE_LINES:]) if alive else []
    checkpoint = now.training.get('checkpoint_step')
    if type(checkpoint) is int and found.kind not in (run_verdict.DONE, run_verdict.PRUNED):
        told.append(f'checkpoint at step {checkpoint:,}')
    told.append(_evaluation(now.evaluation))
    if gangs and _sum(gangs, 'secs'):
        told.append(f'after {duration(_sum(gangs, "secs"))}{" in all" if gangs[-1]["start"] > 1 else ""}')
    parts += [LinePart(text, 0, progress_line.LATER + number_) for number_, text in enumerate(filter(None, told))]
    if alive:
        state = now.status.get('state') if now.alive.cluster else now.training.get('state')
        return progress_line.joined([progress_line.head(f'{name} {found.text}', str(state)), *parts], width)
    numbers = progress_line.joined(parts)
    return (
        f'{name} {found.text}. {numbers[0].upper()}{numbers[1:]}'[:width] if numbers else f'{name} {found.text}'[:width]
    )


def _sum(starts: Sequence[Mapping], field: str) -> float:
    return sum(each[field] for each in starts if type(each.get(field)) in (int, float))


def _waits(lines) -> list[str]:
    """The shares of the time since the first of these lines that the steps have waited, where they count."""
    if len(lines) < 2 or not all(_has_pace(line) for line in lines):
        return []
    secs, found = lines[-1]['time'] - lines[0]['time'], []
    for field, words in (('input_wait_secs', 'for input'), ('peer_wait_secs', 'for workers')):
        waited = sum(line[field] for line in lines[1:] if type(line.get(field)) is float)
        if secs > 0 and waited >= _LEAST_WAIT * secs:
            found.append(f'waits {words} {min(100, round(100 * waited / secs))} % of the time')
    return found


def secs_left(now: Now) -> float | None:
    """Of training: as the supervisor has measured it, else by the last lines of metrics.jsonl."""
    told, most = now.status.get('secs_left'), now.training.get('max_steps')
    if now.alive.cluster and type(told) in (int, float):
        return float(told)
    if now.training.get('state') != 'training' or type(most) is not int or len(now.lines) < 2:
        return None
    lines = [line for line in now.lines[-_PACE_LINES:] if _has_pace(line)]
    if len(lines) < 2:
        return None
    steps, secs = lines[-1]['step'] - lines[0]['step'], lines[-1]['time'] - lines[0]['time']
    if steps <= 0 or secs <= 0 or now.at - lines[-1]['time'] > 60 + 10 * secs:
        return None
    return max(0.0, (most - lines[-1]['step']) * secs / steps - (now.at - lines[-1]['time']))


def _has_pace(line: Mapping) -> bool:
    return type(line.get('step')) is int and type(line.get('time')) in (int, float)


def _evaluation(line: Mapping) -> str:
    shown = [
        f'{name} {number(value)}'
        for name, value in sorted(line.items())
        if name not in _NOT_METRICS and isinstance(value, float)
    ]
    step = line.get('step')
    return f'evaluation at step {step:,}: {", ".join(shown[:4])}' if shown and type(step) is int else ''


MEANINGS = {
    exit_codes.OK: 'the run is done',
    ALIVE: 'it lives: it starts, trains, evaluates or waits before a restart',
    UNKNOWN: 'it is gone, and its files do not say why; the same command resumes',
    exit_codes.USAGE: 'a mistake in the command, or no run in the folder; or the run ended with 64',
}
