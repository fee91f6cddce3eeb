"""A thread that ends its task when the task can't: signals, lost peers, a step that never ends.

The main thread may be stuck inside TensorFlow, where no Python runs. So signals are read from a
descriptor, peers are asked from here, and the end is the process's end.
"""

import contextlib
import ctypes
import dataclasses
import faulthandler
import logging
import os
import select
import signal
import sys
import threading
import time

from estimator_trainer import exit_codes, forks
from estimator_trainer.lifecycle import ending, pools
from estimator_trainer.lifecycle.clock import AwakeClock
from estimator_trainer.run_dir import protocol

_log = logging.getLogger('estimator_trainer')
_HUNG_UP = signal.SIGHUP  # of a terminal that is closed; an order to stop, as SIGTERM is
SIGNALS = (signal.SIGINT, signal.SIGTERM, _HUNG_UP)
_LOOK_SECS = 0.25
_SHIELDED_LOOK_SECS = 0.01
_PEERS_EVERY_SECS = 1.0
_SAME_ORDER_SECS = 2  # an engine tells all processes of a task, and its supervisor tells it again
_CLOSE_SECS = 120  # a session that has nothing left to save takes milliseconds

# What the task is at. Beside the states of protocol.py:
CLOSING = 'closing'  # the last step is done; it is being saved, and the session closed
SERVING = 'serving'  # a parameter server


@dataclasses.dataclass(frozen=True)
class Bounds:
    """Seconds. `step` 0: a step may take as long as it likes."""

    step: float = 1800
    grace: float = 25


