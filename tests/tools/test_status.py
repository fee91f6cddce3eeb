"""`status`: a run in one line, and what its exit code says."""

import fcntl
import json
import time

import pytest

from estimator_trainer.run_dir import locks
from estimator_trainer.run_dir.file_names import Pointer
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.run_dir.run_verdict import Holders
from estimator_trainer.tools import status

NOW = 1_700_000_100.0
LINES = [
    {'kind': 'train', 'step': step, 'time': NOW - 10 + step / 100, 'loss': 1.5, 'examples_per_sec': 4480.2}
    for step in range(100, 1000, 100)
]
TRAINING = {
    'state': 'training',
    'step': 950,
    'max_steps': 4000,
    'checkpoint_step': 900,
    'examples_per_sec': 4480.2,
    'time': NOW - 1,
}
STATUS = {
    'state': 'training',
    'restarts': 1,
    'secs_left': 34.4,
    'time': NOW,
    'tasks': [
        {'name': 'worker:0', 'state': 'running'},
        {'name': 'worker:1', 'state': 'running'},
        {'name': 'evaluator:0', 'state': 'restarting'},
    ],
}
EVALUATION = {'kind': 'eval', 'step': 900, 'time': NOW - 5, 'accuracy': 0.952, 'loss': 0.1932}


def run_of(**known) -> RunFolder:
    """A run with these attributes, and nothing else."""
    run = RunFolder('/nowhere')
    vars(run).update(known)
    return run


def say(run) -> str:
    return status.line(run, 'run', NOW)


@pytest.mark.parametrize(
    'known, said, code',
    [
        (
            {
                'training': TRAINING,
                'status': STATUS,
                'last_metrics': LINES,
                'newest_evaluation': EVALUATION,
                'holders': Holders(True, True),
            },
            'run trains: step 950 of 4,000 (23 %), loss 1.500, 4,480 examples/s, 34s left; 2 of 3 tasks alive '
            '(evaluator:0 is restarting), 1 restart; checkpoint at step 900; '
            'evaluation at step 900: accuracy 0.9520, loss 0.1932',
            3,
        ),
        (
            {'training': TRAINING, 'last_metrics': LINES, 'holders': Holders(trainer=True)},
            'run trains: step 950 of 4,000 (23 %), loss 1.500, 4,480 examples/s, 30s left; checkpoint at step 900',
            3,
        ),
        ({'status': {'state': 'starting'}, 'holders': Holders(cluster=True)}, 'run starts', 3),
        (
            {
                'training': TRAINING,
                'last_metrics': [{**each, 'input_wait_secs': 0.25, 'peer_wait_secs': 0.01} for each in LINES],
                'holders': Holders(trainer=True),
            },
            'run trains: step 950 of 4,000 (23 %), loss 1.500, 4,480 examples/s, 30s left; '
            'waits for input 25 % of the time; checkpoint at step 900',
            3,
        ),
        (
            {
                'training': {**TRAINING, 'state': 'ended', 'step': 4000, 'why': 'max_steps'},
                'newest_evaluation': {**EVALUATION, 'loss': None},
            },
            'run is done: all steps are trained. Step 4,000 of 4,000 (100 %); '
            'evaluation at step 900: loss is not finite, accuracy 0.9520',
            0,
        ),
        (
            {'training': {**TRAINING, 'state': 'stopped'}},
            'run was told to stop, and saved; the same command resumes. Step 950 of 4,000 (23 %); '
            'checkpoint at step 900',
            143,
        ),
        (
            {'training': {**TRAINING, 'exit': None, 'time': NOW - 1000}},
            'run is gone: no process has the model_dir, and training.json was last written at 2023-11-14 21:58:20 UTC. '
            'It recorded no failure, so it was killed or its machine went down; the same command resumes. '
            'Step 950 of 4,000 (23 %); checkpoint at step 900',
            4,
        ),
        (
            {
                'training': {**TRAINING, 'exit': None, 'time': NOW - 1000},
                'pointer': Pointer('model.ckpt-1000', (), True),
            },
            'run is gone: no process has the model_dir, and training.json was last written at 2023-11-14 21:58:20 UTC. '
            'It recorded no failure, so it was killed or its machine went down; the same command resumes. '
            'Step 1,000 of 4,000 (25 %); checkpoint at step 1,000',
            4,
        ),
        (
            {'training': {**TRAINING, 'exit': {'code': 70, 'message': 'NaN loss at step 951.'}}},
            'run failed with exit code 70 (the loss or a weight is NaN or infinite): NaN loss at step 951. '
            'Step 950 of 4,000 (23 %); checkpoint at step 900',
            70,
        ),
        (
            {'training': {**TRAINING, 'state': 'stopped', 'exit': {'code': 130, 'message': 'stopped by SIGINT'}}},
            'run was told to stop, and saved; the same command resumes. Step 950 of 4,000 (23 %); '
            'checkpoint at step 900',
            130,
        ),
        (
            {
                'training': TRAINING,
                'report': {'exit_code': 197, 'started': NOW - 75, 'ended': NOW, 'secs': 75, 'restarts': 3},
                'status': {'state': 'failed'},
            },
            'run failed with exit code 197 (failed more often than --max_restarts allows). Step 950 of 4,000 (23 %); '
            '3 restarts; checkpoint at step 900; after 1m15s',
            197,
        ),
    ],
)
def test_lines(known, said, code):
    run = run_of(**known)
    assert say(run) == said
    assert status.exit_code(run, NOW) == code


