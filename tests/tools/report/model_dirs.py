"""Model_dirs for tests, written by hand: a run alone, a cluster with a kill, and one that failed."""

import json

BEGAN = 1_700_000_000.0


def write(path, value) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(value, list):
        path.write_text(''.join(json.dumps(line) + '\n' for line in value))
    else:
        path.write_text(json.dumps(value))


def alone(folder, steps=100, every=10, **flags):
    """A process alone: two seconds of start, 0.1 s a step, an evaluation at the end."""
    lines = range(every, steps + 1, every)
    end = BEGAN + 2 + 0.1 * steps
    (folder / 'model').mkdir(parents=True, exist_ok=True)
    (folder / f'events.out.tfevents.{BEGAN:.0f}.host').write_bytes(b'')
    write(
        folder / 'metrics.jsonl',
        [
            {
                'kind': 'train',
                'step': n,
                'time': BEGAN + 2 + 0.1 * n,
                'loss': 2 / (1 + n),
                'examples_per_sec': 640.0 + n,
            }
            for n in lines
        ],
    )
    write(
        folder / 'eval/metrics.jsonl', [{'kind': 'eval', 'step': steps, 'time': end + 1, 'accuracy': 0.9, 'loss': 0.3}]
    )
    write(
        folder / 'config.json',
        {
            'job': 'mnist',
            'loop': 'estimator',
            'dataset': 'mnist_5k',
            'params': {'l2': 0.0, 'optimizer': 'adam'},
            'seed': 1,
            'strategy': 'none',
            'global_batch_size': 64,
            'num_replicas': 1,
            'cluster': {},
            'flags': {
                'job': 'mnist',
                'param': ['optimizer=adam'],
                'max_steps': steps,
                'batch_size': 64,
                'log_every_steps': every,
                'of_long_ago': 1,
                **flags,
            },
            'versions': {'python': '3.11.9', 'tensorflow': '2.21.0'},
        },
    )
    write(folder / 'training.json', training('ended', steps, steps, end + 2, 'max_steps'))
    write(
        folder / 'export/best/best.json',
        {'metric': 'accuracy', 'mode': 'max', 'value': 0.9, 'step': steps, 'saved_model': '1700000013'},
    )
    write(folder / 'export/best/1700000013/saved_model.pb', {})
    return folder


def training(state, step, max_steps, time, why=None) -> dict:
    return {
        'state': state,
        'step': step,
        'max_steps': max_steps,
        'checkpoint_step': step,
        'examples_per_sec': 740.0,
        'why': why,
        'generation': '',
        'beat': 3,
        'pid': 1,
        'time': time,
    }


def task(name, code, secs, how='by itself', signal=None, life=1, began=0.0, message=None) -> dict:
    meaning = {0: 'done', 1: 'failed: an exception; see there', 193: 'another task of the cluster was lost'}
    return {
        'name': name,
        'code': code,
        'signal': signal,
        'meaning': meaning.get(code, 'killed by signal 9'),
        'secs': secs,
        'began_secs': began,
        'how': how,
        'life': life,
        'message': message,
    }


def cluster(folder, code=0):
    """Two workers and an evaluator: worker:1 is killed at 10 s, the evaluator at 25 s; then done, or failed with 1."""
    alone(folder)
    (folder / f'events.out.tfevents.{BEGAN:.0f}.host').unlink()
    addresses = {'evaluator:0': 'a:3', 'worker:0': 'a:1', 'worker:1': 'a:2'}
    first = {
        'attempt': 1,
        'workers': 2,
        'addresses': addresses,
        'started': BEGAN,
        'secs': 11.0,
        'why': 'failed',
        'cause': {'task': 'worker:1', 'code': 137, 'text': 'worker:1 ended with SIGKILL', 'message': None},
        'checkpoint_before': None,
        'checkpoint_step': 50,
        'steps_lost': 17,
        'decision': 'restart',
        'delay_secs': 1.5,
        'tasks': [
            task('worker:1', 137, 10.0, signal='SIGKILL'),
            task('worker:0', 193, 10.5, message='lost worker:1'),
            task('evaluator:0', 137, 11.0, 'killed by the supervisor', 'SIGKILL'),
        ],
    }
    second = {
        **first,
        'attempt': 2,
        'started': BEGAN + 12.5,
        'secs': 20.0,
        'why': 'done' if code == 0 else 'failed',
        'checkpoint_before': 50,
        'checkpoint_step': 100,
        'steps_lost': 0,
        'decision': None if code == 0 else 'an exception again, at the same step or with no new checkpoint',
        'delay_secs': None,
        'cause': None if code == 0 else {'task': 'worker:0', 'code': 1, 'text': '…', 'message': 'ValueError: no'},
        'tasks': [
            task('evaluator:0', 137, 5.0, signal='SIGKILL'),
            task('worker:0', code, 18.0, message='ValueError: no' if code else None),
            task('worker:1', 0, 18.0),
            task('evaluator:0', 0, 20.0, life=2, began=6.0),
        ],
    }
    write(
        folder / 'report.json',
        {
            'exit_code': code,
            'meaning': '',
            'started': BEGAN,
            'ended': BEGAN + 32.5,
            'secs': 32.5,
            'restarts': 1,
            'attempts': [first, second],
        },
    )
    write(
        folder / 'status.json',
        {'state': 'failed' if code else 'done', 'attempt': 2, 'restarts': 1, 'time': BEGAN + 33, 'tasks': []},
    )
    write(folder / 'training.json', training('training' if code else 'ended', 100, 100, BEGAN + 31, 'max_steps'))
    write(
        folder / 'metrics.jsonl',
        [
            {'kind': 'train', 'step': n, 'time': BEGAN + at, 'loss': 1.0, 'examples_per_sec': 1.0}
            for n, at in [(10, 4), (20, 5), (30, 6), (40, 7), (50, 8), (60, 9), (60, 20), (70, 21), (80, 22), (100, 24)]
        ],
    )
    return folder
