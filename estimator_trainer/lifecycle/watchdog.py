"""Watches over one task in threads, and ends the task when the main thread cannot.

The main thread may be stuck inside TensorFlow for as long as a peer is lost. So a thread of its own takes the
signals (signal_inbox), another asks the peers (peers), and end_policy decides whether the task has to end. A third
one writes training.json, because a file system may hang.
"""

import contextlib
import dataclasses
import logging
import os
import signal
import threading
from collections.abc import Callable, Mapping
from typing import Any

from estimator_trainer import exit_codes
from estimator_trainer.compat.patches import child_processes
from estimator_trainer.lifecycle import end_policy, ending
from estimator_trainer.lifecycle.end_policy import CLOSING, SERVING, Bounds
from estimator_trainer.lifecycle.peers import AwakeClock, PeerWatch, SilentPeer
from estimator_trainer.lifecycle.signal_inbox import SIGNALS, SignalInbox
from estimator_trainer.run_dir import protocol, training_file
from estimator_trainer.run_dir.own_start import OwnStart
from estimator_trainer.this_process import forks

__all__ = ['CLOSING', 'SERVING', 'SIGNALS', 'Bounds', 'Watchdog']

_log = logging.getLogger('estimator_trainer')
_STOPS = 'received %s: saves and stops, within %g s'
PEERS_EVERY_SECS = 1.0


