"""Says which signals have come to this process. It decides nothing.

The main thread may be stuck inside TensorFlow, where Python runs no signal handler. So another thread reads the pipe of
signal_pipe.py.
"""

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from multiprocessing import connection

from estimator_trainer.compat.patches import child_processes
from estimator_trainer.run_dir.protocol import PROFILE_SIGNAL
from estimator_trainer.this_process.signal_pipe import STOP as SIGNALS
from estimator_trainer.this_process.signal_pipe import SignalPipe, do_nothing

LOOK_SECS = 0.25
_SHIELDED_LOOK_SECS = 0.01


class SignalInbox(SignalPipe):
    """The signals that come while it is open: SIGNALS, but for those that this process ignored before, and
    PROFILE_SIGNAL, unless the job has a handler of its own for it.

    The main thread opens, shields and closes it. One other thread takes the signals out of it, and has SIGNALS
    blocked.
    """

    def __init__(self) -> None:
        super().__init__()
        self._caught: tuple[signal.Signals, ...] = ()
        self._actions: dict[int, ctypes.Array] = {}  # the handler of each signal that C code has to find
        self._seen_early: set[int] = set()  # taken while the shield blocked them: they come to the descriptor later
        self._look_secs: float | None = None
        self.given_up = False  # this is a forked child

    def open(self) -> None:
        self._caught = tuple(signum for signum in SIGNALS if signal.getsignal(signum) is not signal.SIG_IGN)
        if signal.getsignal(PROFILE_SIGNAL) in (signal.SIG_DFL, signal.SIG_IGN):
            self._caught += (PROFILE_SIGNAL,)
        self._open(self._caught)
        self._install_handlers()
        child_processes.keep_ctrl_c_away()

    def close(self) -> None:
        """Puts the old handlers back. `take` must not run any more: it would take them away again."""
        self._close()

    def take(self) -> list[int]:
        """Waits a moment for signals, and returns those that have come."""
        secs = LOOK_SECS if self._look_secs is None else self._look_secs
        connection.wait([self._reader], secs)
        taken = []
        for signum in self._read():
            if signum in self._seen_early:
                self._seen_early.discard(signum)
            elif signum in self._caught:
                taken.append(signum)
        early = (signal.sigpending() & set(self._caught)) - self._seen_early
        self._seen_early |= early
        for signum, action in self._actions.items():  # by C: Python sets handlers in the main thread only
            c_action(signum, action)
        return [*taken, *early]

    def wake(self) -> None:
        """Ends the wait of `take`."""
        os.write(self._writer, bytes(1))  # 0 is the number of no signal

    @contextlib.contextmanager
    def shielded(self) -> Iterator[None]:
        """For code that takes the handler of SIGTERM away: TensorFlow's preemption notifier, which ignores it.

        A signal that comes meanwhile stays pending, and `take` sees it all the same. But it does not stay pending if
        a thread of a library has it unblocked: that thread then calls the handler that is installed at that moment.
        So `take` looks more often, and puts our handler back as soon as it can.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        self._look_secs = _SHIELDED_LOOK_SECS
        try:
            yield
        finally:
            self._look_secs = None
            self._install_handlers()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def _install_handlers(self) -> None:
        for signum in self._caught:
            signal.signal(signum, do_nothing)
        if PROFILE_SIGNAL in self._caught:  # the task goes on after it: system calls of libraries must not fail
            signal.siginterrupt(PROFILE_SIGNAL, False)
        self._actions = {signum: c_action(signum) for signum in self._caught}

    def _give_up(self) -> None:
        """In a forked child: its signals do what they did before the inbox was open.

        Except two, which the child ignores. PROFILE_SIGNAL would end it. Ctrl-C a terminal sends to all processes of a
        group, and a step that waits for a helper could not end without the helper. The task saves, and ends its
        helpers as it leaves.
        """
        super()._give_up()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if PROFILE_SIGNAL in self._caught:
            signal.signal(PROFILE_SIGNAL, signal.SIG_IGN)
        self.given_up = True


# Made once: each CDLL is a class of its own, which only the garbage collector frees, and a job may turn it off.
_LIBC = ctypes.CDLL(None)
_Action = ctypes.c_char * 256  # a struct sigaction takes 152 bytes


def c_action(signum: int, new: ctypes.Array | None = None) -> ctypes.Array:
    """Calls sigaction(2): sets what C code does on a signal, unless `new` is None, and returns what it did before.

    Works in any thread.
    """
    old = _Action()
    _LIBC.sigaction(signum, new, old)
    return old