def test_how_often_a_run_was_started():
    """Where the restarts are told; of a run that has ended those of all its starts."""
    lives = {'training': TRAINING, 'status': {**STATUS, 'start': 3}, 'holders': Holders(True, True)}
    said = say(run_of(**lives))
    assert '; 2 of 3 tasks alive (evaluator:0 is restarting), start 3, 1 restart; checkpoint' in said
    ended = {**TRAINING, 'state': 'ended', 'step': 4000, 'why': 'max_steps'}
    earlier = [{'started': 1.0, 'secs': 30.0, 'restarts': 2, 'attempts': []}, {'started': 50.0, 'restarts': 0}]
    report = {'exit_code': 0, 'started': 90.0, 'ended': NOW, 'secs': 75, 'restarts': 0, 'attempts': []}
    said = say(run_of(training=ended, report={**report, 'start': 3, 'earlier_starts': earlier}))
    assert said.endswith('Step 4,000 of 4,000 (100 %); 3 starts, 2 restarts; after 1m45s in all')
    said = say(run_of(training=ended, report=report))
    assert said.endswith('Step 4,000 of 4,000 (100 %); after 1m15s')


def test_restarts_of_single_tasks_are_told():
    lives = {'training': TRAINING, 'holders': Holders(True, True)}
    said = say(run_of(**lives, status={**STATUS, 'restarts': 0, 'task_restarts': 1}))
    assert '(evaluator:0 is restarting), 0 restarts, 1 restart of a single task; checkpoint' in said
    report = {'exit_code': 0, 'started': 90.0, 'ended': NOW, 'secs': 75, 'restarts': 0, 'task_restarts': 2}
    ended = {**TRAINING, 'state': 'ended', 'step': 4000, 'why': 'max_steps'}
    said = say(run_of(training=ended, report=report))
    assert said.endswith('(100 %); 0 restarts, 2 restarts of single tasks; after 1m15s')


def test_the_time_left_is_measured_within_one_start():
    """Ten lines may reach back to the start before, and over the time in which nothing ran."""
    lines = [{**line, 'time': line['time'] - 600} for line in LINES[:6]] + LINES[6:]
    began = {'started': NOW - 8, 'attempts': [], 'under_way': {}, 'alone': 'trainer'}
    known = {'training': TRAINING, 'last_metrics': lines, 'holders': Holders(trainer=True)}
    assert '4,480 examples/s, 30s left' in say(run_of(**known, earlier_starts={'earlier_starts': [began]}))
    known = {**known, 'status': {**STATUS, 'secs_left': None, 'attempt_started': NOW - 8}}
    assert '4,480 examples/s, 30s left' in say(run_of(**{**known, 'holders': Holders(True, True)}))


