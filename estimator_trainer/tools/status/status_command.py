"""`python -m estimator_trainer status`: a model_dir -> a line and an exit code. Imports no TensorFlow."""

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import TextIO

from estimator_trainer import exit_codes
from estimator_trainer.config import flags, urls
from estimator_trainer.config.declaration import flag
from estimator_trainer.errors import UsageError
from estimator_trainer.run_dir import file_names, locks
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.storage import needs
from estimator_trainer.tools import command_line, local_copies
from estimator_trainer.tools.status import line

USAGE = f"""\
usage: python -m estimator_trainer status MODEL_DIR|--model_dir=MODEL_DIR [--follow]

Says in one line how a run is: step, loss, examples/s, time left, tasks alive and restarts; or how it
ended. The same of a sweep, if MODEL_DIR is its folder. Reads files, on any machine that sees them, or in
a store (s3://, gs://, az://), and changes none.

Exit codes:
  {exit_codes.OK:3}  {line.MEANINGS[exit_codes.OK]}
  {line.ALIVE_CODE:3}  {line.MEANINGS[line.ALIVE_CODE]}
  {line.UNKNOWN_CODE:3}  {line.MEANINGS[line.UNKNOWN_CODE]}
  {exit_codes.USAGE:3}  {line.MEANINGS[exit_codes.USAGE]}
  any other code is that of the run, such as 143: it was stopped, and the same command resumes
"""
_STORE_SECS = 10.0  # a run sends its small files about every 30 s


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
            if not values.follow or code != line.ALIVE_CODE:
                return code
            time.sleep(pause)
            copies.refresh(folder)


def _look(folder: str, name: str) -> tuple[Callable[[int | None], str], int]:
    """(columns) -> the line, and the exit code. `name`: of the run, for the line."""
    run, now = RunFolder(os.path.expanduser(folder)), time.time()
    if os.path.exists(run.file(file_names.STUDY)):
        sweep, alive = run.object(file_names.SWEEP), locks.is_held(run.file(file_names.SWEEP_LOCK))
        return lambda width: line.line_of_sweep(sweep, alive, name)[:width], line.exit_code_of_sweep(sweep, alive)
    refuse_where_no_run_is(run, folder)
    return lambda width: line.line(run, name, now, width), line.exit_code(run.verdict(now))


def refuse_where_no_run_is(run: RunFolder, name: str) -> None:
    """Raises UsageError: there is no such folder, or no run of this trainer in it. `name`: of the folder."""
    if not os.path.isdir(run.path):
        raise UsageError(f'{name}: there is no such folder; name the model_dir of a run.')
    if not (run.training or run.status or run.report or run.config or run.last_metrics or run.holders):
        raise UsageError(f'{name}: holds no run of this trainer; `inspect` says what it holds.')


class _Writer:
    """Writes a line when it differs from the one before; on a terminal over that one."""

    def __init__(self, stream: TextIO, redraw: bool):
        self._stream, self._redraw, self._last, self._full = stream, redraw, '', ''

    def __call__(self, text: Callable[[int | None], str]) -> None:
        """`text` gives the line for a number of columns; None: all of it."""
        self._full = written = text(None)
        if self._redraw:
            written = text((os.get_terminal_size(self._stream.fileno()).columns or 80) - 1)
        if written == self._last:
            return
        self._stream.write(f'\r\x1b[K{written}' if self._redraw else f'{written}\n')
        self._stream.flush()
        self._last = written

    def close(self) -> None:
        if self._redraw and self._last:
            self._stream.write(f'\r\x1b[K{self._full}\n')
            self._stream.flush()
