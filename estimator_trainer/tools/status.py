"""`python -m estimator_trainer status`: a model_dir -> a line and an exit code. Imports no TensorFlow."""

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

from estimator_trainer import exit_codes
from estimator_trainer.config import flags, urls
from estimator_trainer.config.declaration import flag
from estimator_trainer.errors import UsageError
from estimator_trainer.monitoring import progress_line
from estimator_trainer.monitoring.progress_line import LinePart
from estimator_trainer.run_dir import file_names, locks, metrics_log, run_starts, training_file
from estimator_trainer.run_dir.protocol import objects, real, whole
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.run_dir.run_verdict import ALIVE, DONE, LOST, PRUNED
from estimator_trainer.storage import needs
from estimator_trainer.tools import command_line, local_copies
from estimator_trainer.tools.reporting import best_trial, duration, number

ALIVE_CODE, UNKNOWN_CODE = 3, 4  # exit codes of `status` alone
MEANINGS = {
    exit_codes.OK: 'the run is done',
    ALIVE_CODE: 'it lives: it starts, trains, evaluates or waits before a restart',
    UNKNOWN_CODE: 'it is gone, and its files do not say why; the same command resumes',
    exit_codes.USAGE: 'a mistake in the command, or no run in the folder; or the run ended with 64',
}
_MEANINGS = '\n'.join(f'  {code:3}  {meaning}' for code, meaning in MEANINGS.items())
USAGE = f"""\
usage: python -m estimator_trainer status MODEL_DIR|--model_dir=MODEL_DIR [--follow]

Says in one line how a run is: step, loss, examples/s, time left, tasks alive and restarts; or how it
ended. The same of a sweep, if MODEL_DIR is its folder. Reads files, on any machine that sees them, or in
a store (s3://, gs://, az://), and changes none.

Exit codes:
{_MEANINGS}
  any other code is that of the run, such as 143: it was stopped, and the same command resumes
"""
_STORE_SECS = 10.0  # a run sends its small files about every 30 s
_LEAST_WAIT = 0.05  # of the time
_MOST_LINES = 10  # of metrics.jsonl, over which the speed is measured
_STATES_OF_TRIALS = ('done', 'pruned', 'failed', 'running')
_ENDS_OF_SWEEPS = {
    'done': ('is done', exit_codes.OK),
    'stopped': ('was stopped; the same command goes on', exit_codes.TERMINATED),
    'failed': ('has failed', exit_codes.FAILED),
}
_GONE = 'is gone: it was killed; the same command goes on', UNKNOWN_CODE


@dataclasses.dataclass(frozen=True)
class StatusFlags:
    model_dir: tuple = command_line.model_dirs()
    follow: bool = flag(
        False,
        'Say it again whenever it changes, until the run no longer lives. On a terminal the line is redrawn.',
        group='The status',
        why='a script asks once',
    )
    every_secs: float = flag(
        2.0,
        f'Time between two looks with --follow; at a store at least {_STORE_SECS:g} s.',
        group='The status',
        unit='s',
        above=0,
        wanted='a number over 0 is needed.',
        why='the trainer writes its file so often',
    )


def main(argv: Sequence[str]) -> int:
    """Runs the command line `argv`, without program name. The exit code, as USAGE lists them."""
    return command_line.run(
        argv, USAGE, StatusFlags, lambda: _status(*flags.parse_with_words(StatusFlags, ['status', *argv]))
    )


def _status(values: StatusFlags, words: Sequence[str]) -> int:
    paths = [*words, *values.model_dir]
    if len(paths) != 1:
        raise UsageError(f'{" ".join(paths) or "status"}: name one model_dir.')
    show = _Writer(sys.stdout, redraw=values.follow and sys.stdout.isatty())
    pause = max(values.every_secs, _STORE_SECS) if urls.is_url(paths[0]) else values.every_secs
    with local_copies.LocalCopies() as copies, contextlib.closing(show):
        folder = copies.run(paths[0], 'MODEL_DIR', needs.of_status)
        while True:
            text, code = _look(folder, paths[0])
            show(text)
            if not values.follow or code != ALIVE_CODE:
                return code
            time.sleep(pause)
            copies.refresh(folder)


def _look(folder: str, name: str) -> tuple[Callable[[int | None], str], int]:
    """(columns) -> the line, and the exit code. `name`: of the run, for the line."""
    run, now = RunFolder(os.path.expanduser(folder)), time.time()
    if os.path.exists(run.file(file_names.STUDY)):
        sweep, alive = run.object(file_names.SWEEP), locks.is_held(run.file(file_names.SWEEP_LOCK))
        text, code = line_of_sweep(sweep, alive, name)
        return lambda width: text[:width], code
    refuse_where_no_run_is(run, folder)
    return lambda width: line(run, name, now, width), exit_code(run, now)


def refuse_where_no_run_is(run: RunFolder, name: str) -> None:
    """Raises UsageError: there is no such folder, or no run of this trainer in it. `name`: of the folder."""
    if not os.path.isdir(run.path):
        raise UsageError(f'{name}: there is no such folder; name the model_dir of a run.')
    if not (run.training or run.status or run.report or run.config or run.last_metrics or run.holders):
        raise UsageError(
            f'{name}: holds no run of this trainer; `report` makes a page of its events, and `inspect` says what it '
            'holds.'
        )


