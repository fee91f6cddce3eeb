"""tensorflow/models: official/wide_deep/census_main.py, with its flags and hooks. 2018, TensorFlow 1.9."""

import common

REPOSITORY = 'tensorflow/models'
REF = '20070ca46f27964710a4f187d0437164e5a732c7'
MODE = '--tf1'
SUBTREE = ('official',)
PYTHONPATH = ('.',)


def command(source, folder):
    common.write_census(folder / 'spaced.csv')
    rows = (folder / 'spaced.csv').read_text().replace(', ', ',')
    for name in ('adult.data', 'adult.test'):
        (folder / name).write_text(rows)
    return [
        'official/wide_deep/census_main.py',
        f'--data_dir={folder}',
        f'--model_dir={folder}/model',
        f'--export_dir={folder}/export',
        '--train_epochs=4',
    ]
