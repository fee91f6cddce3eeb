"""Where the time of a run went, with restarts and resumes: the shares add up to its wall clock."""

import fcntl
import json

import pytest

from estimator_trainer.run_dir import run_starts
from estimator_trainer.tools.report import attempts, run_files, summary, timeline, times
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


def shares(folder, now=BEGAN + 1e6) -> dict:
    """The parts in seconds, after a look whether they add up."""
    run = run_files.read(str(folder), now=now)
    found = {part.name: part.secs for part in times.parts(run)}
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
    assert found == {'starting': 16.0, 'steps': 10.0, 'between two starts': 2.0, 'after the last step': 2.0}


def test_a_cluster_that_goes_on_in_a_folder_of_an_earlier_one(tmp_path):
    """metrics.jsonl has the lines of both, report.json only the attempts of the second."""
    reports = [*lines(BEGAN - 1000, 0, 50), *lines(BEGAN, 50, 100)]
    for line in reports:
        line['input_wait_secs'] = 0.5
    attempts = [attempt(1, BEGAN, 14.0, 50, 100, 'done')]
    found = shares(gang(tmp_path / 'run', attempts, reports, 14.0))
    assert found == {'starting': 8.0, 'steps': 2.5, 'waiting for input': 2.5, 'after the last step': 1.0}


def start(number, began, secs, attempts, code=0):
    """A start of a supervisor, as report.json describes it."""
    times = {'started': began, 'ended': began + secs, 'secs': secs}
    return {'start': number, 'exit_code': code, **times, 'restarts': len(attempts) - 1, 'attempts': attempts}


def resumed(folder):
    """Three starts of a cluster: one was told to stop, one was killed with its supervisor, one had a restart."""
    earlier = [
        start(1, BEGAN, 15.0, [attempt(1, BEGAN + 1, 13.0, 0, 50, 'signalled')], 143),
        start(2, BEGAN + 100, 14.0, [attempt(1, BEGAN + 100, 14.0, 50, 70, 'lost', lost=20)], None),
    ]
    last = [attempt(1, BEGAN + 200, 10.0, 50, 60, lost=10), attempt(2, BEGAN + 211, 14.0, 50, 100, 'done')]
    reports = [
        *lines(BEGAN + 1, 0, 50),
        *lines(BEGAN + 100, 50, 70),
        *lines(BEGAN + 200, 50, 60),
        *lines(BEGAN + 211, 50, 100),
    ]
    gang(folder, last, reports, 0)
    model_dirs.write(folder / 'report.json', {**start(3, BEGAN + 200, 26.0, last), 'earlier_starts': earlier})
    return folder


def test_a_cluster_that_was_started_three_times(tmp_path):
    folder = resumed(tmp_path / 'run')
    found = shares(folder)
    assert found == {
        'starting': 33.0,
        'steps': 10.0,
        'steps that were lost': 3.0,
        'failures': 5.0,
        'waiting to restart': 1.0,
        'between two starts': 171.0,
        'after the last step': 3.0,
    }
    tiles = {tile.label: tile for tile in summary.tiles(run_files.read(str(folder), now=BEGAN + 1e6))}
    assert tiles['time'] == summary.Tile('time', '3m46s', 'from the first start; 55s of it in 3 starts')
    assert tiles['restarts'] == summary.Tile('restarts', '1', 'of all tasks, in 3 starts')


def test_a_cluster_that_was_started_again_and_lives(tmp_path):
    """Its earlier starts are in a file of their own, as long as there is no report."""
    folder = resumed(tmp_path / 'run')
    report = json.loads((folder / 'report.json').read_text())
    (folder / 'report.json').unlink()
    model_dirs.write(folder / 'earlier_starts.json', {'earlier_starts': report['earlier_starts']})
    status = {'start': 3, 'attempt': 2, 'restarts': 1, 'attempts': report['attempts'][:1], 'state': 'training'}
    times_ = {'started': BEGAN + 200, 'attempt_started': BEGAN + 211, 'time': BEGAN + 221}
    model_dirs.write(folder / 'status.json', {**status, **times_, 'tasks': [{'name': 'worker:0', 'state': 'running'}]})
    killed = shares(folder)
    with open(folder / '.cluster.lock', 'w') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = shares(folder, BEGAN + 221)
    assert found['starting'] == 33.0 and found['between two starts'] == 171.0 and found['waiting to restart'] == 1.0
    assert sum(killed.values()) == sum(found.values()) == 221.0