class Lifeline:
    """Watches over one task.

    Args:
        task: 'worker:1'.
        clock: seconds; by default those in which this process could run (AwakeClock).
        leave: ends the process with an exit code.
    """

    def __init__(self, task: str, bounds: Bounds, environ=os.environ, clock=None, leave=ending.leave_now):
        self._task, self._bounds, self._environ = task, bounds, environ
        self._clock, self._leave = clock or AwakeClock(), leave
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._phase, self._since = protocol.STARTING, self._clock()
        self.signum: int | None = None  # the first signal that asked this task to stop: SIGINT or SIGTERM
        self._hung_up = False  # it was SIGHUP, which is taken for SIGTERM
        self._stop_at, self._insisted, self._foreseen = None, False, set()
        self._peers, self._gone = None, None
        self._board = None
        self._reader = self._writer = None
        self._look_secs = _LOOK_SECS
        self.step: int | None = None
        self.checkpoint_step: int | None = None
        self.examples_per_sec: float | None = None
        self.stopped_by: int | None = None  # the signal that all tasks have agreed to obey
        self.follows = False  # another task was told so, and not this one

    # -- begin and end

    def __enter__(self):
        if hasattr(faulthandler, 'register') and _has_descriptor(sys.stderr):
            faulthandler.register(signal.SIGUSR1, file=sys.stderr, all_threads=True)
        with forks.none_meanwhile():
            self._reader, self._writer = os.pipe()
            os.set_blocking(self._reader, False)
            os.set_blocking(self._writer, False)
            self._old_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
            self._old = {signum: signal.getsignal(signum) for signum in SIGNALS}
            self._caught = [signum for signum in SIGNALS if self._old[signum] is not signal.SIG_IGN]
            self._install()
            forks.in_child(self._give_up)
        forks.keep_ctrl_c_from_helpers()
        pools.install()
        self._thread = threading.Thread(target=self._watch, name='lifeline', daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc_info):
        if self._writer is None:  # a forked child has given up everything
            return
        forks.forget(self._give_up)
        self._over.set()
        os.write(self._writer, bytes(1))  # wakes the thread, which would take the handlers back
        self._thread.join(ending.READER_SECS)
        signal.set_wakeup_fd(self._old_fd)
        for signum in self._caught:
            if self._old[signum] is not None:  # None: somebody's who is not Python
                signal.signal(signum, self._old[signum])

    def _give_up(self):
        """In a forked child, which no task is: its signals do what they did before there was a lifeline. Only
        Ctrl-C, which a terminal sends to all processes of a group, is the trainer's: a step that waits for a
        helper could not end otherwise. The trainer saves, and ends its helpers as it leaves."""
        signal.set_wakeup_fd(-1)
        for signum in self._caught:
            signal.signal(signum, signal.SIG_DFL if self._old[signum] is None else self._old[signum])
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.close(self._reader)
        os.close(self._writer)
        self._writer = self._board = None
        self._lock, self._over = threading.RLock(), threading.Event()  # a thread of the parent may have held them
        self._over.set()

    @contextlib.contextmanager
    def shielded(self):
        """For code that takes SIGTERM away from us: TensorFlow's preemption notifier, which then does
        nothing with it. The signal waits meanwhile, and is seen all the same. It does not wait where a
        thread of a library takes it, so the handler is taken back as soon as that is seen."""
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self._look_secs = _SHIELDED_LOOK_SECS
        try:
            yield
        finally:
            self._look_secs = _LOOK_SECS
            self._install()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    # -- told by the main thread

    def enter(self, phase: str) -> None:
        """What the task does from here on. Leaves, if it was asked to and nothing is left to save."""
        with self._lock:
            if phase == self._phase:
                return
            self._phase, self._since = phase, self._clock()
        self._act()

    def stepped(self, step: int) -> None:
        """A step has been finished."""
        with self._lock:
            self.step = step
            self._phase, self._since = protocol.TRAINING, self._clock()

    def saved(self, step: int) -> None:
        """A checkpoint has been written."""
        with self._lock:
            self.checkpoint_step = step
            self._since = self._clock()

    def heard_rate(self, examples_per_sec: float) -> None:
        """What training.json should say of the speed."""
        self.examples_per_sec = examples_per_sec

    def obey(self, signum: int) -> None:
        """All tasks have agreed to stop here. It has to be done within the grace period."""
        with self._lock:
            self.stopped_by, self.follows = signum, self.signum is None
            self._stop_at = self._stop_at or self._clock()

    def name_of(self, signum: int) -> str:
        """The name of the signal that asked this task, or another one, to stop."""
        return 'SIGHUP' if self._hung_up and signum == signal.SIGTERM else signal.Signals(signum).name

    def watch_peers(self, peers) -> None:
        """From here on a peer that is lost ends this task. `peers`: a PeerWatch."""
        self._peers = peers
        threading.Thread(target=self._ask_peers, args=(peers,), name='peers', daemon=True).start()

    def release_peers(self) -> None:
        """From here on the peers may leave."""
        with self._lock:
            self._peers = self._gone = None

    def missing_peers(self) -> list:
        """The peers that do not answer now."""
        return self._peers.missing_now() if self._peers else []

    def keep_board(self, path: str, max_steps: int) -> None:
        """From here on writes training.json (protocol.py). Of the chief only."""
        with self._lock:
            self._board = _Board(path, max_steps, self._environ)
        self._write_board()

    def finish(self, state: str, why: str | None = None) -> None:
        """Says in training.json that this is the end of training."""
        with self._lock:
            if self._board:
                self._board.final = (state, why)
        self._write_board()

    def end(self, end: ending.End) -> None:
        """Reports the end of this task. The caller leaves."""
        with self._lock:
            if self._over.is_set():
                return
            self._over.set()
            ending.report(end, self._task, self.step, self._environ)

    # -- the threads

    def _install(self):
        for signum in self._caught:
            signal.signal(signum, _seen_elsewhere)
        self._actions = {signum: _c_action(signum) for signum in self._caught}

    def _watch(self):
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        beat_at = 0.0
        while not self._over.is_set():
            self._take_signals()
            for signum, action in self._actions.items():  # Python sets handlers in the main thread only
                _c_action(signum, action)
            self._act()
            if self._board and self._clock() - beat_at >= protocol.BEAT_SECS:
                self._write_board()
                beat_at = self._clock()

    def _take_signals(self):
        select.select([self._reader], [], [], self._look_secs)
        with contextlib.suppress(BlockingIOError):
            for signum in os.read(self._reader, 4096):
                if signum in self._foreseen:
                    self._foreseen.discard(signum)
                elif signum in self._caught:
                    self._received(signum)
        for signum in (signal.sigpending() & set(self._caught)) - self._foreseen:
            self._foreseen.add(signum)  # it waits for the end of the shield, and comes again then
            self._received(signum)

    def _received(self, signum):
        with self._lock:
            now = self._clock()
            first = self.signum is None
            if first:
                self._hung_up = signum == _HUNG_UP
                self.signum = signal.SIGTERM if self._hung_up else signum
                pools.told_to_stop()
                self._stop_at = self._stop_at or now
            elif signum == _HUNG_UP:  # a closed terminal says it more than once, as a shell does
                pass
            elif signum == signal.SIGINT or now - self._stop_at >= _SAME_ORDER_SECS:
                self._insisted = True
        if first and self._phase == protocol.TRAINING:
            ending.within(
                ending.READER_SECS,
                _log.info,
                'received %s: saves and stops, within %g s',
                signal.Signals(signum).name,
                self._bounds.grace,
            )

    def _ask_peers(self, peers):
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        while self._peers is peers and not self._over.wait(_PEERS_EVERY_SECS):
            gone = peers.look()
            with self._lock:
                if gone and self._peers is peers:
                    self._gone = gone

    def _act(self):
        with self._lock:
            if self._over.is_set():
                return
            end = self._judge(self._clock())
            if end:
                if end.code == exit_codes.STALLED and _has_descriptor(sys.stderr):
                    ending.within(ending.READER_SECS, faulthandler.dump_traceback, sys.stderr, True)
                if self._board and end.code in (exit_codes.INTERRUPTED, exit_codes.TERMINATED):
                    self._board.final = (protocol.STOPPED, None)
                    self._write_board()
                self.end(end)
                self._leave(end.code)

    def _judge(self, now) -> ending.End | None:
        """Whether this is the end. Decides by what is known; asks nobody."""
        if self._stop_at is not None:
            end = self._judge_stop(now)
            if end:
                return end
        gone = self._gone
        if gone:
            code = exit_codes.LOST_PEER if gone.ever_seen else exit_codes.NO_PEER
            what = 'has not answered for' if gone.ever_seen else 'has never answered, in'
            cure = (
                'restart all tasks: they resume'
                if gone.ever_seen
                else 'start it, or give it more time (--join_timeout_secs)'
            )
            return ending.End(code, f'{gone.name} at {gone.address} {what} {gone.secs:.0f} s; {cure}', peer=gone.name)
        if self._phase == protocol.TRAINING and 0 < self._bounds.step <= now - self._since:
            return ending.End(
                exit_codes.STALLED,
                f'no step was finished in {self._bounds.step:g} s (--step_timeout_secs); the stacks are above',
            )
        close_secs = max(_CLOSE_SECS, self._bounds.step)
        if self._phase == CLOSING and self._bounds.step and now - self._since >= close_secs:
            return ending.End(
                exit_codes.STALLED,
                'the last step was not saved and the session closed in '
                f'{close_secs:g} s (--step_timeout_secs); the stacks are above',
            )
        return None

    def _judge_stop(self, now) -> ending.End | None:
        signum = self.signum or self.stopped_by
        name = self.name_of(signum)
        saved = '' if self.checkpoint_step is None else f' at step {self.checkpoint_step}'
        training = self._phase in (protocol.TRAINING, CLOSING, SERVING)
        if not training:
            return ending.End(128 + signum, f'stopped by {name}; the same command resumes{saved}')
        if self._insisted:
            return ending.End(
                exit_codes.NOT_SAVED, f'stopped at once by a second {name}; the last checkpoint is{saved or " none"}'
            )
        if now - self._stop_at >= self._bounds.grace:
            if self._phase == SERVING:
                return ending.End(128 + signum, f'stopped by {name}')
            return ending.End(
                exit_codes.NOT_SAVED,
                f'{name} was not obeyed within '
                f'{self._bounds.grace:g} s (--grace_secs): the step takes longer, or is '
                f'stuck; the last checkpoint is{saved or " none"}',
            )
        return None

    def _write_board(self):
        with self._lock:
            if self._board is None:
                return
            phase = protocol.TRAINING if self._phase == CLOSING else self._phase
            self._board.write(phase, self.step, self.checkpoint_step, self.examples_per_sec)


