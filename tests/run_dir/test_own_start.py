"""own_start: what a trainer without a supervisor records of its starts, and how a kill is known."""

import json
import os

from estimator_trainer.run_dir import run_starts
from estimator_trainer.run_dir.own_start import OwnStart
from estimator_trainer.run_dir.run_folder import RunFolder

NOW = 1_700_000_000.0


def trained(folder, step, checkpoint, at, pid=None, state='training', why=None):
    """What a process has written by a time."""
    known = {'state': state, 'step': step, 'checkpoint_step': checkpoint, 'max_steps': 9375, 'why': why}
    (folder / 'training.json').write_text(json.dumps({**known, 'pid': pid or os.getpid(), 'time': at, 'exit': None}))
    (folder / 'checkpoint').write_text(f'model_checkpoint_path: "model.ckpt-{checkpoint}"\n')


def reports(folder, *lines):
    with open(folder / 'metrics.jsonl', 'a') as file:
        for step, at in lines:
            file.write(json.dumps({'kind': 'train', 'step': step, 'time': at}) + '\n')


def began(folder, at, ends_at=None, step=0):
    start = OwnStart(str(folder), 'trainer', at, clock=lambda: ends_at)
    start.resumes_at(step)
    start.begin()
    return start


def starts(folder, now=NOW + 10_000):
    return RunFolder(str(folder), now).starts


def test_each_start_says_how_it_ended(tmp_path):
    first = began(tmp_path, NOW, NOW + 60)
    trained(tmp_path, 1131, 1131, NOW + 60)
    said = 'stopped by Ctrl-C; saved at step 1131, the same command resumes'
    first.ends(130, {'message': said, 'traceback': []}, 1131, 1131)
    second = began(tmp_path, NOW + 100, NOW + 290, 1131)
    trained(tmp_path, 4688, 4688, NOW + 290, state='ended', why='max_steps')
    second.ends(0, {}, 4688, 4688)
    third = began(tmp_path, NOW + 300, NOW + 310, 4688)
    third.ends(64, {'message': 'no such job'}, None, 4688)
    found = starts(tmp_path)
    assert [(each['start'], each['exit_code'], each['secs']) for each in found] == [
        (1, 130, 60.0),
        (2, 0, 190.0),
        (3, 64, 10.0),
    ]
    one, two, three = (each['attempts'][0] for each in found)
    assert (one['why'], one['signal'], one['steps_lost'], one['tasks'][0]['message']) == (
        'signalled',
        'SIGINT',
        0,
        said,
    )
    assert (two['why'], two['ended_by'], two['checkpoint_before'], two['step']) == ('done', 'max_steps', 1131, 4688)
    assert (three['why'], three['step'], three['cause']['message']) == ('failed', 4688, 'no such job')


def test_a_start_that_was_killed_ended_when_its_files_were_written_last(tmp_path):
    """training.json is up to two seconds old; metrics.jsonl has only every hundredth step."""
    began(tmp_path, NOW - 500, NOW - 400).ends(0, {}, 4688, 4688)
    reports(tmp_path, (4688, NOW - 410))
    began(tmp_path, NOW, step=4688)
    trained(tmp_path, 4810, 4688, NOW + 20)
    reports(tmp_path, (4988, NOW + 20.5), (5088, NOW + 21))
    for look in range(2):  # as it is read, and as the next start keeps it
        killed = starts(tmp_path)[1]
        (attempt,) = killed['attempts']
        assert (killed['exit_code'], killed['secs'], attempt['why']) == (None, 21.0, run_starts.VANISHED)
        assert (attempt['step'], attempt['checkpoint_step'], attempt['steps_lost']) == (5088, 4688, 400)
        assert attempt['tasks'][0]['how'] == run_starts.VANISHED
        if not look:
            began(tmp_path, NOW + 100, step=4688)
            trained(tmp_path, 4700, 4700, NOW + 110)
    assert [each['start'] for each in starts(tmp_path)] == [1, 2, 3]


def test_a_start_that_goes_on_has_no_end(tmp_path):
    began(tmp_path, NOW)
    trained(tmp_path, 10, 0, NOW + 20)
    (found,) = starts(tmp_path, NOW + 22)
    assert (found['ended'], found['attempts']) == (None, [])
    (found,) = starts(tmp_path, NOW + 2000)
    assert found['ended'] == NOW + 20 and len(found['attempts']) == 1


def test_a_file_of_another_process_tells_nothing_of_this_start(tmp_path):
    trained(tmp_path, 700, 600, NOW - 5, pid=1)
    began(tmp_path, NOW, step=600)
    (found,) = starts(tmp_path)
    assert (found['secs'], found['attempts'][0]['step'], found['attempts'][0]['steps_lost']) == (0.0, 600, 0)


def test_starts_of_a_cluster_come_first_and_are_kept(tmp_path):
    report = {'start': 2, 'started': NOW - 500, 'ended': NOW - 400, 'secs': 100, 'exit_code': 0, 'attempts': []}
    (tmp_path / 'report.json').write_text(json.dumps({**report, 'earlier_starts': [{**report, 'started': NOW - 900}]}))
    began(tmp_path, NOW, NOW + 5).ends(0, {}, 10, 10)
    (tmp_path / 'report.json').unlink()  # a supervisor that begins removes it
    assert [(each['started'] - NOW, each.get('alone')) for each in starts(tmp_path)] == [
        (-900, None),
        (-500, None),
        (0, 'trainer'),
    ]


def test_the_record_is_bounded(tmp_path):
    for number in range(run_starts.MOST + 5):
        began(tmp_path, NOW + number, NOW + number + 0.5).ends(0, {}, 1, 1)
    found = starts(tmp_path)
    assert (len(found), found[0]['start'], found[-1]['start']) == (run_starts.MOST, 6, run_starts.MOST + 5)


def test_who_has_a_supervisor_records_nothing(tmp_path):
    start = OwnStart(None)
    start.begin()
    start.resumes_at(5)
    start.ends(0, {}, 1, 1)
    OwnStart(str(tmp_path), 'trainer', NOW).ends(64, {}, None, None)  # it was refused before it began
    assert not os.listdir(tmp_path)


def test_damaged_records_are_no_starts(tmp_path):
    kept = [{'started': NOW, 'under_way': {}}, {'started': NOW + 1, 'alone': 3, 'under_way': {'pid': 'x'}}]
    (tmp_path / 'earlier_starts.json').write_text(json.dumps({'earlier_starts': kept}))
    assert [each['attempts'] for each in starts(tmp_path)] == [[], []]
