"""A prediction from its plan to its file: what was done before is found, the rest is predicted, all is joined.

Beside the result FILE stands the folder FILE.parts until all is done:

    plan.json     what decides the rows
    lock          held by the command that works on it
    part-*        the rows of one part each
    *.index       where the records of files begin beside which that cannot be kept
    joined.json   which file all of them have been joined into, by which plan

Files of other names stay, and so does the folder then. None of the processes that predict outlives this one, and a kill
loses nothing but the parts under way. So they are ended by SIGKILL.
"""

import contextlib
import dataclasses
import json
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Iterable
from multiprocessing import connection

import tqdm

from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import locks, protocol, removal
from estimator_trainer.this_process.child_process import PIPE, Child
from estimator_trainer.this_process.log import duration
from estimator_trainer.this_process.signal_pipe import Signals
from estimator_trainer.tools.command_line import Ended
from estimator_trainer.tools.predict import parts
from estimator_trainer.tools.predict import predict_plan as plans

_log = logging.getLogger('estimator_trainer')
_LOOK_SECS = 0.5
_LINE_SECS = 10  # between two lines of progress
_LAST_LINES = 15
_ERROR = 'error: '
_LOCK, _JOINED = 'lock', 'joined.json'
_UNFINISHED = removal.Named(
    r'(?:part-\d{6,}|plan|joined)\.[a-z]+(?:\.\d+)?\.tmp|[0-9a-f]{16}-.*\.index\.[0-9a-f]{8}(?:\.estimator_trainer)?'
)
_PARTS = removal.Named(r'(?:part-\d{6,}|plan)\.(?:parquet|csv|jsonl|json)|[0-9a-f]{16}-.*\.index(?:\.\d+)?')
_LAST = removal.Named(f'{re.escape(_JOINED)}|{_LOCK}')


class Progress:
    """Shows the rows that all processes have predicted, rows/s and the time left.

    Args:
        bar: whether to draw a bar on stderr instead of writing lines.
        clock: seconds, monotonic.
        named: line of a process -> the line that people see.
    """

    def __init__(self, bar: bool, clock=time.monotonic, named: Callable[[str], str] = str):
        self._draw, self._clock, self._named = bar, clock, named
        self._bar: tqdm.tqdm | None = None
        self.rows = self.done = 0

    def start(self, rows: int, there: int) -> None:
        """`rows` are to be predicted, and `there` of them have been predicted before."""
        self.rows, self.done, self._there = rows, there, there
        self._started_at = self._said_at = self._clock()
        if self._draw:
            self._bar = tqdm.tqdm(total=rows, initial=there, unit='row', file=sys.stderr, dynamic_ncols=True)

    def add(self, rows: int) -> None:
        """`rows` more are predicted, at least one."""
        self.done += rows
        now = self._clock()
        if self._bar is not None:
            self._bar.update(rows)
        elif now - self._said_at >= _LINE_SECS or self.done == self.rows:
            self._said_at = now
            rate = (self.done - self._there) / max(now - self._started_at, 1e-9)
            left = duration((self.rows - self.done) / rate)
            _log.info('%s/%s rows  %s rows/s  %s left', f'{self.done:,}', f'{self.rows:,}', f'{rate:,.0f}', left)

    def show(self, line: str) -> None:
        """Writes a line of a process, above the bar."""
        tqdm.tqdm.write(self._named(line), file=sys.stderr)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


def predict(plan: plans.PredictPlan, out: str, processes: int, timeout_secs: float, progress: Progress) -> None:
    """Writes the predictions of a plan into the file `out`, which is not there yet.

    Args:
        timeout_secs: the longest silence of a process.

    Raises:
        UsageError: `out` is there, or its folder is of another prediction or in use.
        Ended: a signal came, or a process failed, was killed or was silent for too long.
        OSError: a file cannot be written.
    """
    folder = f'{out}.parts'
    is_there = UsageError(f'--out={out}: is there already; remove it, or name another file.')
    if os.path.lexists(out) and not _is_joined(out, folder, plan):
        raise is_there
    os.makedirs(folder, exist_ok=True)
    with Signals() as signals, locks.Lock(os.path.join(folder, _LOCK)) as lock:
        if not lock.take():
            raise UsageError(f'{folder}: {lock.holder()} is at work on it; wait for its end, or name another --out.')
        is_new = not os.path.lexists(out)
        if is_new:
            _enter(folder, plan)
        try:
            if is_new:
                joined = _predict_and_join(plan, folder, processes, timeout_secs, progress, signals)
                if os.path.lexists(out):
                    raise is_there
                os.replace(joined, out)
            elif not _is_joined(out, folder, plan):  # another command has just ended
                raise is_there
        except (UsageError, Ended) as error:
            if not (isinstance(error, Ended) and exit_codes.retryable(error.code)) and not parts.has_any(folder):
                _remove(folder)  # nothing has been done
            raise
        _remove(folder)


def _predict_and_join(plan, folder, processes, timeout_secs, progress, signals) -> str:
    """The file that has all rows."""
    _log.info('%s, %d file(s)', plan.export, len(plan.files))
    _run(folder, processes, signals, timeout_secs, progress)
    progress.close()
    found = parts.Parts(folder, plan.suffix, progress.rows, plan.rows_per_part)
    _log.info('joins %d part(s)', found.number)
    joined = os.path.join(folder, f'joined{plan.suffix}{parts.TEMPORARY}')
    found.join(joined, lambda part: _stop_if_told(signals))
    protocol.write_json(os.path.join(folder, _JOINED), _identity(joined, plan), durable=True)
    return joined


