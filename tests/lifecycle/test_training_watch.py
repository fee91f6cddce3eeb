"""lifecycle.training_watch: what an evaluator believes of training.json, old or new."""

import pytest

from estimator_trainer.lifecycle import peers, training_watch
from estimator_trainer.run_dir import training_file

MAX_STEPS, JOIN, LOST = 100, 60, 30
STARTING, ENDED, STOPPED = training_file.STARTING, training_file.ENDED, training_file.STOPPED
TRAINING, EVALUATING = training_file.TRAINING, training_file.EVALUATING
LOST_STATE, ABSENT = training_watch.LOST, training_watch.ABSENT
START = 1000


def file(state, beat=1, step=50, generation='', pid=11, time=5.0):
    return {'state': state, 'beat': beat, 'step': step, 'generation': generation, 'pid': pid, 'time': time}


def states(before, *looks, generation=''):
    """The states at looks (secs, file), by a watch that is made when `before` lies there."""
    there, now = before, START
    watch = training_watch.TrainingWatch(MAX_STEPS, JOIN, LOST, generation, lambda: there, clock=lambda: now)
    found = []
    for secs, there in looks:
        now = START + secs
        found.append(watch.look().state)
    return found


NEW = file(TRAINING)
LATER = file(TRAINING, beat=2, time=7.0)


@pytest.mark.parametrize(
    'looks, expected',
    [
        ([(0, {}), (59.9, {})], [STARTING, STARTING]),
        ([(0, {}), (60, {})], [STARTING, ABSENT]),
        ([(59, NEW), (62, LATER)], [TRAINING, TRAINING]),
        ([(59, NEW), (88.9, NEW), (89, NEW)], [TRAINING, TRAINING, LOST_STATE]),
        ([(59, NEW), (89, NEW), (90, LATER)], [TRAINING, LOST_STATE, TRAINING]),
        (
            [(1, file(STARTING)), (3, file(TRAINING, 2)), (5, file(EVALUATING, 3)), (7, file(ENDED, 4))],
            [STARTING, TRAINING, EVALUATING, ENDED],
        ),
        ([(1, file(STARTING)), (31, file(STARTING))], [STARTING, LOST_STATE]),
        ([(1, NEW), (2, file(STOPPED, 2)), (500, file(STOPPED, 2))], [TRAINING, STOPPED, STOPPED]),
        ([(1, NEW), (2, file(ENDED, 2)), (500, file(ENDED, 2))], [TRAINING, ENDED, ENDED]),
        ([(1, NEW), (2, {}), (31, {})], [TRAINING, None, None]),
    ],
    ids=[
        'waits',
        'nobody came',
        'came late',
        'silent',
        'back again',
        'all states',
        'silent at start',
        'stopped',
        'ended early',
        'file removed',
    ],
)
def test_a_run_from_its_beginning(looks, expected):
    assert states({}, *looks) == expected


@pytest.mark.parametrize(
    'old, looks, expected',
    [
        (file(TRAINING), [(0, 'old'), (59, 'old'), (60, 'old')], [STARTING, STARTING, ABSENT]),
        (file(TRAINING), [(0, 'old'), (50, file(STARTING, pid=12))], [STARTING, STARTING]),
        (file(TRAINING), [(50, file(TRAINING, pid=12)), (80, file(TRAINING, pid=12))], [TRAINING, LOST_STATE]),
        (file(STOPPED), [(0, 'old'), (60, 'old')], [STARTING, ABSENT]),
        (file(STOPPED), [(1, file(TRAINING, pid=12))], [TRAINING]),
        (file(ENDED), [(0, 'old'), (59, 'old'), (60, 'old')], [STARTING, STARTING, ENDED]),
        (file(ENDED), [(0, 'old'), (30, file(STARTING, pid=12))], [STARTING, STARTING]),
        (file(ENDED, step=MAX_STEPS), [(0, 'old')], [ENDED]),
        (file(ENDED, step=MAX_STEPS + 1), [(0, 'old')], [ENDED]),
        (file(ENDED, step=MAX_STEPS - 1), [(0, 'old')], [STARTING]),
        (file(ENDED, step=None), [(0, 'old'), (60, 'old')], [STARTING, ENDED]),
        (file(TRAINING, step=MAX_STEPS), [(0, 'old')], [STARTING]),
    ],
)
def test_what_an_earlier_run_has_left(old, looks, expected):
    looks = [(secs, old if there == 'old' else there) for secs, there in looks]
    assert states(old, *looks) == expected


