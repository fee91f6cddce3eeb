"""lifecycle.peers: when a peer is lost, and how many are asked how often; by a probe and a clock of the test's."""

import collections

import pytest

from estimator_trainer.lifecycle import peers
from estimator_trainer.lifecycle.probes import PROBE_SECS, Answer

GREETS, REFUSES, SILENT, NOT_ASKED = Answer.GREETS, Answer.REFUSES, Answer.SILENT, Answer.NOT_ASKED
JOIN, LOST, START = 60, 30, 1000
A, B = 'worker:1', 'worker:2'
NOBODY = {}
BOTH = {A: GREETS, B: GREETS}
ONLY_A = {A: GREETS}
CLOSED = {A: GREETS, B: REFUSES}


class Watch:
    """A PeerWatch whose peers answer as told, looked at once a second from START on. SILENT unless told."""

    def __init__(self, names=(A, B), **kwargs):
        self.now, self.answers, self.probe_secs = START, NOBODY, 0.0
        self.rounds = []  # addresses
        self.watch = peers.PeerWatch({name: name for name in names}, JOIN, LOST, probe=self._probe, now=START, **kwargs)

    def _probe(self, addresses):
        self.rounds.append((self.now, list(addresses)))
        self.now += self.probe_secs
        return {address: self.answers.get(address, SILENT) for address in addresses}

    def look(self, secs=1):
        """After so many seconds, at once."""
        self.now += secs
        return self.watch.look(lambda: self.now)

    def until(self, secs, answers):
        """Looks every second up to and with `secs`. The first one that is gone, and when it is said."""
        self.answers = answers
        while self.now < START + secs:
            gone = self.look()
            if gone:
                return gone.name, gone.ever_seen, gone.secs, self.now - START
        return None


@pytest.mark.parametrize(
    'times, gone',
    [
        ([(59, NOBODY)], None),
        ([(99, NOBODY)], (A, False, 60, 60)),
        ([(99, ONLY_A)], (B, False, 60, 60)),
        ([(59, NOBODY), (99, BOTH)], None),
        ([(10, BOTH), (40, ONLY_A)], None),
        ([(10, BOTH), (99, ONLY_A)], (B, True, 30, 41)),
        ([(10, BOTH), (39, ONLY_A), (40, BOTH), (69, ONLY_A)], None),  # back in time
        ([(10, ONLY_A), (99, {B: GREETS})], (A, True, 30, 41)),
    ],
    ids=[
        'has not come yet',
        'never came',
        'the other never came',
        'came late',
        'silent',
        'lost',
        'came back',
        'first one lost',
    ],
)
def test_when_a_peer_is_gone(times, gone):
    watch = Watch()
    results = [watch.until(*time) for time in times]
    assert results == [None] * (len(times) - 1) + [gone]


@pytest.mark.parametrize(
    'times, gone',
    [
        ([(99, NOBODY)], (A, False, 60, 60)),
        ([(10, {B: GREETS}), (99, NOBODY)], (A, False, 60, 60)),
        ([(50, {B: GREETS}), (99, NOBODY)], (A, False, 81, 81)),
        ([(10, BOTH), (500, ONLY_A)], None),
        ([(10, BOTH), (40, CLOSED), (41, {A: REFUSES, B: REFUSES})], None),  # workers may come back
    ],
)
def test_any_is_enough(times, gone):
    watch = Watch(any_is_enough=True)
    results = [watch.until(*time) for time in times]
    assert results == [None] * (len(times) - 1) + [gone]


@pytest.mark.parametrize(
    'times, gone',
    [
        ([(10, BOTH), (14, CLOSED)], None),
        ([(10, BOTH), (20, CLOSED)], (B, True, 4, 15)),
        ([(10, BOTH), (13, CLOSED), (14, ONLY_A), (17, CLOSED)], None),  # its machine was silent between
        ([(59, CLOSED)], None),  # it has not come yet
    ],
    ids=['not long enough', 'long enough', 'not all the time', 'never came'],
)
def test_a_port_that_is_closed_again(times, gone):
    watch = Watch()
    results = [watch.until(*time) for time in times]
    assert results == [None] * (len(times) - 1) + [gone]