def test_a_trainer_alone_and_then_a_cluster(tmp_path):
    """A model_dir may be continued by a cluster; its files of events tell of the start before."""
    reports = [*lines(BEGAN - 1000, 0, 50), *lines(BEGAN, 50, 100)]
    folder = gang(tmp_path / 'run', [attempt(1, BEGAN, 14.0, 50, 100, 'done')], reports, 14.0)
    for at in (BEGAN - 1000, BEGAN + 3):  # the second one is of the cluster's chief
        (folder / f'events.out.tfevents.{at:.0f}.host').write_bytes(b'')
    found = shares(folder)
    assert found == {'starting': 16.0, 'steps': 10.0, 'between two starts': 987.0, 'after the last step': 1.0}


def test_the_time_of_the_supervisor_counts(tmp_path):
    attempts = [attempt(1, BEGAN + 2, 19.0, 0, 100, 'done')]
    found = shares(gang(tmp_path / 'run', attempts, lines(BEGAN + 2, 0, 100), 23.0))
    assert found == {'starting': 10.0, 'steps': 10.0, 'after the last step': 3.0}


def test_where_nothing_is_known(tmp_path):
    folder = model_dirs.alone(tmp_path / 'run')
    model_dirs.write(folder / 'metrics.jsonl', [])
    run = run_files.read(str(folder), now=BEGAN + 1e6)
    assert times.parts(run) == [] and times.spans(run) == []


def test_a_process_alone_that_has_recorded_its_starts(tmp_path):
    """Ctrl-C, a kill, the rest, and the same command once more; the file of events begins later than the process."""
    starts = [BEGAN + 3, BEGAN + 103, BEGAN + 203]
    reports = [*lines(BEGAN, 0, 50), *lines(BEGAN + 100, 50, 70), *lines(BEGAN + 200, 50, 100)]
    folder = alone(tmp_path / 'run', starts, reports, BEGAN + 520)
    (folder / 'checkpoint').write_text('model_checkpoint_path: "model.ckpt-50"')

    def begun(number, at, checkpoint):
        return run_starts.begun('trainer', number, at, 7, checkpoint)

    said = {'message': 'stopped by Ctrl-C; saved at step 50, the same command resumes'}
    killed = run_starts.starts({'earlier_starts': [begun(2, BEGAN + 100, 50)]}, {}, {}, {}, lines=reports[:7], saved=50)
    kept = [
        run_starts.ended(begun(1, BEGAN, None), BEGAN + 15, 130, said, 50, 50, {}),
        *killed,
        run_starts.ended(begun(3, BEGAN + 200, 50), BEGAN + 216, 0, {}, 100, 100, {'why': 'max_steps'}),
        run_starts.ended(begun(4, BEGAN + 500, 100), BEGAN + 520, 0, {}, None, 100, {'why': 'max_steps'}),
    ]
    model_dirs.write(folder / 'earlier_starts.json', {'earlier_starts': kept})
    assert shares(folder) == {
        'starting': 44.0,
        'steps': 10.0,
        'steps that were lost': 2.0,
        'between two starts': 459.0,
        'after the last step': 5.0,
    }
    run = run_files.read(str(folder), now=BEGAN + 1e6)
    assert [event.text for event in timeline.timeline(run).events if event.text.startswith('Start')] == [
        'Start 1 began, from the beginning.',
        'Start 1 ended after 15s: stopped by Ctrl-C; saved at step 50, the same command resumes.',
        'Start 2 began, from the checkpoint at step 50.',
        'Start 2 did not end by itself: it was killed, or its machine failed. 20 steps are lost; the last checkpoint '
        'is of step 50.',
        'Start 3 began, from the checkpoint at step 50.',
        'Start 3 ended after 16s at step 100: all steps are trained.',
        'Start 4 began, from the checkpoint at step 100.',
        'Start 4 ended after 20s: at step 100 nothing was left to train.',
    ]
    rows = [(row[0], *row[5:9]) for row in attempts.table(run.starts)]
    assert rows[1] == ('2', '50', '70', '20', 'killed, or its machine failed')
