"""What happened and where the time went, from the files of a run."""

import json

import pytest

from estimator_trainer.run_dir import run_verdict
from estimator_trainer.run_dir.run_verdict import Holders
from estimator_trainer.tools.report import attempts, curves, run_files, sections, summary, timeline, times
from tests.tools.report import model_dirs
from tests.tools.report.model_dirs import BEGAN

NOW = BEGAN + 1_000_000


def parts(run) -> dict:
    return {part.name: round(part.secs, 1) for part in times.parts(run)}


def test_a_run_alone(tmp_path):
    run = run_files.read(str(model_dirs.alone(tmp_path / 'run')), now=NOW)
    line = timeline.timeline(run)
    assert [lane.name for lane in line.lanes] == ['trainer']
    assert [event.text for event in line.events] == [
        'The trainer began, and reported step 10 first.',
        'The best evaluation: accuracy 0.9000 at step 100. Its model is in export/best.',
        'The run ended at step 100: all steps are trained.',
    ]
    assert parts(run) == {'starting': 2.0, 'steps': 10.0, 'after the last step': 2.0}
    assert run.judged == run_verdict.Verdict('done', 'is done: all steps are trained', 0)
    assert [(tile.label, tile.value) for tile in summary.tiles(run)] == [
        ('step', '100'),
        ('accuracy', '0.9000'),
        ('loss', '0.3000'),
        ('loss of training', '0.01980'),
        ('examples/s', '700'),
        ('time', '14s'),
    ]


def test_the_page_of_a_killed_run_has_one_last_step(tmp_path):
    folder = model_dirs.alone(tmp_path / 'run')
    model_dirs.write(folder / 'training.json', model_dirs.training('training', 85, 100, BEGAN + 11))
    run = run_files.read(str(folder), now=NOW)
    assert run.last_step == 100 and next(summary.tiles(run)).value == '100'
    model_dirs.write(folder / 'training.json', model_dirs.training('training', 85, 100, BEGAN + 500))
    assert run_files.read(str(folder), now=NOW).last_step == 85  # the lines are of a start before


def test_a_cluster_with_kills(tmp_path):
    run = run_files.read(str(model_dirs.cluster(tmp_path / 'run')), now=NOW)
    line = timeline.timeline(run)
    assert [lane.name for lane in line.lanes] == ['worker:0', 'worker:1', 'evaluator:0']
    assert [(round(event.at - BEGAN, 1), event.text, event.bad) for event in line.events] == [
        (0.0, 'Attempt 1 began with 2 workers, from the beginning.', False),
        (10.0, 'worker:1 was killed by SIGKILL. This was the first failure of the attempt.', True),
        (10.5, 'worker:0 ended with exit code 193 (another task of the cluster was lost).', False),
        (
            11.0,
            'Attempt 1 ended: 17 steps are lost; the last checkpoint is of step 50.'
            ' The tasks were started again 1.5 s later.',
            True,
        ),
        (12.5, 'Attempt 2 began with 2 workers, from the checkpoint at step 50.', False),
        (13.0, 'The best evaluation: accuracy 0.9000 at step 100. Its model is in export/best.', False),
        (17.5, 'evaluator:0 was killed by SIGKILL.', True),
        (18.5, 'evaluator:0 was restarted alone (life 2).', False),
        (
            32.5,
            'The run ended after 32s and 1 restart of all tasks and 1 restart of a single task: done (exit code 0).',
            False,
        ),
    ]
    evaluator = line.lanes[2]
    assert [(bar.began - BEGAN, bar.ended - BEGAN) for bar in evaluator.bars] == [(0, 11), (12.5, 17.5), (18.5, 32.5)]
    assert [mark.kind for mark in evaluator.marks][:6] == [
        attempts.START,
        attempts.STOPPED,
        attempts.RESTART,
        attempts.KILLED,
        attempts.RESTART,
        attempts.ENDED,
    ]
    found = parts(run)
    assert sum(found.values()) == pytest.approx(32.5, abs=0.3)
    assert found['waiting to restart'] == 1.5 and found['failures'] == 2.0 and found['after the last step'] == 8.5
    assert found['steps that were lost'] == pytest.approx(1.7, abs=0.2)
    assert run.judged.kind == 'done'
    assert list(summary.tiles(run))[-1] == summary.Tile('restarts', '1', 'of all tasks; 1 of single ones')


