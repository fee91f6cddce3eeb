"""Where the time of a run went, with restarts and resumes: the shares add up to its wall clock."""

import pytest

from estimator_trainer.tools.report import run_files, spans, summary, times
from tests.tools.report import model_dirs
from tests.tools.report.model_dirs import BEGAN, task

PACE = 0.1
START = 8.0  # seconds from the start of a process to its first step


def lines(began, first, last, every=10, pace=PACE):
    """The reports of a process that began at a time and trained from a step to a step."""
    return [
        {'kind': 'train', 'step': n, 'time': began + START + pace * (n - first), 'loss': 1.0, 'examples_per_sec': 640.0}
        for n in range(first + every, last + 1, every)
    ]


def attempt(number, began, secs, first, last, why='failed', lost=0, tasks=()):
    return {
        'attempt': number,
        'started': began,
        'secs': secs,
        'why': why,
        'checkpoint_before': first or None,
        'checkpoint_step': last - lost,
        'step': last,
        'steps_lost': lost,
        'decision': None if why == 'done' else 'restart',
        'delay_secs': None if why == 'done' else 1.0,
        'addresses': {'worker:0': 'a:1'},
        'tasks': list(tasks),
    }


def gang(folder, attempts, reports, secs):
    """A folder of a cluster."""
    model_dirs.alone(folder)
    (folder / f'events.out.tfevents.{BEGAN:.0f}.host').unlink()
    report = {'exit_code': 0, 'started': BEGAN, 'ended': BEGAN + secs, 'secs': secs, 'restarts': len(attempts) - 1}
    model_dirs.write(folder / 'report.json', {**report, 'attempts': attempts})
    model_dirs.write(folder / 'metrics.jsonl', reports)
    return folder


def alone(folder, starts, reports, ended):
    """A folder of a process that was started again and again."""
    model_dirs.alone(folder)
    for at in starts:
        (folder / f'events.out.tfevents.{at:.0f}.host').write_bytes(b'')
    model_dirs.write(folder / 'metrics.jsonl', reports)
    model_dirs.write(folder / 'training.json', model_dirs.training('ended', 100, 100, ended, 'max_steps'))
    return folder


def shares(folder) -> dict:
    """The parts in seconds, after a look whether they add up."""
    run = run_files.read(str(folder), now=BEGAN + 1e6)
    found = {part.name: part.secs for part in times.of(run)}
    assert sum(found.values()) == pytest.approx(summary.seconds(run), rel=0.01)
    return {name: round(secs, 1) for name, secs in found.items()}


def test_a_gang_that_was_restarted_without_a_lost_step(tmp_path):
    """The second attempt goes on from the last step of the first, at once: no line of metrics.jsonl shows a break."""
    reports = [*lines(BEGAN, 0, 50), *lines(BEGAN + 15, 50, 100)]
    attempts = [attempt(1, BEGAN, 14.0, 0, 50), attempt(2, BEGAN + 15, 15.0, 50, 100, 'done')]
    found = shares(gang(tmp_path / 'run', attempts, reports, 30.0))
    assert found == {
        'starting': 16.0,
        'steps': 10.0,
        'failures': 1.0,
        'waiting to restart': 1.0,
        'after the last step': 2.0,
    }


def test_a_gang_that_lost_steps(tmp_path):
    reports = [*lines(BEGAN, 0, 60), *lines(BEGAN + 20, 40, 100)]
    attempts = [attempt(1, BEGAN, 19.0, 0, 60, lost=20), attempt(2, BEGAN + 20, 16.0, 40, 100, 'done')]
    found = shares(gang(tmp_path / 'run', attempts, reports, 36.0))
    assert found['starting'] == 16.0 and found['steps'] == 10.0 and found['steps that were lost'] == 2.0


