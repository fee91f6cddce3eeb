"""lambdaji/tf_repos: DCN.py, a model_fn with layers of tf.contrib for clicks. 2018, TensorFlow 1.4."""

import random

import common

REPOSITORY = 'lambdaji/tf_repos'
REF = 'b531ff12cdab65acc9551025f73fade2b6f425a7'
MODE = '--tf1'
SUBTREE = ('deep_ctr',)


def command(source, folder):
    chosen = random.Random(0)
    clicks = [
        [chosen.randrange(2), *(f'{chosen.randrange(100)}:{chosen.random():.4f}' for _ in range(5))] for _ in range(512)
    ]
    for name in ('tr', 'va'):
        common.write_table(folder / f'{name}.libsvm', clicks, separator=' ')
    return [
        'deep_ctr/Model_pipeline/DCN.py',
        f'--data_dir={folder}',
        f'--model_dir={folder}/model',
        '--feature_size=100',
        '--field_size=5',
        '--num_epochs=2',
        '--batch_size=64',
        '--embedding_size=4',
        '--deep_layers=16,8',
        '--batch_norm=True',
    ]
