"""training.json in, status.json out, the lock, the kernel's counter. No process, no clock."""

import json

import pytest

from estimator_trainer.run_dir import file_names, protocol
from estimator_trainer.run_dir.training_file import TrainingStatus
from estimator_trainer.supervisor.policy.causes import TaskEnd
from estimator_trainer.supervisor.processes import oom
from estimator_trainer.supervisor.reports import status
from estimator_trainer.supervisor.reports.status import View
from estimator_trainer.supervisor.reports.training_status import StallClock, StepPace, TrainingFollower


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


def test_no_timeout_no_stall(tmp_path):
    watch = TrainingFollower(str(tmp_path), 'g', 0, now=0)
    watch.look(1e9)
    assert not watch.stalled


def pace(*seen, max_steps=100):
    measured, left = StepPace(), None
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
    measured = StepPace()
    assert measured.secs_left(TrainingStatus('training', 50, 100), 0) is None
    assert measured.secs_left(TrainingStatus('starting'), 10) is None
    assert measured.secs_left(TrainingStatus('training', 9, 100), 12) is None
    assert measured.secs_left(TrainingStatus('training', 10, 100), 20) is None
    assert measured.secs_left(TrainingStatus('training', 20, 100), 30) == 80


@pytest.mark.parametrize(
    'view, found, state',
    [
        (View(), None, 'starting'),
        (View(), TrainingStatus('starting'), 'starting'),
        (View(), TrainingStatus('training'), 'training'),
        (View(), TrainingStatus('evaluating'), 'evaluating'),
        (View(), TrainingStatus('ended'), 'evaluating'),
        (View(), TrainingStatus('stopped'), 'stopping'),
        (View(stopping=True), TrainingStatus('training'), 'stopping'),
        (View(draining=True), TrainingStatus('training'), 'evaluating'),
        (View(draining=True), None, 'evaluating'),
    ],
)
def test_state(view, found, state):
    assert status.state(view, found) == state


def test_states_of_tasks():
    ended = [
        TaskEnd('evaluator:0', 1, 1),
        TaskEnd('evaluator:0', -9, 2, life=2),
        TaskEnd('worker:1', 0, 3),
        TaskEnd('worker:2', -9, 3),
        TaskEnd('worker:3', -9, 3, told=9),
        TaskEnd('worker:4', 1, 3, never_started=True),
    ]
    names = [*(f'worker:{i}' for i in range(6)), 'evaluator:0']
    found = status.task_views(names, {'worker:0': 77}, ['evaluator:0'], ended)
    assert [(task.pid, task.state) for task in found] == [
        (77, 'running'),
        (None, 'done'),
        (None, 'failed'),
        (None, 'stopped'),
        (None, 'failed'),
        (None, 'not started'),
        (None, 'restarting'),
    ]
    assert status.of_tasks(View(tasks=found[:1]), {'worker:0': 'a:1'}) == [
        {'name': 'worker:0', 'pid': 77, 'state': 'running', 'address': 'a:1'}
    ]


def test_a_checkpoint_of_an_earlier_gang_is_known():
    assert status.of_training(None, 500)['checkpoint_step'] == 500
    assert status.of_training(TrainingStatus('starting'), 500)['checkpoint_step'] == 500
    assert status.of_training(TrainingStatus('training', checkpoint_step=0), 500)['checkpoint_step'] == 0


def a_status(time, **values):
    return {
        'state': 'training',
        'attempt': 1,
        'restarts': 0,
        'checkpoint_step': 0,
        'tasks': [],
        'step': 0,
        'time': time,
        **values,
    }


def test_the_status_is_written_at_changes_and_every_two_seconds(tmp_path):
    file = status.StatusFile(str(tmp_path), print)
    written = []
    for value in (
        a_status(0),
        a_status(1, step=1),
        a_status(2, step=2),
        a_status(2.5, state='stopping'),
        a_status(3, state='stopping'),
        a_status(3.1, state='stopping', tasks=['a']),
        a_status(1, state='stopping', tasks=['a']),  # somebody has set the clock
    ):
        file.write(value)
        written.append(json.loads((tmp_path / 'status.json').read_text())['time'])
    assert written == [0, 0, 2, 2.5, 2.5, 3.1, 1]


def test_what_cannot_be_written_is_said_once(tmp_path):
    said = []
    file = status.StatusFile(str(tmp_path / 'none'), said.append)
    for time in range(0, 10, 2):
        file.write(a_status(time))
    assert said == [f'{tmp_path}/none/status.json cannot be written: No such file or directory; the run goes on']
    status.StatusFile(None, said.append).write(a_status(0))
    assert len(said) == 1


def test_the_kernels_counter(tmp_path):
    groups, root = tmp_path / 'cgroup', tmp_path / 'fs'
    (root / 'pods' / 'us').mkdir(parents=True)
    assert oom.kills(groups, root) is None
    (root / 'memory.events').write_text('low 0\noom 7\noom_kill 5\noom_group_kill 1\n')
    assert oom.kills(groups, root) == 5  # a container sees its own group as the root
    groups.write_text('4:memory:/elsewhere\n0::/pods/us\n')
    assert oom.kills(groups, root) == 5
    (root / 'pods' / 'us' / 'memory.events').write_text('oom_kill 2\n')
    assert oom.kills(groups, root) == 2
    (root / 'pods' / 'us' / 'memory.events').write_text('something else\n')
    assert oom.kills(groups, root) == 5
