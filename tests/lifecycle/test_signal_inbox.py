"""lifecycle.signal_inbox: which signals have come. In tests of watchdog and forks there is more."""

import signal
import subprocess
import sys

import pytest

from tests.this_process.test_forks import ROOT, with_default_signals

INT, TERM, HUP, USR2 = signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2
BOUND_SECS = 120
STEAL = "libc.signal(signal.SIGTERM, ctypes.c_void_p(1))  # SIG_IGN, behind Python's back"


def run(body):
    """Runs a body in a process of its own, which has an open inbox."""
    code = f"""
import ctypes, os, signal, time
from estimator_trainer.lifecycle import signal_inbox
libc, me, TERM = ctypes.CDLL(None), os.getpid(), signal.SIGTERM
inbox = signal_inbox.SignalInbox()
inbox.open()
{body}
"""
    done = subprocess.run(
        [sys.executable, '-c', code],
        cwd=ROOT,
        timeout=BOUND_SECS,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=with_default_signals,
        start_new_session=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    'signums', [[INT], [TERM], [HUP], [TERM, INT], [TERM, TERM, HUP], [USR2, TERM], [signal.SIGWINCH, TERM]]
)
def test_it_says_which_signals_have_come_and_in_which_order(signums):
    wanted = [int(signum) for signum in signums if signum != signal.SIGWINCH]
    run(f"""
signal.signal(signal.SIGWINCH, lambda *_: None)  # the job's
for signum in {[int(signum) for signum in signums]}:
    os.kill(me, signum)
assert inbox.take() == {wanted}
assert inbox.take() == []
inbox.close()
""")


def test_the_wait_can_be_ended():
    run("""
signal_inbox.LOOK_SECS = 600
inbox.wake()
assert inbox.take() == []
""")


def test_a_signal_in_the_shield_is_told_once():
    run(f"""
with inbox.shielded():
    {STEAL}
    os.kill(me, TERM)
    assert [inbox.take(), inbox.take()] == [[TERM], []]
assert inbox.take() == []  # it has come to the descriptor now
os.kill(me, TERM)
assert inbox.take() == [TERM]
""")


def test_a_stolen_handler_is_taken_back():
    run(f"""
{STEAL}
os.kill(me, TERM)
assert inbox.take() == []  # nobody can know of it
os.kill(me, TERM)
assert inbox.take() == [TERM]
""")


def test_a_child_gives_it_up():
    run("""
child = os.fork()
if not child:
    given_up = inbox.given_up and signal.getsignal(TERM) is signal.SIG_DFL and signal.set_wakeup_fd(-1) == -1
    os._exit(10 + (given_up and signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 11
assert not inbox.given_up
""")


def test_the_signal_for_a_profile_is_heard_where_it_was_ignored_before():
    run("""
inbox.close()
signal.signal(signal.SIGUSR2, signal.SIG_IGN)  # as the command has it from its first line on
inbox = signal_inbox.SignalInbox()
inbox.open()
os.kill(me, signal.SIGUSR2)
assert inbox.take() == [signal.SIGUSR2]
inbox.close()
assert signal.getsignal(signal.SIGUSR2) is signal.SIG_IGN
""")


def test_the_job_keeps_its_own_handler_of_the_signal_for_a_profile():
    run("""
inbox.close()
heard = []
signal.signal(signal.SIGUSR2, lambda *_: heard.append(1))
inbox = signal_inbox.SignalInbox()
inbox.open()
os.kill(me, signal.SIGUSR2)
assert inbox.take() == [] and heard
""")