def test_a_run_that_failed(tmp_path):
    run = run_files.read(str(model_dirs.cluster(tmp_path / 'run', code=1)), now=NOW)
    said = run.judged
    assert (said.kind, said.code) == ('failed', 1)
    assert said.text.endswith('. worker:0 says: ValueError: no')
    last = timeline.timeline(run).events[-2:]
    assert 'No restart: an exception again' in last[0].text and last[1].bad
    ends = [row[8] for row in attempts.table(run.starts)]
    assert ends == ['worker:1 ended with SIGKILL', 'worker:0, exit code 1: ValueError: no']


def test_a_cluster_that_lives(tmp_path):
    folder = model_dirs.cluster(tmp_path / 'run')
    document = run_files.read(str(folder), now=NOW)
    (folder / 'report.json').unlink()
    model_dirs.write(
        folder / 'status.json',
        {
            'state': 'training',
            'attempt': 2,
            'attempts': document.attempts[:1],
            'started': BEGAN,
            'attempt_started': BEGAN + 12.5,
            'time': BEGAN + 30,
            'tasks': [{'name': 'worker:0', 'state': 'running'}, {'name': 'worker:1', 'state': 'not started'}],
        },
    )
    line = timeline.timeline(run_files.read(str(folder), now=NOW))
    assert [(bar.began - BEGAN, bar.ended - BEGAN) for bar in line.lanes[0].bars][:2] == [(0, 10.5), (12.5, 30)]
    assert 'worker:1 was killed by SIGKILL' in line.events[1].text


def test_a_cluster_that_was_started_again(tmp_path):
    """The first start was told to stop, the second was killed with its supervisor, the third is done."""
    folder = model_dirs.cluster(tmp_path / 'run')
    report = json.loads((folder / 'report.json').read_text())
    first, second = report['attempts']
    stopped = {**second, 'attempt': 1, 'started': BEGAN - 900, 'secs': 50, 'step': 30, 'checkpoint_step': 30}
    stopped |= {'why': 'signalled', 'signal': 'SIGTERM', 'checkpoint_before': None, 'log_dir': '/a/logs/attempt-1'}
    killed = {**second, 'attempt': 1, 'started': BEGAN - 500, 'secs': 60, 'step': 40, 'checkpoint_step': 30}
    killed |= {'why': 'lost', 'checkpoint_before': 30, 'steps_lost': 10}
    earlier = [
        {'start': 1, 'started': BEGAN - 900, 'ended': BEGAN - 850, 'secs': 50, 'restarts': 0, 'attempts': [stopped]},
        {'start': 2, 'started': BEGAN - 500, 'ended': BEGAN - 440, 'secs': 60, 'restarts': 0, 'attempts': [killed]},
    ]
    earlier[0]['exit_code'] = 143
    last = {**report, 'start': 3, 'attempts': [{**first, 'checkpoint_before': 30, 'step': 67}, {**second, 'step': 100}]}
    model_dirs.write(folder / 'report.json', {**last, 'earlier_starts': earlier})
    run = run_files.read(str(folder), now=NOW)
    said = [event.text for event in timeline.timeline(run).events]
    assert [text for text in said if text.startswith(('Start', 'The run'))] == [
        'Start 1, attempt 1 began with 2 workers, from the beginning.',
        'The run was told to stop (SIGTERM): no step is lost; the last checkpoint is of step 30.',
        'Start 1 ended after 50s and 1 restart of a single task: preempted (SIGTERM or SIGHUP) (exit code 143).',
        'Start 2, attempt 1 began with 2 workers, from the checkpoint at step 30.',
        'Start 2, attempt 1 ended with its supervisor, which was killed or whose machine went down: 10 steps are lost; '
        'the last checkpoint is of step 30.',
        'Start 3, attempt 1 began with 2 workers, from the checkpoint at step 30.',
        'Start 3, attempt 1 ended: 17 steps are lost; the last checkpoint is of step 50. The tasks were started again '
        '1.5 s later.',
        'Start 3, attempt 2 began with 2 workers, from the checkpoint at step 50.',
        'Start 3 ended after 32s and 1 restart of all tasks and 1 restart of a single task: done (exit code 0).',
    ]
    rows = attempts.table(run.starts)
    assert [(*row[:2], *row[4:]) for row in rows] == [
        ('1', '1', '50s', '0', '30', '0', 'told to stop (SIGTERM)', 'attempt-1'),
        ('2', '1', '1m00s', '30', '40', '10', 'its supervisor was killed', '–'),
        ('3', '1', '11s', '30', '67', '17', 'worker:1 ended with SIGKILL', '–'),
        ('3', '2', '20s', '50', '100', '0', 'done', '–'),
    ]
    assert rows[0][2:4] == ('2', '2023-11-14 21:58:20 UTC')
    marks = [
        mark.kind for mark in timeline.timeline(run).lanes[0].marks if mark.kind in (attempts.START, attempts.RESTART)
    ]
    assert marks == [attempts.START, attempts.RESTART, attempts.RESTART, attempts.RESTART]


