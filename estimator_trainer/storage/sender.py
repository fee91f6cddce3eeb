"""Sends a run in a thread for as long as the run lives, reports failures, and decides which of them end the run."""

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import NamedTuple

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import file_errors
from estimator_trainer.storage.lease import Lease, LeaseLost, NoLease
from estimator_trainer.storage.mirror import Mirror
from estimator_trainer.storage.send_speed import SendSpeed, SentCheckpoint
from estimator_trainer.storage.snapshot import FileChanged
from estimator_trainer.storage.store import StoreError, StoreRefused, StoreUnavailable

_log = logging.getLogger('estimator_trainer')
_LOOK_SECS = 0.5  # between two looks for a new checkpoint, or for what else others wait for
_BEAT_SECS = 30  # between two passes without any: metrics, events, exports
_FIRST_PAUSE_SECS, _LONGEST_PAUSE_SECS = 1, 60  # between two tries when the store has failed
_LAST_PAUSE_SECS = 2  # the same, when the run has ended
_FIRST_WARNING_SECS, _LONGEST_SILENCE_SECS = 10, 1800
_LAST_TRIES = 10  # of files that still change when the run has ended, in at least REFUSED_SECS
REFUSED_SECS = 60  # that a store may refuse writes: credentials are sometimes renewed late


class RunEnd(NamedTuple):
    """Why the run ends: an exit code, and one line."""

    code: int
    why: str


class ScratchFails(StoreRefused):
    """The scratch folder fails.

    Attributes:
        code: the exit code of a run that it ends.
    """

    def __init__(self, error: OSError):
        super().__init__(f'the scratch folder fails: {error}')
        self.code = file_errors.exit_code(error.errno)


class Patience:
    """When to warn of a store that fails, when to try again, and when to end the run. Pure: time is an argument."""

    def __init__(self, max_unpushed_secs: float, refused_secs: float = REFUSED_SECS, done: str = 'sent'):
        self._most = {StoreUnavailable: max_unpushed_secs, StoreRefused: refused_secs, ScratchFails: REFUSED_SECS}
        self._done = done
        self._since: float | None = None  # it has failed in a row
        self._refused: tuple[bool, float] | None = None  # (the folder has, since when), in a row
        self._warn_at = 0.0
        self.pause = _FIRST_PAUSE_SECS

    def worked(self, now: float) -> str | None:
        """What to say if it had failed before."""
        since, self._since, self._refused, self.pause = self._since, None, None, _FIRST_PAUSE_SECS
        if since is None or self._warn_at <= since + _FIRST_WARNING_SECS:
            return None
        return f'the store answers again, after {now - since:.0f} s'

    def failed(self, error: StoreError, now: float) -> tuple[str | None, RunEnd | None]:
        """A warning that is due, and a verdict."""
        since = now if self._since is None else self._since
        if self._since is None:
            self._since, self._warn_at = now, now + _FIRST_WARNING_SECS
        else:
            self.pause = min(2 * self.pause, _LONGEST_PAUSE_SECS)
        secs, refused = now - since, isinstance(error, StoreRefused)
        is_here = isinstance(error, ScratchFails)
        refused_since = self._refused[1] if self._refused and self._refused[0] == is_here else now
        self._refused = (is_here, refused_since) if refused else None
        most = self._most[type(error) if type(error) in self._most else StoreRefused if refused else StoreUnavailable]
        if (now - refused_since if refused else secs) >= most:
            code = exit_codes.CANNOT_WRITE if refused else exit_codes.NOT_SENT
            code = error.code if isinstance(error, ScratchFails) else code
            return None, RunEnd(code, f'{error}; not everything could be {self._done} for {secs:.0f} s')
        if now < self._warn_at:
            return None, None
        self._warn_at = now + min(max(secs, _FIRST_WARNING_SECS), _LONGEST_SILENCE_SECS)
        bound = f', at most {most:g} s' if math.isfinite(most) else ''
        return f'{error}; not everything could be {self._done} for {secs:.0f} s; training goes on{bound}', None


