"""How a run, or a sweep, is in one line. Pure, but for the files that `RunFolder` reads."""

from collections.abc import Mapping, Sequence
from typing import Any

from estimator_trainer import exit_codes
from estimator_trainer.monitoring import progress_line
from estimator_trainer.monitoring.progress_line import LinePart
from estimator_trainer.run_dir import metrics_log, run_starts, training_file
from estimator_trainer.run_dir.protocol import objects, real, whole
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.run_dir.run_verdict import ALIVE, DONE, LOST, PRUNED, Verdict
from estimator_trainer.tools.report.words import best_trial, duration, number

ALIVE_CODE, UNKNOWN_CODE = 3, 4  # exit codes of `status` alone
MEANINGS = {
    exit_codes.OK: 'the run is done',
    ALIVE_CODE: 'it lives: it starts, trains, evaluates or waits before a restart',
    UNKNOWN_CODE: 'it is gone, and its files do not say why; the same command resumes',
    exit_codes.USAGE: 'a mistake in the command, or no run in the folder; or the run ended with 64',
}
_LEAST_WAIT = 0.05  # of the time
_MOST_LINES = 10  # of metrics.jsonl, over which the speed is measured
_STATES_OF_TRIALS = ('done', 'pruned', 'failed', 'running')
_ENDS_OF_SWEEPS = {
    'done': ('is done', exit_codes.OK),
    'stopped': ('was stopped; the same command goes on', exit_codes.TERMINATED),
    'failed': ('has failed', exit_codes.FAILED),
}


def exit_code(verdict: Verdict) -> int:
    """The exit code of the command: ALIVE_CODE while the run lives; else the run's own code, or UNKNOWN_CODE."""
    if verdict.kind == ALIVE:
        return ALIVE_CODE
    return UNKNOWN_CODE if verdict.code is None else verdict.code


def line(run: RunFolder, name: str, now: float, width: int | None = None) -> str:
    """The line, of at most `width` characters, such as

    runs/two trains: step 220 of 400 (55 %), loss 0.1871, 4,480 examples/s, 12s left; 3 of 3 tasks alive, 1 restart;
    checkpoint at step 200; evaluation at step 200: accuracy 0.9520, loss 0.1932

    Args:
        now: seconds since the epoch.
    """
    verdict = run.verdict(now)
    alive = verdict.kind == ALIVE
    last = run.last_metrics[-1] if run.last_metrics else {}
    parts = progress_line.steps(run.training, last, secs_left(run, now) if alive else None, runs=alive)
    if run.status and (alive or verdict.kind == LOST):
        tasks = run.status.get('tasks') if run.holders.cluster else None
        parts += progress_line.tasks(tasks, run.status.get('restarts'), run.status.get('start'))
    starts = [] if alive else run_starts.starts({}, run.report, {}, {})
    if starts:
        parts += progress_line.ended(starts[-1]['start'], int(_sum(starts, 'restarts')))
    facts = _waits(run.last_metrics[-_MOST_LINES:]) if alive else []
    checkpoint = whole(run.training.get('checkpoint_step'))
    if checkpoint is not None and verdict.kind not in (DONE, PRUNED):
        facts.append(f'checkpoint at step {checkpoint:,}')
    facts.append(_evaluation(run.newest_evaluation))
    if starts and _sum(starts, 'secs'):
        facts.append(f'after {duration(_sum(starts, "secs"))}{" in all" if starts[-1]["start"] > 1 else ""}')
    parts += [LinePart(text, 0, progress_line.LATER + place) for place, text in enumerate(filter(None, facts))]
    if alive:
        state = run.status.get('state') if run.holders.cluster else run.training.get('state')
        return progress_line.joined([progress_line.head(f'{name} {verdict.text}', str(state)), *parts], width)
    numbers = progress_line.joined(parts)
    return f'{name} {verdict.text}{f". {numbers[0].upper()}{numbers[1:]}" if numbers else ""}'[:width]


def secs_left(run: RunFolder, now: float) -> float | None:
    """The seconds that are left of training, as the supervisor has measured them, or else by the last lines of
    metrics.jsonl. None: not known."""
    measured, most = real(run.status.get('secs_left')), whole(run.training.get('max_steps'))
    if run.holders.cluster and measured is not None:
        return measured
    lines = [line for line in run.last_metrics[-_MOST_LINES:] if _has_step_and_time(line)]
    if run.training.get('state') != training_file.TRAINING or most is None or len(lines) < 2:
        return None
    steps, secs = lines[-1]['step'] - lines[0]['step'], lines[-1]['time'] - lines[0]['time']
    since = now - lines[-1]['time']
    if steps <= 0 or secs <= 0 or since > 60 + 10 * secs:
        return None
    return max(0.0, (most - lines[-1]['step']) * secs / steps - since)


def _sum(starts: Sequence[Mapping[str, Any]], field: str) -> float:
    return sum(real(start.get(field)) or 0 for start in starts)


def _waits(lines: Sequence[Mapping[str, Any]]) -> list[str]:
    """The shares of the time since the first of these lines that the steps have waited, where they count."""
    if len(lines) < 2 or not all(map(_has_step_and_time, lines)):
        return []
    secs, texts = lines[-1]['time'] - lines[0]['time'], []
    for field, words in (('input_wait_secs', 'for input'), ('peer_wait_secs', 'for workers')):
        waited = sum(line[field] for line in lines[1:] if type(line.get(field)) is float)
        if secs > 0 and waited >= _LEAST_WAIT * secs:
            texts.append(f'waits {words} {min(100, round(100 * waited / secs))} % of the time')
    return texts


def _has_step_and_time(line: Mapping[str, Any]) -> bool:
    return whole(line.get('step')) is not None and real(line.get('time')) is not None


def _evaluation(line: Mapping[str, Any]) -> str:
    texts = [
        f'{name} {number(value)}'
        for name, value in sorted(line.items())
        if name not in metrics_log.NOT_METRICS and isinstance(value, float)
    ]
    step = whole(line.get('step'))
    return f'evaluation at step {step:,}: {", ".join(texts[:4])}' if texts and step is not None else ''


def exit_code_of_sweep(sweep: Mapping[str, Any], alive: bool) -> int:
    """The exit code of the command for a sweep.

    Args:
        sweep: sweep.json, {} before it is written.
        alive: its lock is held.
    """
    state = str(sweep.get('state'))
    if alive:
        return ALIVE_CODE
    return _ENDS_OF_SWEEPS[state][1] if state in _ENDS_OF_SWEEPS else UNKNOWN_CODE


def line_of_sweep(sweep: Mapping[str, Any], alive: bool, name: str) -> str:
    """The line of a sweep, such as

    runs/sweep is done: 12 trials, 8 done, 4 pruned. The best is trial 12: accuracy 0.9120 at step 375, …

    Args:
        sweep, alive: as of `exit_code_of_sweep`.
    """
    gone = ('is gone: it was killed; the same command goes on',)
    how = 'runs its trials' if alive else _ENDS_OF_SWEEPS.get(str(sweep.get('state')), gone)[0]
    trials = objects(sweep.get('trials'))
    counts = [(sum(trial.get('state') == state for trial in trials), state) for state in _STATES_OF_TRIALS]
    words = ', '.join(f'{count} {state}' for count, state in counts if count)
    return f'{name} {how}{f": {len(trials)} trials, {words}" if trials else ""}. {best_trial(sweep)}'.rstrip()