@pytest.mark.parametrize(
    'old, generation, expected',
    [
        (file(TRAINING, generation='g1'), 'g1', [TRAINING, TRAINING, LOST_STATE]),  # an evaluator comes back
        (file(TRAINING, generation='g0'), 'g1', [STARTING, STARTING, STARTING]),
        (file(TRAINING, generation=''), '', [STARTING, STARTING, STARTING]),
        (file(ENDED, generation='g1'), 'g1', [ENDED, ENDED, ENDED]),
        (file(ENDED, generation='g0'), 'g1', [STARTING, STARTING, STARTING]),
        (file(STOPPED, generation='g1'), 'g1', [STOPPED, STOPPED, STOPPED]),
        (file(STOPPED, generation='g0'), 'g1', [STARTING, STARTING, STARTING]),
    ],
)
def test_of_this_generation(old, generation, expected):
    assert states(old, (0, old), (29, old), (31, old), generation=generation) == expected


@pytest.mark.parametrize('change', [{'pid': 12}, {'time': 6.0}, {'beat': 2}])
def test_any_sign_of_life_counts(change):
    assert states(NEW, (LOST, {**NEW, **change})) == [TRAINING]


def test_seconds_since_the_last_sign():
    there, now = NEW, START
    watch = training_watch.TrainingWatch(MAX_STEPS, JOIN, LOST, '', lambda: there, clock=lambda: now)
    now = START + 70
    assert watch.look() == training_watch.News(ABSENT, 70)
    there, now = LATER, START + 75
    watch.look()
    now = START + 110
    assert watch.look() == training_watch.News(LOST_STATE, 35)


def every_second(secs, files, greets=lambda now: False, stuck_secs=1800):
    """Looks every second; the seconds at which the chief is first lost."""
    now = 0
    watch = training_watch.TrainingWatch(
        MAX_STEPS,
        JOIN,
        LOST,
        '',
        lambda: files(now),
        greets=lambda: greets(now),
        stuck_secs=stuck_secs,
        clock=lambda: now,
    )
    for now in range(secs):
        if watch.look().state == LOST_STATE:
            return now
    return None


def beats(now):
    """Up to second 10."""
    return file(TRAINING, beat=min(now, 10))


def test_a_chief_that_greets_and_does_not_write_is_stuck_and_not_lost():
    assert every_second(100, beats) == 10 + LOST
    assert every_second(100, beats, greets=lambda now: True) is None
    assert 10 + 1800 <= every_second(3000, beats, lambda now: True) <= 10 + 1800 + LOST
    assert 10 + 60 <= every_second(3000, beats, lambda now: True, stuck_secs=60) <= 10 + 60 + LOST
    assert 50 <= every_second(300, beats, lambda now: now < 50) <= 50 + LOST


def test_a_chief_that_writes_is_not_asked():
    assert every_second(100, lambda now: file(TRAINING, beat=now // 2), greets=lambda now: 1 / 0) is None


def test_a_pause_of_the_evaluator_is_no_silence_of_the_chief(monkeypatch):
    """All of an allocation were suspended, the chief as well."""
    now = 0
    monkeypatch.setattr(training_watch, 'AwakeClock', lambda: peers.AwakeClock(lambda: now))
    watch = training_watch.TrainingWatch(MAX_STEPS, JOIN, LOST, '', lambda: beats(now))
    for now in [*range(12), *range(1000, 1024)]:
        assert watch.look().state == (TRAINING if now else STARTING)
    states = {}
    for now in range(1024, 1060):
        states[now] = watch.look().state
    assert states[1025] == LOST_STATE


def test_nobody_greets_where_there_is_no_address():
    assert training_watch.greeting_of(None)() is False


@pytest.mark.parametrize(
    'looks, elsewhere_at',
    [
        # (seconds, seen in the folder, answers)
        ([(0, False, True), (9, False, True), (10, False, True)], 10),
        ([(0, False, False), (30, False, False)], None),  # not started yet
        ([(0, False, True), (5, True, True), (60, True, True)], None),
        ([(0, False, True), (5, False, False), (9, False, True), (18, False, True), (19, False, True)], 19),
    ],
)
def test_a_chief_that_answers_and_is_not_seen_writes_elsewhere(looks, elsewhere_at):
    now = {}
    watch = training_watch.FolderWatch(lambda: now['seen'], lambda: now['answers'], 10)
    found = None
    for secs, seen, answers in looks:
        now.update(seen=seen, answers=answers)
        if watch.is_elsewhere(lambda: secs) and found is None:
            found = secs
    assert found == elsewhere_at
