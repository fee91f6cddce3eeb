"""monitoring.training_progress: training.json of a gang, by a clock of the test's. No process."""

import threading

import pytest

from estimator_trainer.monitoring.training_progress import StallClock, StepRate, TrainingFollower
from estimator_trainer.run_dir import file_names, protocol
from estimator_trainer.run_dir.training_file import TrainingStatus
from estimator_trainer.this_process import hung_files

BOUND_SECS = 120


def board(folder, **values):
    value = {'state': 'training', 'step': 1, 'generation': 'g', **values}
    protocol.write_json(str(folder / file_names.TRAINING), value)


@pytest.mark.parametrize(
    'value, found',
    [
        ({}, None),
        ({'state': 'dancing'}, None),
        ({'state': 'training'}, TrainingStatus('training')),
        (
            {
                'state': 'ended',
                'step': 5,
                'max_steps': 5,
                'checkpoint_step': 5,
                'generation': 'g',
                'examples_per_sec': 2.5,
            },
            TrainingStatus('ended', 5, 5, 5, 2.5, 'g'),
        ),
        (
            {'state': 'training', 'step': '5', 'max_steps': 1.5, 'checkpoint_step': True, 'examples_per_sec': 'fast'},
            TrainingStatus('training'),
        ),
    ],
)
def test_training_json_may_hold_anything(value, found):
    assert TrainingStatus.parse(value) == found


def test_what_another_gang_wrote_is_not_there(tmp_path):
    board(tmp_path, generation='old', step=99)
    watch = TrainingFollower(str(tmp_path), 'g', 0, now=0)
    assert watch.look(0) and watch.training is None
    board(tmp_path, step=7)
    assert watch.look(2) and watch.training.step == 7
    board(tmp_path, generation='newer')
    assert watch.look(4) and watch.training.step == 7


def test_looks_are_a_second_apart(tmp_path):
    watch = TrainingFollower(str(tmp_path), 'g', 0, now=10)
    assert [watch.look(now) for now in (10, 10.5, 10.99, 11, 11.5, 12)] == [True, False, False, True, False, True]
    assert watch.next_look == 13


def test_without_a_model_dir_nobody_looks():
    watch = TrainingFollower(None, 'g', 1, now=0)
    assert watch.next_look is None
    assert not watch.look(1000) and not watch.stalled
    watch.look_now()


def still(*seen):
    clock, result = StallClock(0), None
    for now, what in seen:
        result = clock.still_secs(what, now)
    return result


@pytest.mark.parametrize(
    'seen, secs',
    [
        ([(10, None)], 10),  # nobody has written anything yet
        ([(10, None), (20, TrainingStatus('starting'))], 0),
        ([(now, TrainingStatus('starting')) for now in (20, 30, 40, 50)], 30),
        ([(20, TrainingStatus('starting', prepared=1)), (50, TrainingStatus('starting', prepared=2))], 0),
        ([(20, TrainingStatus('starting', prepared=2)), (25, TrainingStatus('starting', prepared=2))], 5),
        (
            [(20, TrainingStatus('starting')), (21, TrainingStatus('starting')), (9999, TrainingStatus('starting'))],
            11,
        ),  # a pause
        ([(10, TrainingStatus('training', 5)), (20, TrainingStatus('training', 6))], 0),
        ([(10, TrainingStatus('training', 5)), (20, TrainingStatus('training', 5))], 10),
        ([(10, TrainingStatus('training', 5, checkpoint_step=1)), (20, TrainingStatus('training', 5))], 10),
        ([(10, TrainingStatus('training', 5)), (20, TrainingStatus('starting', 5))], 0),
        ([(10, TrainingStatus('evaluating', 5)), (9999, TrainingStatus('evaluating', 5))], 0),
        ([(10, TrainingStatus('ended', 5)), (9999, TrainingStatus('ended', 5))], 0),
        ([(10, TrainingStatus('stopped', 5)), (9999, TrainingStatus('stopped', 5))], 0),
        ([(10, TrainingStatus('evaluating', 5)), (99, TrainingStatus('training', 5))], 0),
    ],
)
def test_how_long_nothing_has_moved(seen, secs):
    assert still(*seen) == secs


def test_a_stall(tmp_path):
    board(tmp_path, step=5)
    watch = TrainingFollower(str(tmp_path), 'g', 30, now=0)
    stalled = []
    for now in range(0, 40, 2):
        watch.look(now)
        stalled.append(watch.stalled)
    assert stalled == [False] * 15 + [True] * 5
    board(tmp_path, step=6)
    watch.look(50)
    assert not watch.stalled


def test_a_file_system_that_hangs_is_no_stall(tmp_path):
    board(tmp_path, step=5)
    answers = threading.Event()
    files = hung_files.BoundedFiles(lambda text: None, 'it', 0.01)
    watch = TrainingFollower(str(tmp_path), 'g', 30, 0, files)
    files.call(lambda: answers.wait(BOUND_SECS), None)
    assert all(watch.look(now) for now in range(0, 100, 2)) and not watch.stalled and watch.training is None
    answers.set()
    assert files.wait(60)
    files._secs = BOUND_SECS
    assert watch.look(100) and watch.training.step == 5 and not watch.stalled


def test_no_timeout_no_stall(tmp_path):
    watch = TrainingFollower(str(tmp_path), 'g', 0, now=0)
    watch.look(1e9)
    assert not watch.stalled


def pace(*seen, max_steps=100):
    measured, left = StepRate(), None
    assert measured.secs_left(TrainingStatus('training', -1, max_steps), -1000) is None  # the first steps are slow
    for now, step in seen:
        left = measured.secs_left(TrainingStatus('training', step, max_steps), now)
    return left


def test_the_time_that_is_left():
    assert pace((0, 10)) is None
    assert pace((0, 10), (10, 20)) == 80
    assert pace((0, 10), (10, 20), (20, 20)) == 160  # it has become slower
    assert pace((0, 0), (50, 10), (100, 20), (200, 40)) == 300
    assert pace((0, 90), (1, 100)) == 0
    assert pace((0, 10), (10, 20), max_steps=None) is None


def test_what_happened_before_a_restore_does_not_count():
    measured = StepRate()
    assert measured.secs_left(TrainingStatus('training', 50, 100), 0) is None
    assert measured.secs_left(TrainingStatus('starting'), 10) is None
    assert measured.secs_left(TrainingStatus('training', 9, 100), 12) is None
    assert measured.secs_left(TrainingStatus('training', 10, 100), 20) is None
    assert measured.secs_left(TrainingStatus('training', 20, 100), 30) == 80