class Sender:
    """A context in which a thread sends what the run writes.

    Attributes:
        all_sent: the store holds all that the run has written, after its end.
    """

    def __init__(
        self,
        mirror: Mirror,
        lease: Lease | NoLease,
        max_unpushed_secs: float,
        speed: SendSpeed,
        clock: Callable[[], float] = time.monotonic,
    ):
        self._mirror, self._lease, self._speed, self._clock = mirror, lease, speed, clock
        self._last: SentCheckpoint | None = None
        self._patience = Patience(max_unpushed_secs)
        self._over, self._run_ended = threading.Event(), threading.Event()
        self._tries, self._changing_since = 0, 0.0
        self._verdict: RunEnd | None = None
        self._thread = threading.Thread(target=self._send, name='sender', daemon=True)
        self.all_sent = False

    def __enter__(self) -> 'Sender':
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        """Does not wait: a request may hang, and the process is about to end."""
        self._over.set()

    @property
    def verdict(self) -> RunEnd | None:
        """Why the run should end; None while all is well."""
        if self._lease.lost is not None:
            return RunEnd(exit_codes.MODEL_DIR_TAKEN, f'{self._lease.holder} on {self._lease.lost} has taken over')
        return self._verdict

    def send_the_rest(self) -> None:
        """The run has ended. What it has left is sent, as long as the store's failures allow."""
        self._run_ended.set()

    def is_at_work(self) -> bool:
        return self._thread.is_alive()

    def _send(self) -> None:
        try:
            while self.verdict is None and not self._over.is_set() and not self._pass():
                pass
        except Exception as error:  # a mistake of ours: the run must not go on unsent
            _log.exception('sending has failed')
            self._verdict = RunEnd(exit_codes.CANNOT_WRITE, f'{type(error).__name__}: {error}')

    def _pass(self) -> bool:
        """One pass, and the wait for the next one. Whether it was the last."""
        last, before = self._run_ended.is_set(), self._mirror.advances
        try:
            whole = self._mirror.push()
        except LeaseLost:
            return True
        except FileChanged as error:
            if self._mirror.advances > before:
                self._worked()
            if last and self._have_tried_enough():
                self._verdict = RunEnd(exit_codes.NOT_SENT, f'{error} changes although the run has ended')
                return True
            self._wait(0 if self._mirror.has_news() else _LOOK_SECS, last)
            return False
        except (StoreError, OSError) as error:
            if self._mirror.advances > before:
                self._worked()
            self._failed(error, last)
            return False
        self._worked()
        if last and self._mirror.unsteady:
            if not self._have_tried_enough():
                self._wait(_LOOK_SECS, last)
                return False
            left_out = ', '.join(self._mirror.unsteady)
            _log.warning(
                'WARNING: not sent, because it changes again and again although the run has ended: %s', left_out
            )
        self.all_sent = last and whole
        if not last:
            self._wait(_BEAT_SECS if whole else _LOOK_SECS, last, for_news=True)
        return last  # what is not whole now will not become so

    def _have_tried_enough(self) -> bool:
        """Asked when files have changed although the run has ended: a process that it has left behind writes them."""
        self._changing_since = self._clock() if self._tries == 0 else self._changing_since
        self._tries += 1
        return self._tries >= _LAST_TRIES and self._clock() - self._changing_since >= REFUSED_SECS

    def _failed(self, error: StoreError | OSError, last: bool) -> None:
        known = error if isinstance(error, StoreError) else ScratchFails(error)
        warning, self._verdict = self._patience.failed(known, self._clock())
        if warning:
            _log.warning('WARNING: %s', warning)
        self._wait(min(self._patience.pause, _LAST_PAUSE_SECS) if last else self._patience.pause, last)

    def _worked(self) -> None:
        said = self._patience.worked(self._clock())
        if said:
            _log.info('%s', said)
        if self._mirror.last and self._mirror.last is not self._last:
            self._last = self._mirror.last
            line, is_warning = self._speed.of(self._last)
            if line:
                _log.log(logging.WARNING if is_warning else logging.INFO, '%s%s', 'WARNING: ' * is_warning, line)

    def _wait(self, secs: float, had_ended: bool, for_news: bool = False) -> None:
        """Until the time is up, or the run ends, or there is something that others wait for.

        Args:
            had_ended: whether the run had ended when the pass before this began.
        """
        until = self._clock() + secs
        while not self._over.is_set() and self._clock() < until and self._run_ended.is_set() == had_ended:
            if for_news and self._mirror.has_news():
                return
            self._over.wait(min(_LOOK_SECS, max(0.0, until - self._clock())))