def test_silences():
    watch = Watch()
    watch.until(5, BOTH)
    assert watch.watch.silences(watch.now) == {A: 0, B: 0}
    watch.until(15, ONLY_A)
    assert watch.watch.silences(watch.now) == {A: 0, B: 9}


def test_one_probe_in_vain_is_an_accident():
    watch = peers.PeerWatch({A: A}, JOIN, 0.5, probe=lambda addresses: {A: answers.pop(0)}, now=START)
    answers = [GREETS, SILENT, SILENT, GREETS, SILENT, SILENT, SILENT]
    gone = [watch.look(lambda: START + secs) for secs in range(1, 8)]
    assert [bool(each) for each in gone] == [False] * 6 + [True] and gone[-1].secs == 2


# This process's own pauses


@pytest.mark.parametrize('pause', [10, 40, 10_000])
def test_after_a_pause_of_this_process_silence_is_counted_anew(pause):
    watch = Watch()
    assert watch.until(10, BOTH) is None
    watch.answers = ONLY_A
    assert watch.look(pause) is None  # this probe was in vain, and what was before is not known
    assert watch.until(10 + pause + LOST - 1, ONLY_A) is None
    assert watch.until(10 + pause + LOST + 1, ONLY_A) == (B, True, LOST, 10 + pause + LOST)


def test_silence_before_a_pause_does_not_count():
    watch = Watch()
    watch.until(10, BOTH)
    assert watch.until(39, ONLY_A) is None
    assert watch.look(40) is None
    assert watch.until(79 + LOST - 1, ONLY_A) is None
    assert watch.until(200, ONLY_A) == (B, True, LOST, 79 + LOST)


def test_a_pause_in_the_midst_of_a_probe():
    """The global lock was held while a probe waited for its greeting."""
    watch = Watch()
    watch.until(10, BOTH)
    watch.answers, watch.probe_secs = ONLY_A, 40.0
    assert watch.look() is None
    watch.probe_secs = 0.0
    assert watch.until(51 + LOST - 1, ONLY_A) is None
    assert watch.until(200, BOTH) is None


def test_a_pause_is_no_time_to_come_in():
    watch = Watch()
    assert watch.until(50, ONLY_A) is None
    assert watch.look(1000) is None
    assert watch.until(1059, ONLY_A) is None
    assert watch.until(1200, ONLY_A) == (B, False, 60, 1060)


def test_a_closed_port_counts_anew_after_a_pause():
    watch = Watch()
    watch.until(10, BOTH)
    watch.until(12, CLOSED)
    assert watch.look(40) is None
    assert watch.until(55, CLOSED) is None
    assert watch.until(56, CLOSED) == (B, True, 4, 56)


def test_probes_that_take_their_time_are_no_pause():
    watch = Watch()
    watch.until(10, BOTH)
    watch.probe_secs = float(PROBE_SECS)
    gone = watch.until(99, ONLY_A)
    assert gone[:2] == (B, True) and LOST <= gone[2] <= LOST + 4 and gone[3] <= 10 + LOST + 5


def test_a_process_without_descriptors_takes_nobody_for_lost():
    watch = Watch()
    watch.until(10, BOTH)
    assert watch.until(500, {A: NOT_ASKED, B: NOT_ASKED}) is None
    assert watch.until(540, {A: NOT_ASKED, B: SILENT}) == (B, True, 30, 531)


# Many peers


THOUSAND = [f'worker:{number}' for number in range(1, 1000)]


def test_few_peers_are_asked_every_second():
    watch = Watch()
    watch.until(10, BOTH)
    assert watch.rounds == [(START + secs, [A, B]) for secs in range(1, 11)]


