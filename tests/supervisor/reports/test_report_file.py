"""status.json and report.json: how the tasks of a gang are, and when it is written. No process, no clock."""

import json
import threading

import pytest

from estimator_trainer.run_dir.training_file import TrainingStatus
from estimator_trainer.supervisor.policy.causes import TaskEnd
from estimator_trainer.supervisor.reports import report_file
from estimator_trainer.supervisor.reports.report_file import GangView
from estimator_trainer.this_process import hung_files

BOUND_SECS = 120


@pytest.mark.parametrize(
    'view, found, state',
    [
        (GangView(), None, 'starting'),
        (GangView(), TrainingStatus('starting'), 'starting'),
        (GangView(), TrainingStatus('training'), 'training'),
        (GangView(), TrainingStatus('evaluating'), 'evaluating'),
        (GangView(), TrainingStatus('ended'), 'evaluating'),
        (GangView(), TrainingStatus('stopped'), 'stopping'),
        (GangView(stopping=True), TrainingStatus('training'), 'stopping'),
        (GangView(draining=True), TrainingStatus('training'), 'evaluating'),
        (GangView(draining=True), None, 'evaluating'),
    ],
)
def test_state(view, found, state):
    assert report_file.state(view, found) == state


def test_states_of_tasks():
    ended = [
        TaskEnd('evaluator:0', 1, 1),
        TaskEnd('evaluator:0', -9, 2, life=2),
        TaskEnd('worker:1', 0, 3),
        TaskEnd('worker:2', -9, 3),
        TaskEnd('worker:3', -9, 3, last_signal=9),
        TaskEnd('worker:4', 1, 3, never_started=True),
    ]
    names = [*(f'worker:{i}' for i in range(6)), 'evaluator:0']
    found = report_file.task_states(names, {'worker:0': 77}, ['evaluator:0'], ended)
    assert [(task['pid'], task['state']) for task in found] == [
        (77, 'running'),
        (None, 'done'),
        (None, 'failed'),
        (None, 'stopped'),
        (None, 'failed'),
        (None, 'not started'),
        (None, 'restarting'),
    ]
    assert report_file.task_fields(GangView(tasks=found[:1]), {'worker:0': 'a:1'}) == [
        {'name': 'worker:0', 'pid': 77, 'state': 'running', 'address': 'a:1'}
    ]


def test_a_checkpoint_of_an_earlier_gang_is_known():
    assert report_file.training_fields(None, 500)['checkpoint_step'] == 500
    assert report_file.training_fields(TrainingStatus('starting'), 500)['checkpoint_step'] == 500
    assert report_file.training_fields(TrainingStatus('training', checkpoint_step=0), 500)['checkpoint_step'] == 0


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
    file = report_file.StatusFile(str(tmp_path), print)
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


def test_a_file_system_that_hangs_holds_up_the_last_word_alone(tmp_path):
    file = report_file.StatusFile(str(tmp_path), lambda text: None)
    answers, file.files = threading.Event(), hung_files.BoundedFiles(lambda text: None, 'it', 0.01)
    file.files.call(lambda: answers.wait(BOUND_SECS), None)
    file.write(a_status(0))
    assert not (tmp_path / 'status.json').exists()
    threading.Timer(0.01, answers.set).start()
    file.write(a_status(1, state='done', exit_code=0))
    assert json.loads((tmp_path / 'status.json').read_text())['state'] == 'done'


def test_what_cannot_be_written_is_said_once(tmp_path):
    said = []
    file = report_file.StatusFile(str(tmp_path / 'none'), said.append)
    for time in range(0, 10, 2):
        file.write(a_status(time))
    assert said == [f'{tmp_path}/none/status.json cannot be written: No such file or directory; the run goes on']
    report_file.StatusFile(None, said.append).write(a_status(0))
    assert len(said) == 1
