"""A model_dir as a run leaves it, and how it goes on."""

import json

TIME = 1_700_000_000.0


def make(folder, steps=(100, 200, 300), **flags):
    folder.mkdir(exist_ok=True)
    (folder / 'eval').mkdir(exist_ok=True)
    config = {
        'job': 'mnist',
        'loop': 'estimator',
        'seed': 1,
        'params': {'learning_rate': 0.1, 'optimizer': 'sgd', 'nesterov': False},
        'flags': {'max_steps': 300, **flags},
        'versions': {'tensorflow': '2.21.0'},
    }
    (folder / 'config.json').write_text(json.dumps(config))
    train(folder, *steps)
    evaluation(folder, steps[-1])
    export(folder, 'final/1700000300')


def train(folder, *steps, later=0.0):
    with open(folder / 'metrics.jsonl', 'a') as file:
        for step in steps:
            line = {'kind': 'train', 'step': step, 'time': TIME + step + later, 'loss': 100 / step}
            file.write(json.dumps(line) + '\n')


def evaluation(folder, step):
    with open(folder / 'eval' / 'metrics.jsonl', 'a') as file:
        line = {'kind': 'eval', 'step': step, 'time': TIME + step, 'accuracy': 0.5, 'accuracy/baseline': 0.25}
        file.write(json.dumps(line) + '\n')


def export(folder, name):
    path = folder / 'export' / name
    path.mkdir(parents=True)
    (path / 'saved_model.pb').write_bytes(b'a model')


def ended(folder, state='ended'):
    (folder / 'training.json').write_text(json.dumps({'state': state, 'why': 'max_steps', 'time': TIME + 300.5}))
