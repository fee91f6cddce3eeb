"""GoogleCloudPlatform/cloudml-samples: census with a model_fn and tf.contrib.lookup. 2020, TensorFlow 1.15."""

import common

REPOSITORY = 'GoogleCloudPlatform/cloudml-samples'
REF = '76a0772cedf0e955c0595cf243398932aa801fac'
MODE = '--tf1'
SUBTREE = ('census/customestimator',)
CWD = 'census/customestimator'


def command(source, folder):
    common.write_census(folder / 'adult.csv')
    return [
        '-m',
        'trainer.task',
        f'--train-files={folder}/adult.csv',
        f'--eval-files={folder}/adult.csv',
        f'--job-dir={folder}/model',
        '--train-steps=60',
        '--eval-steps=4',
    ]
