"""lambdaji/tf_repos: wide_n_deep.py, its canned LinearClassifier for clicks. 2018, TensorFlow 1.4."""

import random

import common

REPOSITORY = 'lambdaji/tf_repos'
REF = 'b531ff12cdab65acc9551025f73fade2b6f425a7'
MODE = '--tf1'
SUBTREE = ('deep_ctr',)


def command(source, folder):
    chosen = random.Random(0)
    clicks = [
        [chosen.randrange(2), *(chosen.random() for _ in range(13)), *(chosen.randrange(100) for _ in range(26))]
        for _ in range(512)
    ]
    for name in ('tr', 'va'):
        common.write_table(folder / f'{name}.csv', clicks)
    return [
        'deep_ctr/Model_pipeline/wide_n_deep.py',
        '--model_type=wide',
        f'--data_dir={folder}',
        f'--model_dir={folder}/model',
        '--num_epochs=2',
        '--batch_size=64',
    ]
