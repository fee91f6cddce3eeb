"""tensorflow/models: official/wide_deep/wide_deep.py when it was one file. 2017, TensorFlow 1.4."""

import common

REPOSITORY = 'tensorflow/models'
REF = '1679377f6fcf93973071ed43f0037198766a37a4'
MODE = '--tf1'
SUBTREE = ('official/wide_deep',)


def command(source, folder):
    common.write_census(folder / 'spaced.csv')
    rows = (folder / 'spaced.csv').read_text().replace(', ', ',')
    for name in ('adult.data', 'adult.test'):
        (folder / name).write_text(rows)
    return [
        'official/wide_deep/wide_deep.py',
        f'--train_data={folder}/adult.data',
        f'--test_data={folder}/adult.test',
        f'--model_dir={folder}/model',
        '--train_epochs=4',
    ]