@pytest.mark.parametrize(
    'names, askers, secs',
    [([A], 1, 1), ([A], 99, 1), (THOUSAND[:100], 1, 1), ([A], 1000, 10), (THOUSAND, 1, 9.99), (THOUSAND, 5000, 50)],
)
def test_how_often_a_peer_is_asked(names, askers, secs):
    assert peers.every_secs(len(names), askers) == secs


def test_the_chief_of_a_thousand_spreads_its_probes():
    watch = Watch(THOUSAND)
    everybody = dict.fromkeys(THOUSAND, GREETS)
    assert watch.until(100, everybody) is None
    sizes = [len(addresses) for _, addresses in watch.rounds[20:]]
    assert max(sizes) <= peers.MOST_A_SECOND and min(sizes) > 0.7 * peers.MOST_A_SECOND
    counts = collections.Counter(address for _, addresses in watch.rounds for address in addresses)
    assert len(counts) == 999 and 9 <= min(counts.values()) <= max(counts.values()) <= 11


def test_a_thousand_workers_ask_one_chief_at_different_moments():
    moments = collections.Counter()
    for _ in range(1000):
        watch = Watch([A], askers=999)
        watch.until(40, {A: GREETS})
        moments.update(now for now, addresses in watch.rounds if addresses)
    assert max(moments.values()) < 1.5 * peers.MOST_A_SECOND


def test_one_of_a_thousand_is_lost():
    watch = Watch(THOUSAND)
    everybody = dict.fromkeys(THOUSAND, GREETS)
    watch.until(50, everybody)
    gone = watch.until(200, {**everybody, 'worker:7': REFUSES})
    assert gone[:2] == ('worker:7', True) and gone[3] <= 50 + 10 + 4 + 2  # a round, CLOSED_SECS
    watch = Watch(THOUSAND)
    watch.until(50, everybody)
    watch.probe_secs = float(PROBE_SECS)
    gone = watch.until(200, {**everybody, 'worker:7': SILENT})
    assert gone[:2] == ('worker:7', True) and gone[3] <= 50 + 4 * 10 + LOST + 4


def test_all_of_a_thousand_are_lost():
    watch = Watch(THOUSAND)
    watch.until(50, dict.fromkeys(THOUSAND, GREETS))
    watch.probe_secs = float(PROBE_SECS)
    gone = watch.until(500, NOBODY)
    assert gone[1] and gone[3] <= 50 + LOST + 20


def test_peers_that_are_lost_for_good_do_not_keep_the_others_from_being_asked():
    """A parameter server whose workers have mostly left."""
    watch = Watch(THOUSAND, any_is_enough=True)
    watch.until(50, dict.fromkeys(THOUSAND, GREETS))
    left = dict.fromkeys(THOUSAND[:10], GREETS)
    assert watch.until(250, left) is None
    last = [now for now, addresses in watch.rounds if THOUSAND[0] in addresses]
    assert max(later - now for now, later in zip(last[10:], last[11:])) < 40


def test_one_of_a_thousand_never_came():
    watch = Watch(THOUSAND)
    assert watch.until(500, dict.fromkeys(THOUSAND[1:], GREETS)) == ('worker:1', False, 60, 60)


# Beside the watch


def test_without_peers_nobody_is_asked():
    assert peers.PeerWatch({}, 0, 0, probe=lambda addresses: 1 / 0).look() is None


def test_who_is_missing_now():
    watch = Watch([A, B, 'worker:3'])
    watch.until(5, {**BOTH, 'worker:3': GREETS})
    watch.answers = {A: GREETS, 'worker:3': NOT_ASKED}
    (missing,) = watch.watch.missing_now()
    assert (missing.name, missing.address, missing.ever_seen) == (B, B, True)


def test_two_names_of_one_address_both_answer():
    watch = peers.PeerWatch(
        {'x': 'a:1', 'y': 'a:1'}, JOIN, LOST, probe=lambda found: dict.fromkeys(found, GREETS), now=START
    )
    for secs in range(JOIN + 2):
        assert watch.look(lambda: START + secs) is None
