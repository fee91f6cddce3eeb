"""The words of the last line of a cluster's terminal, and how they fit."""

import pytest

from estimator_trainer.monitoring import progress_line

STATUS = {
    'state': 'training',
    'step': 12_220,
    'time': 1000.0,
    'max_steps': 40_000,
    'examples_per_sec': 4480.2,
    'secs_left': 4321.0,
    'restarts': 1,
    'tasks': [
        {'name': 'worker:0', 'state': 'running'},
        {'name': 'worker:1', 'state': 'running'},
        {'name': 'evaluator:0', 'state': 'restarting'},
    ],
}
LAST = {'kind': 'train', 'step': 12_200, 'loss': 0.18714, 'time': 998.0}


@pytest.mark.parametrize(
    'width, line',
    [
        (
            200,
            'trains: step 12,220 of 40,000 (30 %), loss 0.1871, 4,480 examples/s, 1h12m left; '
            '2 of 3 tasks alive (evaluator:0 is restarting), 1 restart',
        ),
        (
            122,
            'trains: step 12,220 of 40,000 (30 %), loss 0.1871, 1h12m left; '
            '2 of 3 tasks alive (evaluator:0 is restarting), 1 restart',
        ),
        (97, 'trains: step 12,220 of 40,000 (30 %), loss 0.1871, 1h12m left; 2 of 3 tasks alive, 1 restart'),
        (77, 'step 12,220 of 40,000 (30 %), loss 0.1871, 1h12m left; 1 restart'),
        (37, 'step 12,220 of 40,000, 1h12m left'),
        (10, 'step 12,22'),
    ],
)
def test_the_least_is_left_out_first(width, line):
    assert progress_line.joined(progress_line.cluster_line(STATUS, LAST), width) == line


@pytest.mark.parametrize(
    'changes, line',
    [
        ({'state': 'starting', 'step': None}, 'starts: 2 of 3 tasks alive (evaluator:0 is restarting), 1 restart'),
        ({'max_steps': None, 'examples_per_sec': None, 'secs_left': None, 'tasks': [], 'restarts': 2},
         'trains: step 12,220, loss 0.1871; 0 of 0 tasks alive, 2 restarts'),
        ({'state': 'backing_off'},
         'waits before it restarts the tasks: step 12,220 of 40,000 (30 %), loss 0.1871; 1 restart'),
        ({'state': 'done'}, ''),
    ],
)  # fmt: skip
def test_what_is_told(changes, line):
    assert progress_line.joined(progress_line.cluster_line({**STATUS, **changes}, LAST)) == line


@pytest.mark.parametrize(
    'time, begins',
    [
        (998.0, 'trains: step 12,300 of 40,000 (30 %), loss 0.1871'),
        (900.0, 'trains: step 12,220 of 40,000 (30 %), 4,480 examples/s'),  # of an attempt that came further
    ],
)
def test_a_report_may_be_newer_than_the_board(time, begins):
    line = progress_line.joined(progress_line.cluster_line(STATUS, {**LAST, 'step': 12_300, 'time': time}))
    assert line.startswith(begins)


def test_step_and_speed_are_of_one_record():
    """training.json is up to two seconds old; after a kill the speed is that of the last line of metrics.jsonl."""
    ahead = {**LAST, 'step': 12_300, 'time': 1001.0, 'examples_per_sec': 40_379.3}
    said = progress_line.joined(progress_line.steps(STATUS, ahead))
    assert said == 'step 12,300 of 40,000 (30 %), loss 0.1871, 40,379 examples/s'
    del ahead['examples_per_sec']  # the first report of a start has measured none
    assert 'examples/s' not in progress_line.joined(progress_line.steps(STATUS, ahead))
    behind = {**LAST, 'examples_per_sec': 1199.0}
    assert '4,480 examples/s' in progress_line.joined(progress_line.steps(STATUS, behind))
