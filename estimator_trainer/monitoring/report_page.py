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

from estimator_trainer.monitoring.side_process import RunIsOver, SideProcess, SideProcessFailed

NAME = 'report.html'
NEEDED = ('jinja2', 'matplotlib')
SWITCH = 'ESTIMATOR_TRAINER_REPORT'  # of the environment; 'off' turns --report=auto off
EVERY_SECS = 600
SHORT_SECS = 5  # a run that was shorter writes no page: it would end a good deal later
REST_TIMES = 200  # a page that took long is written less often: pages take at most 0.5 % of a core
_ASK_SECS = 0.1  # between two looks whether the last page is to be given up
_LIVE_SECS, LAST_SECS = 300, 60  # bounds of one page, while the run lives and at its end
_WRITER = (sys.executable, '-m', 'estimator_trainer', 'report')


def missing() -> list[str]:
    """The packages that the page needs and that are not installed. Imports none of them."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def is_on(flag: str, environ: Mapping[str, str], say: Callable[[str], None]) -> bool:
    """Whether `--report=FLAG` has a page written here. Says so where only a package is missing."""
    if flag != 'auto' or environ.get(SWITCH) == 'off':
        return False
    if lacking := missing():
        say(f'No {NAME} is written: it needs {" and ".join(lacking)} (pip install {" ".join(lacking)}).')
    return not lacking


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
        cwd = os.getcwd()  # the job may change it
        self._live, self._at_end = SideProcess(writer, cwd, is_polite=True), SideProcess(writer, cwd)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name='report', daemon=True)

    def __enter__(self) -> 'Pages':
        with contextlib.suppress(RuntimeError):  # too many processes of this user
            self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stop()

    def last(self, warns: bool = True, most_secs: float = LAST_SECS, told: Callable[[], object] | None = None) -> None:
        """Writes the page of the end, unless the run was short; none is written after it.

        Args:
            warns: not for a run that has failed, whose last line says why.
            most_secs: what the page may take.
            told: whether to give the page up, for a process in which a signal is no exception. Asked again and again.
        """
        self._stop()
        if not warns:
            self._warn = lambda text: None
        if time.monotonic() < self._long_at:
            return
        writing = threading.Thread(target=self._write, args=(self._at_end, most_secs), name='last page', daemon=True)
        try:
            if told:
                writing.start()
        except RuntimeError:  # too many processes of this user
            told = None
        if told is None:
            self._write(self._at_end, most_secs)
            return
        while writing.is_alive():
            if told():
                self._at_end.kill()
            writing.join(_ASK_SECS)

    def _stop(self) -> None:
        self._over.set()
        self._live.kill()
        if self._thread.ident is not None:
            self._thread.join(5)

    def _run(self) -> None:
        wait = self._every
        while not self._over.wait(wait):
            began = time.monotonic()
            self._write(self._live, _LIVE_SECS)
            wait = max(self._every, REST_TIMES * (time.monotonic() - began))

    def _write(self, writer: SideProcess, most_secs: float) -> None:
        try:
            writer.run(self._model_dir, secs=most_secs)
        except RunIsOver:
            pass
        except SideProcessFailed as error:
            path = os.path.join(self._model_dir, NAME)
            self._warn(
                f'{path} was not written: {error}; the run is not affected (--report=off writes none). '
                f'To write it: estimator-trainer report {self._model_dir}'
            )
            self._warn = lambda text: None