class _Board:
    """training.json."""

    def __init__(self, path, max_steps, environ):
        self._path, self._max_steps = path, max_steps
        self._generation = environ.get(protocol.GENERATION, '')
        self._beat = 0
        self.final = None  # (state, why) once it is known

    def write(self, phase, step, checkpoint_step, examples_per_sec) -> None:
        state, why = self.final or (phase, None)
        self._beat += 1
        with contextlib.suppress(OSError):  # a disk that is full: the checkpoint will tell
            protocol.write_json(
                self._path,
                {
                    'state': state,
                    'why': why,
                    'step': step,
                    'max_steps': self._max_steps,
                    'checkpoint_step': checkpoint_step,
                    'examples_per_sec': examples_per_sec,
                    'generation': self._generation,
                    'beat': self._beat,
                    'pid': os.getpid(),
                    'time': time.time(),
                },
            )


def _has_descriptor(stream) -> bool:
    try:
        return stream.fileno() >= 0
    except (AttributeError, OSError, ValueError):
        return False


# Made once: each CDLL is a class of its own, which only a garbage collector frees, and a job may turn it off.
_LIBC = ctypes.CDLL(None)
_Action = ctypes.c_char * 256  # a struct sigaction takes 152 bytes


def _c_action(signum, new=None):
    """What happens on a signal, as C has it, in any thread: sigaction(2). Returns what it was."""
    old = _Action()
    _LIBC.sigaction(signum, new, old)
    return old


def _seen_elsewhere(signum, frame):
    """A handler must exist for the descriptor to be written to. The watching thread reads it."""
