"""GoogleCloudPlatform/training-data-analyst: simplernn, an LSTM of tf.contrib.rnn on series. 2019, TensorFlow 1.13."""

import math

import common

REPOSITORY = 'GoogleCloudPlatform/training-data-analyst'
REF = '2ccd5f75b5be97a48374e9ef1ba06171cd08b595'
MODE = '--tf1'
SUBTREE = ('courses/machine_learning/deepdive/05_artandscience/simplernn',)
CWD = SUBTREE[0]


def command(source, folder):
    series = [[math.sin(start / 7 + step / 3) for step in range(10)] for start in range(512)]
    for name in ('train', 'valid'):
        common.write_table(source / CWD / f'{name}.csv', series)
    return [
        '-m',
        'trainer.task',
        '--train_data_paths=train.csv',
        '--eval_data_paths=valid.csv',
        f'--output_dir={folder}/model',
    ]