def test_one_attempt_needs_no_table(tmp_path):
    folder = model_dirs.cluster(tmp_path / 'run')
    report = json.loads((folder / 'report.json').read_text())
    assert len(attempts.table(run_files.read(str(folder), now=NOW).starts)) == 2
    model_dirs.write(folder / 'report.json', {**report, 'attempts': report['attempts'][:1]})
    assert attempts.table(run_files.read(str(folder), now=NOW).starts) == []
    assert attempts.table(run_files.read(str(model_dirs.alone(tmp_path / 'alone')), now=NOW).starts) == []


@pytest.mark.parametrize(
    'state, alive, age, kind, words',
    [
        ('training', Holders(trainer=True), 1000, 'alive', 'trains'),
        ('training', Holders(), 5, 'alive', 'trains'),
        ('training', Holders(trainer_has_left=True), 5, 'lost', 'is gone: no process has the model_dir'),
        ('training', Holders(), 1000, 'lost', 'is gone: no process has the model_dir'),
        ('evaluating', Holders(trainer=True), 0, 'alive', 'evaluates or exports'),
        ('ended', Holders(evaluator=True), 0, 'alive', 'evaluates or exports; training is over'),
        ('ended', Holders(), 0, 'done', 'is done: it stopped early'),
        ('stopped', Holders(), 0, 'stopped', 'was told to stop, and saved; the same command resumes'),
        (None, Holders(), 0, 'unknown', 'has no training.json'),
        ('training', Holders(), -20, 'alive', 'trains'),  # the other machine's clock is ahead
        ('training', Holders(), -1200, 'lost', 'is gone: no process has the model_dir'),
    ],
)
def test_verdicts_of_a_process_alone(state, alive, age, kind, words):
    training = {'state': state, 'time': NOW - age, 'why': 'early_stopping'} if state else {}
    found = run_verdict.judge(training, {}, {}, alive, NOW)
    assert found.kind == kind and words in found.text


def test_a_report_of_an_earlier_run_does_not_count():
    report = {'exit_code': 1, 'ended': NOW - 10_000, 'attempts': []}
    training = {'state': 'ended', 'why': 'max_steps', 'time': NOW - 5_000}
    assert run_verdict.judge(training, {}, report, Holders(), NOW).kind == 'done'
    assert run_verdict.judge({**training, 'time': NOW - 10_001}, {}, report, Holders(), NOW).kind == 'failed'


def test_a_supervisor_that_was_killed():
    status = {'state': 'training', 'time': NOW - 100}
    found = run_verdict.judge({'state': 'training', 'time': NOW - 100}, status, {}, Holders(), NOW)
    assert found.kind == 'lost' and 'its supervisor was killed' in found.text


