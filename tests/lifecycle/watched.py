"""A watchdog of a test: by a clock of the test's, without threads."""

import signal

from estimator_trainer.lifecycle import peers
from estimator_trainer.lifecycle import watchdog as watchdogs
from estimator_trainer.run_dir import training_file

BOUND_SECS = 120
INT, TERM = signal.SIGINT, signal.SIGTERM
STARTING, TRAINING, EVALUATING = training_file.STARTING, training_file.TRAINING, training_file.EVALUATING
CLOSING, SERVING = watchdogs.CLOSING, watchdogs.SERVING
STEP, GRACE = 1800, 25
START = 1000


class Task:
    """A watchdog without threads: what its threads would see is told to it."""

    def __init__(self, phase=STARTING, environ=None, **bounds):
        self.now, self.codes = START, []
        self.watchdog = watchdogs.Watchdog(
            'worker:1',
            watchdogs.Bounds(**{'step': STEP, 'grace': GRACE, **bounds}),
            environ or {},
            lambda: self.now,
            self.codes.append,
        )
        if phase == TRAINING:
            self.watchdog.stepped(7)
        else:
            self.watchdog.enter(phase)

    def at(self, secs):
        """Comes to that time, and looks."""
        self.now = START + secs
        self.watchdog._end_if_due()
        return self

    def signal(self, signum, secs=0):
        self.now = START + secs
        self.watchdog._received(signum)
        return self.at(secs)

    def lose(self, ever_seen, secs=0):
        self.watchdog._note(gone=peers.SilentPeer('worker:0', 'host:1', ever_seen, 31.4))
        return self.at(secs)
