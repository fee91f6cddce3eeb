"""GoogleCloudPlatform/cloudml-samples: iris, a canned DNNClassifier with an exporter. 2020, TensorFlow 1.15."""

import random

import common

REPOSITORY = 'GoogleCloudPlatform/cloudml-samples'
REF = '89dfe945588d51675d6ebf77192357a5528d9c7a'
MODE = '--tf1'
SUBTREE = ('tensorflow/standard/iris',)
CWD = 'tensorflow/standard/iris'


def command(source, folder):
    chosen = random.Random(0)
    flowers = [[chosen.gauss(kind + 1, 0.5) for _ in range(4)] + [kind] for kind in [0, 1, 2] * 40]
    common.write_table(folder / 'iris.csv', flowers, header=[120, 4, 'setosa', 'versicolor', 'virginica'])
    return [
        '-m',
        'trainer.task',
        f'--train-files={folder}/iris.csv',
        f'--eval-files={folder}/iris.csv',
        f'--job-dir={folder}/model',
        '--train-steps=200',
        '--eval-steps=3',
    ]
