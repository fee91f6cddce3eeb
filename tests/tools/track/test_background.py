"""The process beside a run: when it looks, what it says, and how it ends."""

import os

import pytest

from estimator_trainer.monitoring.trackers import HPARAMS, Target
from estimator_trainer.tools.track import background
from estimator_trainer.tools.track.adapters import FAILED, FINISHED, KILLED, TrackerUnavailable


class Sends:
    target = Target(HPARAMS)

    def __init__(self, *results):
        self.results, self.asked, self.said = list(results), [], []
        self.say = self.said.append

    def send(self, status, at):
        self.asked.append(status)
        if self.results and (error := self.results.pop(0)):
            raise error


class Told:
    """Orders: after so many waits that end without one comes `order`. Notes how long it was to wait."""

    def __init__(self, waits, order):
        self.left, self.order, self.waits = waits, order, []

    def __call__(self, secs):
        self.waits.append(secs)
        self.left -= 1
        return None if self.left >= 0 else self.order


def follow(sender, orders, begun=lambda: True):
    return background.follow(sender, orders, begun, lambda: sum(orders.waits)), sender.said


def test_it_looks_now_and_then_and_at_the_end():
    sender, orders = Sends(), Told(2, '0')
    assert follow(sender, orders) == (0, [])
    assert sender.asked == [None, None, FINISHED] and orders.waits == [3, 15, 15]


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
    assert code == 0 and orders.waits == [3, 5, 10, 15]
    assert said == [
        'WARNING: tensorboard-hparams: refused; it is tried again, and the run is not affected',
        'tensorboard-hparams: it answers again',
    ]


def test_tries_and_words_become_rare():
    sender, orders = Sends(*[TrackerUnavailable('refused')] * 90, None, TrackerUnavailable('refused')), Told(92, '0')
    told = []
    sender.say = lambda line: told.append(sum(orders.waits) - 3)
    assert background.follow(sender, orders, lambda: True, lambda: sum(orders.waits)) == 0
    assert orders.waits[1:9] == [5, 10, 20, 40, 80, 160, 300, 300] and set(orders.waits[9:90]) == {300}
    answered = told[4]
    assert told[:4] == [0, 75, 915, 9315] and answered > 9315
    assert orders.waits[91:] == [15, 5] and told[5:] == [answered + 15, answered + 20], 'it begins anew after an answer'


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
    with open(ours, 'rb', buffering=0) as stdin:
        assert background.order(stdin, 0) is None
        os.write(theirs, b'follow\n143\n')
        assert background.order(stdin, 10) == 'follow' and background.order(stdin, 10) == '143'
        assert background.order(stdin, 0) is None
        os.close(theirs)
        assert background.order(stdin, None) == ''
