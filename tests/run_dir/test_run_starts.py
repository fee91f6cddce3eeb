"""run_starts: what the files of a model_dir tell of the starts before this one."""

import json

from estimator_trainer.run_dir import run_starts
from estimator_trainer.run_dir.run_folder import RunFolder

FIRST = {'exit_code': 143, 'started': 10.0, 'ended': 20.0, 'secs': 10.0, 'restarts': 0, 'attempts': [{'attempt': 1}]}
STATUS = {
    'state': 'training',
    'attempt': 2,
    'generation': '2-ab',
    'restarts': 1,
    'step': 30,
    'max_steps': 100,
    'checkpoint_before': 10,
    'checkpoint_step': 20,
    'tasks': [
        {'name': 'worker:0', 'state': 'running', 'address': 'a:1'},
        {'name': 'worker:1', 'state': 'not started', 'address': 'a:2'},
    ],
    'log_dir': '/m/logs/attempt-3',
    'started': 30.0,
    'attempt_started': 35.0,
    'attempts': [{'attempt': 1}],
    'time': 41.5,
}


def test_a_report_of_an_older_version_is_the_first_start():
    assert run_starts.starts({}, FIRST, {}, {}) == [{**FIRST, 'start': 1}]


def test_the_starts_of_a_report_and_its_own():
    report = {**FIRST, 'start': 7, 'started': 30.0, 'earlier_starts': [{**FIRST, 'start': 6}]}
    found = run_starts.starts({}, report, {'started': 30.0, 'state': 'done'}, {})
    assert [(each['start'], each['started']) for each in found] == [(6, 10.0), (7, 30.0)]
    assert not any('earlier_starts' in each for each in found)


def test_a_supervisor_that_was_killed_is_known_by_its_status():
    found = run_starts.starts({'earlier_starts': [{**FIRST, 'start': 1}]}, {}, STATUS, {})
    assert [each['start'] for each in found] == [1, 2]
    killed = found[1]
    assert (killed['exit_code'], killed['started'], killed['ended'], killed['secs']) == (None, 30.0, 41.5, 11.5)
    assert killed['restarts'] == 1 and [each['attempt'] for each in killed['attempts']] == [1, 2]
    last = killed['attempts'][1]
    assert (last['why'], last['secs'], last['workers'], last['log_dir']) == ('lost', 6.5, 1, '/m/logs/attempt-3')
    assert (last['checkpoint_before'], last['step'], last['checkpoint_step'], last['steps_lost']) == (10, 30, 20, 10)
    assert [(task['name'], task['how'], task['secs']) for task in last['tasks']] == [
        ('worker:0', 'killed with the supervisor', 6.5)
    ]


def test_the_chief_knows_more_than_the_status():
    training = {'generation': '2-ab', 'step': 33, 'checkpoint_step': 30, 'max_steps': 100}
    (found,) = run_starts.starts({}, {}, STATUS, training)
    assert (found['attempts'][1]['step'], found['attempts'][1]['steps_lost']) == (33, 3)
    (found,) = run_starts.starts({}, {}, STATUS, {**training, 'generation': '1-cd'})
    assert found['attempts'][1]['step'] == 30


def test_the_reports_may_be_newer_than_the_file_of_the_chief():
    lines = [{'step': 90, 'time': 34.0}, {'step': 50, 'time': 40.0}, {'step': 'x', 'time': 41.0}, {'step': 95}]
    (found,) = run_starts.starts({}, {}, STATUS, {}, lines=lines)  # step 90 is of the attempt before
    assert (found['attempts'][1]['step'], found['attempts'][1]['steps_lost']) == (50, 30)


def test_a_start_that_goes_on_has_the_attempts_that_have_ended():
    (found,) = run_starts.starts({}, {}, STATUS, {}, lives=True)
    assert (found['ended'], [each['attempt'] for each in found['attempts']]) == (None, [1])


def test_a_report_that_could_not_be_written():
    status = {**STATUS, 'state': 'stopped', 'exit_code': 143}
    (found,) = run_starts.starts({}, {}, status, {})
    assert (found['exit_code'], found['attempts'][1]['why']) == (143, 'signalled')
    (found,) = run_starts.starts({}, {}, {**status, 'attempts': [{'attempt': 1}, {'attempt': 2}]}, {})
    assert len(found['attempts']) == 2


def test_damaged_files_tell_nothing():
    for damaged in ({}, {'attempts': 3}, {'earlier_starts': 'x'}, {'earlier_starts': [1, {}]}, {'started': None}):
        assert run_starts.starts(damaged, damaged, damaged, damaged) == []
    (found,) = run_starts.starts({}, {'started': 1, 'attempts': {'a': 1}, 'start': 'x'}, {}, {})
    assert (found['attempts'], found['start']) == ([], 1)


def test_what_is_kept_is_bounded_and_the_numbers_go_on(tmp_path):
    attempts = [{'attempt': number} for number in range(1, 31)]
    kept = [{**FIRST, 'start': number, 'started': float(number), 'attempts': attempts} for number in range(1, 251)]
    (tmp_path / 'earlier_starts.json').write_text(json.dumps({'earlier_starts': kept}))
    (tmp_path / 'report.json').write_text(json.dumps({**FIRST, 'started': 900.0}))
    found = run_starts.newest(RunFolder(str(tmp_path)).starts)
    assert [each['start'] for each in found] == [*range(152, 252)]
    assert found[0]['attempts'] == attempts[-20:] and found[-1]['attempts'] == FIRST['attempts']
