"""omoindrot/tensorflow-triplet-loss: embeddings of digits by a triplet loss. 2019, TensorFlow 1.6."""

import json

import common

REPOSITORY = 'omoindrot/tensorflow-triplet-loss'
REF = 'fc698369bb6c9acdc9f0e9e1ea00de0ddf782f12'
MODE = '--tf1'
LOSS = r'\nloss: ([\d.e+-]+\d)'


def command(source, folder):
    common.write_mnist(folder)
    params = json.loads((source / 'experiments' / 'batch_all' / 'params.json').read_text())
    params.update(num_epochs=2, batch_size=20, num_channels=4, train_size=60, eval_size=60, save_summary_steps=5)
    (folder / 'model').mkdir()
    (folder / 'model' / 'params.json').write_text(json.dumps(params))
    return ['train.py', f'--data_dir={folder}', f'--model_dir={folder}/model']
