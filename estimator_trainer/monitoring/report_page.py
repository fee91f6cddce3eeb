"""Has report.html of a run written: at its end, and about every ten minutes while it lives.

A process of its own writes each page, so that no training step waits for it. A failure costs the page and one warning.
Imports neither TensorFlow nor what the page is made with.
"""

import contextlib
import importlib.util
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from estimator_trainer.this_process import child_process

NAME = 'report.html'
NEEDED = ('jinja2', 'matplotlib')
SWITCH = 'ESTIMATOR_TRAINER_REPORT'  # of the environment; 'off' turns --report=auto off
EVERY_SECS = 600
SHORT_SECS = 5  # a run that was shorter writes no page: it would end a good deal later
_REST_TIMES = 200  # a page that took long is written less often: pages take at most 0.5 % of a core
_LIVE_SECS, _LAST_SECS = 300, 60  # bounds of one page, while the run lives and at its end
_WRITER = (sys.executable, '-m', 'estimator_trainer', 'report')
_POLITELY = ('nice', '-n', '19')  # while the run lives: as little as it can from the processes that train


def missing() -> list[str]:
    """The packages that the page needs and that are not installed. Imports none of them."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def is_on(flag: str, environ: Mapping[str, str]) -> bool:
    """Whether `--report=FLAG` has a page written here."""
    return flag == 'auto' and environ.get(SWITCH) != 'off' and not missing()


class Pages:
    """A context in which a thread has pages written.

    Args:
        model_dir: of the run.
        warn: told what went wrong with the first page that could not be written.
        every_secs: between two pages.
        short_secs: a run that was shorter has no page.
        writer: the command that writes a page; it gets the model_dir.
    """

    def __init__(
        self,
        model_dir: str,
        warn: Callable[[str], None],
        every_secs: float = EVERY_SECS,
        short_secs: float = SHORT_SECS,
        writer: Sequence[str] = _WRITER,
    ):
        self._model_dir, self._warn, self._every = os.path.abspath(model_dir), warn, every_secs
        self._long_at = time.monotonic() + short_secs
        self._writer, self._cwd = writer, os.getcwd()  # the job may change it
        self._over = threading.Event()
        self._process: child_process.Child | None = None
        self._thread = threading.Thread(target=self._run, name='report', daemon=True)

    def __enter__(self) -> 'Pages':
        with contextlib.suppress(RuntimeError):  # too many processes of this user
            self._thread.start()
        return self

    def __exit__(self, *exc_info) -> None:
        self._stop()

    def last(self, warns: bool = True) -> None:
        """Writes the page of the end, unless the run was short; none is written after it.

        `warns`: not for a run that has failed, whose last line says why.
        """
        self._stop()
        if not warns:
            self._warn = lambda text: None
        if time.monotonic() >= self._long_at:
            self._write(self._writer, _LAST_SECS)

    def _stop(self) -> None:
        self._over.set()
        process = self._process
        if process:
            with contextlib.suppress(OSError):
                process.kill()
        if self._thread.ident is not None:
            self._thread.join(5)

    def _run(self) -> None:
        wait = self._every
        while not self._over.wait(wait):
            began = time.monotonic()
            self._write((*_POLITELY, *self._writer), _LIVE_SECS, may_be_ended=True)
            wait = max(self._every, _REST_TIMES * (time.monotonic() - began))

    def _write(self, writer: Sequence[str], most_secs: float, may_be_ended: bool = False) -> None:
        """Has a page written. `may_be_ended`: `_stop` ends it, without a word."""
        try:
            self._process = child_process.Child(
                [*writer, self._model_dir],
                stdout=child_process.DEVNULL,
                stderr=child_process.PIPE,
                ties=False,  # a page that is nearly written may outlive the run
                cwd=self._cwd,
            )
        except OSError as error:
            self._say(error.strerror)
            return
        if may_be_ended and self._over.is_set():  # `_stop` may have looked before the process was there
            self._process.kill()
        with self._process as process:
            try:
                output = process.finish(most_secs)
            except child_process.TookTooLong as error:
                self._say(str(error))
                return
        self._process = None
        if output.code and not (may_be_ended and self._over.is_set()):
            self._say(output.last_line.removeprefix('error: '))

    def _say(self, why: str | None) -> None:
        path = os.path.join(self._model_dir, NAME)
        self._warn(
            f'{path} was not written: {why}; the run is not affected (--report=off writes none). '
            f'To write it: estimator-trainer report {self._model_dir}'
        )
        self._warn = lambda text: None