class Watchdog:
    """Watches over one task, from `__enter__` to `__exit__`. The main thread tells it what the task does.

    Args:
        task: its name, such as 'worker:1'.
        clock: () -> seconds; by default those in which this process could run (AwakeClock).
        leave: ends the process with an exit code.
        companion_has_ended: of a secured task.
        own_start: of a chief without a supervisor; else one that records nothing.
    """

    def __init__(
        self,
        task: str,
        bounds: Bounds,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], float] | None = None,
        leave: Callable[[int], object] = ending.leave_now,
        companion_has_ended: Callable[[], bool] = lambda: False,
        own_start: OwnStart = OwnStart(None),
    ):
        self._task, self._bounds, self._environ = task, bounds, environ
        self._clock: Callable[[], float] = clock or AwakeClock()
        self._leave, self._companion_has_ended, self._own_start = leave, companion_has_ended, own_start
        self._lock = threading.RLock()  # guards the state, the peers and the training file; nobody does I/O with it
        self._ending = threading.RLock()  # held while the end is reported, in bounded time; before the other lock
        self._over = threading.Event()  # the end was reported, or there is nothing to watch over any more
        self._state = end_policy.TaskState(training_file.STARTING, since=self._clock())
        self._inbox = SignalInbox()
        self._peers: PeerWatch | None = None
        self._training_file: training_file.TrainingFile | None = None
        self._examples_per_sec: float | None = None
        self._waits: Callable[[], dict] = dict
        self._prepared: int | None = None
        self._announcement: threading.Thread | None = None
        self._profile: Callable[[], object] | None = None
        self._asked_to_profile, self._written_at = False, float('-inf')
        self._when_told_to_stop: list[Callable[[], object]] = [child_processes.break_pools]

    def __enter__(self) -> 'Watchdog':
        ending.print_stacks_on(signal.SIGUSR1)
        forks.in_child(self._give_up)
        self._inbox.open()
        child_processes.let_pools_fail()
        self._thread = threading.Thread(target=self._watch, name='watchdog', daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._inbox.given_up:  # this is a forked child
            return
        forks.forget(self._give_up)
        self._over.set()
        self._inbox.wake()
        self._thread.join(ending.READER_SECS)
        self._inbox.close()

    def _give_up(self) -> None:
        """In a forked child, which is no task: nothing is watched over or written."""
        self._lock, self._ending, self._over = threading.RLock(), threading.RLock(), threading.Event()  # may be held
        self._over.set()
        self._training_file = None

    @property
    def signum(self) -> int | None:
        return self._state.signum

    @property
    def stopped_by(self) -> int | None:
        return self._state.stopped_by

    @property
    def follows(self) -> bool:
        return self._state.follows

    @property
    def step(self) -> int | None:
        return self._state.step

    @property
    def checkpoint_step(self) -> int | None:
        return self._state.checkpoint_step

    def name_of(self, signum: int) -> str:
        """The name of the signal that told this task, or another one, to stop."""
        return end_policy.name_of(self._state, signum)

    def missing_peers(self) -> list[SilentPeer]:
        """The peers that do not answer now."""
        return self._peers.missing_now() if self._peers else []

    # What the main thread calls.

    def enter(self, phase: str) -> None:
        """Begins a phase. Ends the process if it was told to stop and nothing is left to save."""
        if phase != self._state.phase:
            self._note(phase=phase, since=self._clock())
            self._end_if_due()

    def resumes_at(self, step: int) -> None:
        """Training will go on from the checkpoint of this step; 0: there is none."""
        self._note(checkpoint_step=step or None, nothing_saved=not step)
        self._own_start.resumes_at(step)

    def trains_from(self, step: int) -> None:
        """Training begins, or goes on, after this step."""
        self._note(step=step)
        self.enter(training_file.TRAINING)

    def stepped(self, step: int) -> None:
        """A step has been finished."""
        self._note(step=step, phase=training_file.TRAINING, since=self._clock())

    def saved(self, step: int) -> None:
        """A checkpoint has been written; so this step has been finished."""
        self._note(checkpoint_step=step, nothing_saved=False, step=max(step, self.step or 0), since=self._clock())

    def heard_rate(self, examples_per_sec: float) -> None:
        """Sets the speed that training.json shows."""
        self._examples_per_sec = examples_per_sec

    def hear_waits(self, totals: Callable[[], dict]) -> None:
        """Sets the function that returns the waits for training.json."""
        self._waits = totals

    def heard_prepared(self, amount: int | None) -> None:
        """Sets how much of the data is prepared, which training.json shows while the task starts. None: all is."""
        self._prepared = amount

    def obey(self, signum: int) -> None:
        """All tasks have agreed to stop here. This one has to be done within the grace period."""
        with self._lock:
            self._state = end_policy.after_agreement(self._state, signum, self._clock())

    def watch_peers(self, peers: PeerWatch) -> None:
        """Ends this task if a peer is lost from now on."""
        self._peers = peers
        threading.Thread(target=self._ask_peers, args=(peers,), name='peers', daemon=True).start()

    def release_peers(self) -> None:
        """Lets the peers leave from now on."""
        with self._lock:
            self._peers = None
            self._note(gone=None)

    def write_training_file(self, model_dir: str, max_steps: int | None) -> None:
        """Writes training.json from now on. Only the chief does. `max_steps`: None while it is not known."""
        self._own_start.begin()
        generation = self._environ.get(protocol.GENERATION, '')
        self._training_file = training_file.TrainingFile(model_dir, max_steps, generation)
        self._write_training_file()

    def finish(self, state: str, why: str | None = None, step: int | None = None, secs: float | None = None) -> None:
        """Says in training.json, within `secs`, that training is over. `step`: if this process has trained none."""
        if self._training_file:
            self._training_file.finish(state, why, step)
            self._write_training_file(secs)

    def end(self, end: ending.End) -> None:
        """Reports the end of this task. The caller leaves."""
        with self._ending:
            if self._over.is_set():
                return
            self._over.set()
            ending.report(end, self._task, self.step, self._environ, self._announcement)
            self.ends_with(end.code, end.recorded())

    def ends_with(self, code: int, said: Mapping[str, Any]) -> None:
        """Records the end of this start. `said`: message and traceback, {} where all is done."""
        with self._ending:
            if self._training_file and said:
                self._training_file.exits({'code': code, **said})
                self._write_training_file(ending.READER_SECS)
            ending.within(ending.READER_SECS, self._own_start.ends, code, said, self.step, self.checkpoint_step)

    def shielded(self) -> contextlib.AbstractContextManager[None]:
        """A context for code that takes our signal handlers away."""
        return self._inbox.shielded()

    def when_asked_to_profile(self, function: Callable[[], object]) -> None:
        """Calls `function()`, in a thread of its own, for each PROFILE_SIGNAL; now if one has come."""
        with self._lock:
            self._profile, asked = function, self._asked_to_profile
        if asked:
            function()

    def when_told_to_stop(self, function: Callable[[], object]) -> None:
        """Calls `function()`, which must not wait, in another thread when a signal comes; now if one has come."""
        with self._lock:
            self._when_told_to_stop.append(function)
            already = self._state.signum is not None
        if already:
            function()

    def _watch(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        while not self._over.is_set():
            self._look()

    def _look(self) -> None:
        for signum in self._inbox.take():
            if signum == protocol.PROFILE_SIGNAL:
                self._ask_for_a_profile()
            else:
                self._received(signum)
        if self._companion_has_ended():
            self._note(companion_ended=True)
        self._end_if_due()
        if self._clock() - self._written_at >= training_file.BEAT_SECS:
            self._write_training_file(secs=0)

    def _received(self, signum: int) -> None:
        with self._lock:
            if (first := self._state.signum is None) and self._state.phase == training_file.TRAINING:
                self._announcement = ending.begin(_log.info, _STOPS, self.name_of(signum), self._bounds.grace)
            self._state = end_policy.after_signal(self._state, signum, self._clock())
            to_call = list(self._when_told_to_stop) if first else []
        for function in to_call:
            function()

    def _ask_for_a_profile(self) -> None:
        with self._lock:
            function, self._asked_to_profile = self._profile, True
        if function:
            ending.within(ending.READER_SECS, function)

    def _ask_peers(self, peers: PeerWatch) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        while self._peers is peers and not self._over.wait(PEERS_EVERY_SECS):
            gone = peers.look()
            with self._lock:
                if gone and self._peers is peers:
                    self._note(gone=gone)

    def _end_if_due(self) -> None:
        if self._over.is_set():
            return
        with self._ending:
            end = end_policy.decide_end(self._state, self._bounds, self._clock())
            if end is None or self._over.is_set():
                return
            if end.code == exit_codes.STALLED:
                ending.print_stacks()
            if exit_codes.was_stopped(end.code):
                self.finish(training_file.STOPPED, step=self.checkpoint_step, secs=ending.READER_SECS)
            self.end(end)
            self._leave(end.code)

    def _note(self, **changes: Any) -> None:
        with self._lock:
            self._state = dataclasses.replace(self._state, **changes)

    def _write_training_file(self, secs: float | None = None) -> None:
        with self._lock:
            self._written_at = self._clock()
            number = self._training_file.begin(*self._training()) if self._training_file else 0
        if self._training_file:
            self._training_file.wait(number, secs)

    def _training(self) -> tuple[str, int | None, int | None, float | None, dict]:
        """The content of training.json: state, step, checkpoint_step, examples_per_sec, waits and peers."""
        state = training_file.TRAINING if self._state.phase == CLOSING else self._state.phase
        silences = self._peers.silences() if self._peers else {}
        prepared = {} if self._prepared is None else {'prepared': self._prepared}
        more = {**self._waits(), **prepared, **({'peer_silence_secs': silences} if silences else {})}
        return state, self.step, self.checkpoint_step, self._examples_per_sec, more
