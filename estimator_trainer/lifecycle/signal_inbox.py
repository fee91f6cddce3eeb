"""Says which signals have come to this process. It decides nothing.

The main thread may be stuck inside TensorFlow, where Python runs no signal handler. But the C code of Python
writes the number of each signal to a descriptor (signal.set_wakeup_fd), and any thread can read that.
"""

import contextlib
import ctypes
import os
import signal
from multiprocessing import connection

from estimator_trainer import forks
from estimator_trainer.compat.patches import helper_processes
from estimator_trainer.run_dir.protocol import PROFILE_SIGNAL

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)  # a terminal that is closed sends SIGHUP
_LOOK_SECS = 0.25
_SHIELDED_LOOK_SECS = 0.01


class SignalInbox:
    """The signals that come while it is open: SIGNALS, but for those that this process ignored before, and
    PROFILE_SIGNAL, unless the job has a handler of its own for it.

    The main thread opens, shields and closes it. One other thread takes the signals out of it, and has SIGNALS
    blocked.
    """

    def __init__(self):
        self._reader = self._writer = None
        self._old_fd, self._old_handlers = -1, {}
        self._caught = ()
        self._actions = {}  # of each signal, the handler that C code has to find
        self._seen_early = set()  # taken while the shield blocked them: they come to the descriptor later
        self._look_secs = None
        self.given_up = False  # this is a forked child

    def open(self) -> None:
        with forks.none_meanwhile():
            self._reader, self._writer = os.pipe()
            os.set_blocking(self._reader, False)
            os.set_blocking(self._writer, False)
            self._old_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
            self._old_handlers = {signum: signal.getsignal(signum) for signum in (*SIGNALS, PROFILE_SIGNAL)}
            self._caught = tuple(s for s in SIGNALS if self._old_handlers[s] is not signal.SIG_IGN)
            if self._old_handlers[PROFILE_SIGNAL] in (signal.SIG_DFL, signal.SIG_IGN):
                self._caught += (PROFILE_SIGNAL,)
            self._install_handlers()
            forks.in_child(self._give_up)
        helper_processes.keep_ctrl_c_away()

    def close(self) -> None:
        """Puts the old handlers back. `take` must not run any more: it would take them away again."""
        forks.forget(self._give_up)
        signal.set_wakeup_fd(self._old_fd)
        for signum in self._caught:
            if self._old_handlers[signum] is not None:  # None: C code had set it, and Python cannot put it back
                signal.signal(signum, self._old_handlers[signum])

    def take(self) -> list[int]:
        """Waits a moment for signals, and returns those that have come."""
        secs = _LOOK_SECS if self._look_secs is None else self._look_secs
        connection.wait([self._reader], secs)
        taken = []
        with contextlib.suppress(BlockingIOError):
            for signum in os.read(self._reader, 4096):
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
    def shielded(self):
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

    def _install_handlers(self):
        for signum in self._caught:
            signal.signal(signum, _do_nothing)
        if PROFILE_SIGNAL in self._caught:  # the task goes on after it: system calls of libraries must not fail
            signal.siginterrupt(PROFILE_SIGNAL, False)
        self._actions = {signum: c_action(signum) for signum in self._caught}

    def _give_up(self):
        """In a forked child: its signals do what they did before the inbox was open.

        Except two, which the child ignores. PROFILE_SIGNAL would end it. Ctrl-C a terminal sends to all processes of a
        group, and a step that waits for a helper could not end without the helper. The task saves, and ends its
        helpers as it leaves.
        """
        signal.set_wakeup_fd(-1)
        for signum in self._caught:
            old = self._old_handlers[signum]
            signal.signal(signum, signal.SIG_DFL if old is None else old)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if PROFILE_SIGNAL in self._caught:  # it would end the child
            signal.signal(PROFILE_SIGNAL, signal.SIG_IGN)
        os.close(self._reader)
        os.close(self._writer)
        self.given_up = True


# Made once: each CDLL is a class of its own, which only the garbage collector frees, and a job may turn it off.
_LIBC = ctypes.CDLL(None)
_Action = ctypes.c_char * 256  # a struct sigaction takes 152 bytes


def c_action(signum: int, new=None):
    """sigaction(2): what C code does on a signal. Works in any thread. Sets `new`, and returns what was there."""
    old = _Action()
    _LIBC.sigaction(signum, new, old)
    return old


def _do_nothing(signum, frame):
    """Python writes a signal to the descriptor only if the signal has a handler."""