def test_waits_are_told_apart_from_steps_and_pauses(tmp_path):
    folder = model_dirs.alone(tmp_path / 'run')  # ten reports, one a second
    lines = [json.loads(line) for line in (folder / 'metrics.jsonl').read_text().splitlines()]
    for number, line in enumerate(lines):
        line |= {'input_wait_secs': 0.2, 'peer_wait_secs': 0.1 if number % 2 else 0.0}
    model_dirs.write(folder / 'metrics.jsonl', lines)
    run = run_files.read(str(folder), now=NOW)
    known = {'starting': 2.0, 'steps': 7.5, 'waiting for input': 2.0, 'waiting for workers': 0.5}
    assert parts(run) == {**known, 'after the last step': 2.0}
    for line in lines[5:]:
        line['time'] += 9
    lines[5]['input_wait_secs'] += 9  # once it has waited long
    model_dirs.write(folder / 'metrics.jsonl', lines)
    training = json.loads((folder / 'training.json').read_text())
    model_dirs.write(folder / 'training.json', {**training, 'time': training['time'] + 9})
    found = parts(run_files.read(str(folder), now=NOW))
    assert found['waiting for input'] == 11.0 and 'pauses between steps' not in found


def test_settings(tmp_path):
    run = run_files.read(str(model_dirs.alone(tmp_path / 'run', seed=1, export=['best', 'final'])), now=NOW)
    found = {each.name: each for each in sections.settings(run)}
    assert [name for name, each in found.items() if each.changed] == [
        '--max_steps',
        '--log_every_steps',
        '--of_long_ago',
    ]
    assert found['--log_every_steps'].default == '100' and not found['--export'].changed
    assert sections.params(run) == [('optimizer', 'adam', True), ('l2', '0.0', False)]
    assert ('position', '6,400 examples were trained (100 steps of 64)') in sections.data(run)


def test_the_position_of_a_run_that_has_had_another_batch(tmp_path):
    folder = model_dirs.alone(tmp_path / 'run')
    config = json.loads((folder / 'config.json').read_text())
    model_dirs.write(folder / 'config.json', {**config, 'batches': [[0, 0, 32], [40, 1280, 64]]})
    run = run_files.read(str(folder), now=NOW)
    assert ('position', '5,120 examples were trained (100 steps)') in sections.data(run)


def test_the_metric_of_the_best_export_comes_first(tmp_path):
    log = curves.Log()
    log.add([{'step': 1, 'time': 1.0, **{f'auc_{letter}': 0.5 for letter in 'abcdefgh'}, 'z': 0.5, 'loss': 1.0}])
    assert summary.metrics(log, 'z')[:2] == ['z', 'auc_a'] and summary.metrics(log)[-2:] == ['z', 'loss']


def test_a_run_alone_that_failed(tmp_path):
    folder = model_dirs.alone(tmp_path / 'run')
    left = {'code': 70, 'message': 'the loss is nan at step 51.', 'traceback': ['Traceback:', '  boom']}
    told = model_dirs.training('training', 50, 100, BEGAN + 8)
    model_dirs.write(folder / 'training.json', {**told, 'exit': left})
    run = run_files.read(str(folder), now=NOW)
    said = run.judged
    assert (said.kind, said.code) == ('failed', 70)
    assert said.text.endswith('(the loss or a weight is NaN or infinite): the loss is nan at step 51')
    line = timeline.timeline(run)
    assert [mark.kind for mark in line.lanes[0].marks if mark.kind in (attempts.START, attempts.FAILED)] == [
        attempts.START,
        attempts.FAILED,
    ]
    event = next(event for event in line.events if event.bad)
    assert event.text == 'The run ended at step 50 with exit code 70 (the loss or a weight is NaN or infinite).'
    assert event.details == ('It says: the loss is nan at step 51.',)
    assert event.traceback == ('Traceback:', '  boom')


def test_a_trial_that_was_pruned(tmp_path):
    folder = model_dirs.alone(tmp_path / 'run')
    model_dirs.write(folder / 'training.json', model_dirs.training('ended', 50, 100, BEGAN + 8, 'early_stopping'))
    model_dirs.write(folder / 'eval/stop.json', {'metric': 'accuracy', 'step': 50, 'why': 'pruned by the sweep'})
    run = run_files.read(str(folder), now=NOW)
    assert run.judged.kind == 'pruned'
    assert 'Training was ended early at step 50: pruned by the sweep.' in [
        e.text for e in timeline.timeline(run).events
    ]
