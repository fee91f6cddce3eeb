"""The process beside a run: when it looks, what it says, and how it ends."""

import os

import pytest

from estimator_trainer.monitoring.trackers import HPARAMS, Target
from estimator_trainer.tools.track import background
from estimator_trainer.tools.track.tracker import FAILED, FINISHED, KILLED, TrackerUnavailable

TARGET = Target(HPARAMS)


class Sends:
    def __init__(self, *results):
        self.results, self.asked = list(results), []

    def send(self, status, at):
        self.asked.append(status)
        if self.results and (error := self.results.pop(0)):
            raise error


class Told:
    """Orders: after so many waits that end without one comes `order`. Notes how long it was to wait."""

    def __init__(self, waits, order):
        self.left, self.order, self.waits = waits, order, []

    def wait(self, secs):
        self.waits.append(secs)
        self.left -= 1
        return None if self.left >= 0 else self.order


def follow(sender, orders, begun=lambda: True):
    said, now = [], iter(range(0, 10**6, 10))
    code = background.follow(sender, TARGET, orders, begun, said.append, 1, lambda: next(now))
    return code, said


def test_it_looks_now_and_then_and_at_the_end():
    sender, orders = Sends(), Told(2, '0')
    assert follow(sender, orders) == (0, [])
    assert sender.asked == [None, None, FINISHED] and orders.waits == [1, 15, 15]


def test_it_waits_until_the_files_tell_of_this_start():
    sender, begun = Sends(), iter([False, False, True])
    assert follow(sender, Told(3, '0'), lambda: next(begun))[0] == 0
    assert sender.asked == [None, FINISHED]
    sender = Sends()
    assert follow(sender, Told(1, '1'), lambda: False)[0] == 0
    assert sender.asked == [FAILED], 'what an earlier start has left is sent all the same'


def test_an_outage():
    sender, orders = Sends(TrackerUnavailable('refused'), TrackerUnavailable('refused'), None), Told(3, '0')
    code, said = follow(sender, orders)
    assert code == 0 and orders.waits == [1, 5, 10, 15]
    assert said == [
        'WARNING: tensorboard-hparams: refused; it is tried again, and the run is not affected',
        'tensorboard-hparams: it answers again',
    ]


@pytest.mark.parametrize('error', [TrackerUnavailable('refused'), OSError(28, 'No space left on device')])
def test_what_cannot_be_sent_at_the_end(error):
    sender = Sends(error)
    assert follow(sender, Told(0, '143'))[0] == 1
    assert sender.asked == [KILLED]


def test_a_run_that_was_killed():
    sender = Sends()
    assert follow(sender, Told(0, ''))[0] == 1 and sender.asked == []


def test_orders():
    ours, theirs = os.pipe()
    orders = background.Orders(ours)
    assert orders.wait(0) is None
    os.write(theirs, b'follow\n14')
    assert orders.wait(10) == 'follow' and orders.wait(0) is None
    os.write(theirs, b'3\n')
    assert orders.wait(10) == '143'
    os.close(theirs)
    assert orders.wait(None) == ''
    os.close(ours)