def _enter(folder, plan) -> None:
    """Makes the folder that of the plan.

    Raises:
        UsageError: it holds parts of another plan, or something else.
    """
    path = os.path.join(folder, plans.NAME)
    old = plans.load(path)
    if old is None and any(name != _LOCK and not _UNFINISHED.covers(name) for name in os.listdir(folder)):
        raise UsageError(f'{folder}: holds files and no plan of a prediction; remove it, or name another --out.')
    removal.files_in(folder, _UNFINISHED)  # of processes that were killed
    different = plans.difference(old, plan) if old else ''
    if different and parts.has_any(folder):
        raise UsageError(
            f'{folder} holds parts of another prediction: {different}. Remove that folder to begin anew, or name '
            'another --out.'
        )
    if old != plan:
        protocol.write_json(path, dataclasses.asdict(plan))


def _is_joined(out, folder, plan) -> bool:
    """Whether `out` has what the plan predicts, joined from the parts of the folder, which is left to be removed."""
    try:
        return protocol.read_json(os.path.join(folder, _JOINED)) == _identity(out, plan)
    except OSError:
        return False


def _identity(path, plan) -> dict:
    status = os.stat(path)
    of_file = {'inode': status.st_ino, 'bytes': status.st_size, 'modified_ns': status.st_mtime_ns}
    return {**of_file, 'plan': plans.digest(plan)}


def _remove(folder) -> None:
    """Removes the folder; _JOINED, by which a restart knows that all is done, after the parts."""
    for proof in (_UNFINISHED, _PARTS, _LAST):
        removal.files_in(folder, proof)
    with contextlib.suppress(OSError):
        removal.empty_folder(folder, removal.Named(r'.*\.parts'))


def command(folder: str, number: int, processes: int) -> tuple[str, ...]:
    """The command line of one process."""
    return (sys.executable, '-m', 'estimator_trainer.tools.predict.parts', folder, str(number), str(processes))


def _run(folder: str, processes: int, signals: Signals, timeout_secs: float, progress: Progress) -> None:
    """Runs the processes until all have ended with 0. Process 0 starts the others by the first line that it reports.

    Raises:
        Ended: as `predict`.
    """
    with contextlib.ExitStack() as stack:

        def begin(number: int) -> '_Process':
            return stack.enter_context(_Process(folder, number, processes))

        running = [begin(0)]
        while running:
            pipes = [pipe for process in running for pipe in process.open_pipes]
            ready = connection.wait([signals, *pipes], _LOOK_SECS)
            _stop_if_told(signals)
            for process in tuple(running):
                for fields in process.take(ready, progress.show):
                    if 'rows' in fields and process.number == 0:
                        before = f', {fields["there"]:,} of them predicted before' if fields['there'] else ''
                        _log.info('signature %s, %s rows%s', fields['signature'], f'{fields["rows"]:,}', before)
                        progress.start(fields['rows'], fields['there'])
                        running += map(begin, range(1, processes))
                    if 'done' in fields:
                        progress.add(fields['done'])
                if process.is_done(timeout_secs):
                    running.remove(process)


def _stop_if_told(signals: Signals) -> None:
    for signum in signals.take():
        code = exit_codes.INTERRUPTED if signum.name == 'SIGINT' else exit_codes.TERMINATED
        raise Ended(code, f'stopped by {signum.name}; the same command goes on')


class _Process(Child):
    """A process that predicts, and what it says."""

    def __init__(self, folder: str, number: int, processes: int):
        env = {name: value for name, value in os.environ.items() if name != 'TF_CONFIG'}
        super().__init__(command(folder, number, processes), env=env, stdout=PIPE, stderr=PIPE)
        self.number = number
        self._name = f'process {number + 1}'
        self._prefix = f'[{self._name}] ' if processes > 1 else ''
        self._heard_at = time.monotonic()
        self._last = ''

    def take(self, ready: Iterable, show: Callable[[str], None]) -> list[dict]:
        """Shows what it has written to stderr, and returns what it has reported. Never waits."""
        reports = []
        for descriptor in set(ready).intersection(self.open_pipes):
            self._heard_at = time.monotonic()
            lines = self.read_lines(descriptor)
            if descriptor == self.stdout:
                reports += map(json.loads, lines)
                continue
            for text in lines:
                self._last = text
                show(text if text.startswith(_ERROR) else self._prefix + text)
        return reports

    def is_done(self, timeout_secs: float) -> bool:
        """Whether it has ended well.

        Raises:
            Ended: it has failed, or has said nothing for `timeout_secs`.
        """
        code = self.poll()
        if code is not None and not self.open_pipes:  # what it has written is read first
            if code == exit_codes.OK:
                return True
            code = code if code > 0 else 128 - code
            if self._last.startswith(_ERROR):
                raise Ended(code)
            again = '; the same command goes on' if exit_codes.retryable(code) else ''
            raise Ended(code, f'{self._name} ended with code {code} ({exit_codes.describe(code)}){again}')
        if time.monotonic() - self._heard_at > timeout_secs:
            raise Ended(
                exit_codes.STALLED,
                f'{self._name} has said nothing for {timeout_secs:g} s (--timeout_secs); the same command goes on. '
                'A smaller --batch_size takes less time.',
            )
        return False