def test_a_trial_that_was_pruned():
    ended = {**TRAINING, 'state': 'ended', 'why': 'early_stopping'}
    stop = {'metric': 'accuracy', 'step': 950, 'why': 'pruned by the sweep'}
    said = 'run was ended early at step 950: pruned by the sweep. Step 950 of 4,000 (23 %)'
    run = run_of(training=ended, stop=stop)
    assert say(run) == said
    assert status.exit_code(run, NOW) == 0


@pytest.mark.parametrize(
    'state, held, said, code',
    [
        ('done', False, 'is done', 0),
        ('stopped', False, 'was stopped; the same command goes on', 143),
        ('failed', False, 'has failed', 1),
        ('running', True, 'runs its trials', 3),
        ('running', False, 'is gone: it was killed; the same command goes on', 4),
    ],
)
def test_the_folder_of_a_sweep(tmp_path, capsys, state, held, said, code):
    trials = [{'state': 'done'}, {'state': 'pruned'}, {'state': 'done'}]
    best = {'trial': 3, 'value': 0.912, 'step': 375, 'params': {'learning_rate': 0.0710884}, 'export': None}
    (tmp_path / 'study.db').touch()
    told = {'state': state, 'metric': 'accuracy', 'best': best, 'trials': trials}
    (tmp_path / 'sweep.json').write_text(json.dumps(told))
    with open(tmp_path / '.sweep.lock', 'w') as lock:
        if held:
            fcntl.flock(lock, fcntl.LOCK_EX)
        assert status.main([str(tmp_path)]) == code
    assert capsys.readouterr().out == (
        f'{tmp_path} {said}: 3 trials, 2 done, 1 pruned. '
        'The best is trial 3: accuracy 0.9120 at step 375, with learning_rate 0.07109.\n'
    )


def test_a_lock_that_is_held_is_life(tmp_path, capsys):
    path = tmp_path / '.trainer.lock'
    assert not locks.is_held(path)
    path.write_text('1')
    assert not locks.is_held(path) and status.main([str(tmp_path)]) == 64
    with open(path) as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert locks.is_held(path) and status.main([str(tmp_path)]) == 3
    assert not locks.is_held(path) and capsys.readouterr().out == f'{tmp_path} starts\n'


def test_follow_ends_with_the_run(tmp_path, capsys, monkeypatch):
    states = [{**TRAINING, 'step': step, 'time': time.time()} for step in (1, 1, 2)]
    states.append({**TRAINING, 'state': 'ended', 'why': 'max_steps'})
    waits = []

    def next_state(secs=None):
        waits.append(secs)
        (tmp_path / 'training.json').write_text(json.dumps(states.pop(0)))

    next_state()
    monkeypatch.setattr(status.time, 'sleep', next_state)
    assert status.main([str(tmp_path), '--follow', '--every_secs=0.5']) == 0
    said = [text.replace(str(tmp_path), 'run') for text in capsys.readouterr().out.splitlines()]
    assert [text.split(',')[0].split(' of ')[0] for text in said] == [
        'run trains: step 1',
        'run trains: step 2',
        'run is done: all steps are trained. Step 950',
    ]
    assert waits[1:] == [0.5] * 3


@pytest.mark.parametrize(
    'argv, words',
    [
        ([], 'name one model_dir'),
        (['a', 'b'], 'a b: name one model_dir'),
        (['a', '--model_dir=b'], 'a b: name one model_dir'),
        (['--model_dir=.'], 'holds no run of this trainer'),
        (['.'], 'holds no run of this trainer'),
        (['.', '--every_secs=0'], '--every_secs=0: a number over 0 is needed.'),
    ],
)
def test_mistakes(tmp_path, monkeypatch, capsys, argv, words):
    monkeypatch.chdir(tmp_path)
    assert status.main(argv) == 64
    assert words in capsys.readouterr().err