def test_attempts_that_ended_before_their_first_report(tmp_path):
    attempts = [
        attempt(1, BEGAN, 9.0, 0, 6, lost=6),  # six steps, none of which it reported
        attempt(2, BEGAN + 10, 3.0, 0, 0),  # it did not get that far
        attempt(3, BEGAN + 14, 20.0, 0, 100, 'done'),
    ]
    found = shares(gang(tmp_path / 'run', attempts, lines(BEGAN + 14, 0, 100), 34.0))
    assert found['starting'] == pytest.approx(8.4 + 3 + 8) and found['steps that were lost'] == pytest.approx(0.6)
    assert found['steps'] == 10.0 and found['waiting to restart'] == 2.0


def test_one_report_in_each_attempt(tmp_path):
    """No two reports of a process: the pace is what the processes have measured."""
    reports = [lines(BEGAN, 0, 50, 50)[0], lines(BEGAN + 15, 50, 100, 50)[0]]
    attempts = [attempt(1, BEGAN, 14.0, 0, 50), attempt(2, BEGAN + 15, 15.0, 50, 100, 'done')]
    found = shares(gang(tmp_path / 'run', attempts, reports, 30.0))
    assert found['starting'] == 16.0 and found['steps'] == 10.0


def test_an_evaluator_and_a_worker_that_were_restarted_alone(tmp_path):
    tasks = [
        task('worker:0', 0, 19.0),
        task('worker:1', 1, 9.0),
        task('worker:1', 0, 19.0, life=2, began=10.0),
        task('evaluator:0', 137, 5.0, signal='SIGKILL'),
        task('evaluator:0', 0, 20.0, life=2, began=6.0),
    ]
    attempts = [attempt(1, BEGAN, 20.0, 0, 100, 'done', tasks=tasks)]
    found = shares(gang(tmp_path / 'run', attempts, lines(BEGAN, 0, 100), 20.0))
    assert found == {'starting': 8.0, 'steps': 10.0, 'after the last step': 2.0}


def test_a_chief_that_was_restarted_alone(tmp_path):
    tasks = [task('worker:0', 1, 13.5), task('worker:0', 0, 29.0, life=2, began=15.0), task('worker:1', 0, 29.0)]
    reports = [*lines(BEGAN, 0, 50), *lines(BEGAN + 15, 50, 100)]
    attempts = [attempt(1, BEGAN, 30.0, 0, 100, 'done', tasks=tasks)]
    found = shares(gang(tmp_path / 'run', attempts, reports, 30.0))
    assert found['starting'] == 16.0 and found['steps'] == 10.0 and found['waiting to restart'] == 1.5


def test_a_process_alone_that_was_resumed(tmp_path):
    starts = [BEGAN, BEGAN + 15]
    reports = [*lines(BEGAN, 0, 50), *lines(BEGAN + 15, 50, 100)]
    found = shares(alone(tmp_path / 'run', starts, reports, BEGAN + 30))
    assert found == {'starting': 16.0, 'steps': 10.0, 'waiting to restart': 2.0, 'after the last step': 2.0}


def test_a_cluster_that_goes_on_in_a_folder_of_an_earlier_one(tmp_path):
    """metrics.jsonl has the lines of both, report.json only the attempts of the second."""
    reports = [*lines(BEGAN - 1000, 0, 50), *lines(BEGAN, 50, 100)]
    for line in reports:
        line['input_wait_secs'] = 0.5
    attempts = [attempt(1, BEGAN, 14.0, 50, 100, 'done')]
    found = shares(gang(tmp_path / 'run', attempts, reports, 14.0))
    assert found == {'starting': 8.0, 'steps': 2.5, 'waiting for input': 2.5, 'after the last step': 1.0}


def test_the_time_of_the_supervisor_counts(tmp_path):
    attempts = [attempt(1, BEGAN + 2, 19.0, 0, 100, 'done')]
    found = shares(gang(tmp_path / 'run', attempts, lines(BEGAN + 2, 0, 100), 23.0))
    assert found == {'starting': 10.0, 'steps': 10.0, 'after the last step': 3.0}


def test_where_nothing_is_known(tmp_path):
    folder = model_dirs.alone(tmp_path / 'run')
    model_dirs.write(folder / 'metrics.jsonl', [])
    run = run_files.read(str(folder), now=BEGAN + 1e6)
    assert times.of(run) == [] and spans.of(run) == []