class _Writer:
    """Writes a line when it differs from the one before; on a terminal over that one."""

    def __init__(self, stream: TextIO, redraw: bool):
        self._stream, self._redraw, self._last, self._full = stream, redraw, '', ''

    def __call__(self, text: Callable[[int | None], str]) -> None:
        """`text` gives the line for a number of columns; None: all of it."""
        self._full = written = text(None)
        if self._redraw:
            written = text((os.get_terminal_size(self._stream.fileno()).columns or 80) - 1)
        if written != self._last:
            self._write(written)
            self._last = written

    def close(self) -> None:
        if self._redraw and self._last:
            self._write(self._full + '\n')

    def _write(self, text: str) -> None:
        self._stream.write(f'\r\x1b[K{text}' if self._redraw else f'{text}\n')
        self._stream.flush()


def exit_code(run: RunFolder, now: float) -> int:
    """The exit code of the command: ALIVE_CODE while the run lives; else the run's own code, or UNKNOWN_CODE."""
    verdict = run.verdict(now)
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
    training = _with_named_step(run) if verdict.kind == LOST else run.training
    parts = progress_line.steps(training, last, secs_left(run, now) if alive else None, runs=alive)
    if run.status and (alive or verdict.kind == LOST):
        tasks = run.status.get('tasks') if run.holders.cluster else None
        parts += progress_line.tasks(tasks, *(run.status.get(name) for name in ('restarts', 'start', 'task_restarts')))
    starts = [] if alive else run_starts.starts({}, run.report, {}, {})
    secs, restarts = (sum(real(start.get(field)) or 0 for start in starts) for field in ('secs', 'restarts'))
    if starts:
        parts += progress_line.ended(starts[-1]['start'], int(restarts), sum(map(run_starts.task_restarts, starts)))
    facts = _waits(_lines_now(run)) if alive else []
    checkpoint = whole(training.get('checkpoint_step'))
    if checkpoint is not None and verdict.kind not in (DONE, PRUNED):
        facts.append(f'checkpoint at step {checkpoint:,}')
    facts.append(_evaluation(run.newest_evaluation))
    if secs:
        facts.append(f'after {duration(secs)}{" in all" if starts[-1]["start"] > 1 else ""}')
    parts += [LinePart(text, 0, progress_line.LATER + place) for place, text in enumerate(filter(None, facts))]
    if alive:
        state = run.status.get('state') if run.holders.cluster else run.training.get('state')
        return progress_line.joined([progress_line.head(f'{name} {verdict.text}', str(state)), *parts], width)
    numbers = progress_line.joined(parts)
    return f'{name} {verdict.text}{f". {numbers[0].upper()}{numbers[1:]}" if numbers else ""}'[:width]


def _with_named_step(run: RunFolder) -> dict[str, Any]:
    """training.json of a run that was killed, which may be older than its last checkpoint."""
    named = run.named_step
    if named is None:
        return dict(run.training)
    return {**run.training, 'checkpoint_step': named, 'step': max(named, whole(run.training.get('step')) or 0)}


def secs_left(run: RunFolder, now: float) -> float | None:
    """The seconds that are left of training, as the supervisor has measured them, or else by the last lines of
    metrics.jsonl. None: not known."""
    measured, most = real(run.status.get('secs_left')), whole(run.training.get('max_steps'))
    if run.holders.cluster and measured is not None:
        return measured
    lines = [line for line in _lines_now(run) if _has_step_and_time(line)]
    if run.training.get('state') != training_file.TRAINING or most is None or len(lines) < 2:
        return None
    steps, secs = lines[-1]['step'] - lines[0]['step'], lines[-1]['time'] - lines[0]['time']
    since = now - lines[-1]['time']
    if steps <= 0 or secs <= 0 or since > 60 + 10 * secs:
        return None
    return max(0.0, (most - lines[-1]['step']) * secs / steps - since)


def _lines_now(run: RunFolder) -> list[dict[str, Any]]:
    """The last lines of metrics.jsonl that the processes which run now have written."""
    own = run.starts[-1]['started'] if run.starts else None
    began = real(run.status.get('attempt_started') if run.holders.cluster else own) or 0.0
    return [line for line in run.last_metrics[-_MOST_LINES:] if (real(line.get('time')) or 0.0) >= began]


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
        f'{name} is not finite' if value is None else f'{name} {number(value)}'
        for name, value in sorted(line.items(), key=lambda item: (item[1] is not None, item[0]))
        if name not in metrics_log.NOT_METRICS and (value is None or isinstance(value, float))
    ]
    step = whole(line.get('step'))
    return f'evaluation at step {step:,}: {", ".join(texts[:4])}' if texts and step is not None else ''


def line_of_sweep(sweep: Mapping[str, Any], alive: bool, name: str) -> tuple[str, int]:
    """The line of a sweep, and the exit code. The line is such as

    runs/sweep is done: 12 trials, 8 done, 4 pruned. The best is trial 12: accuracy 0.9120 at step 375, …

    Args:
        sweep: sweep.json, {} before it is written.
        alive: its lock is held.
    """
    how, code = ('runs its trials', ALIVE_CODE) if alive else _ENDS_OF_SWEEPS.get(str(sweep.get('state')), _GONE)
    trials = objects(sweep.get('trials'))
    counts = [(sum(trial.get('state') == state for trial in trials), state) for state in _STATES_OF_TRIALS]
    words = ', '.join(f'{count} {state}' for count, state in counts if count)
    return f'{name} {how}{f": {len(trials)} trials, {words}" if trials else ""}. {best_trial(sweep)}'.rstrip(), code
