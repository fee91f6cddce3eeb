"""When a tracker that does not answer is tried again, and when that is said."""

from estimator_trainer.tools.track.background import Outage


def test_tries_and_words_become_rare():
    outage, now, said, pauses = Outage(), 0.0, [], []
    while now < 7 * 3600:
        if outage.failed(now):
            said.append(now)
        pauses.append(outage.pause)
        now += outage.pause
    assert pauses[:8] == [5, 10, 20, 40, 80, 160, 300, 300] and set(pauses[8:]) == {300}
    assert said == [0, 75, 915, 9315]


def test_it_begins_anew_after_an_answer():
    outage = Outage()
    assert outage.over(1.0) is None
    assert outage.failed(10.0) and not outage.failed(15.0)
    assert outage.over(40.0) == 30.0
    assert outage.failed(50.0) and outage.pause == 5
