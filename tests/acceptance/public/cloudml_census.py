"""GoogleCloudPlatform/cloudml-samples: census, a canned wide and deep Estimator. 2019, TensorFlow 1.13."""

import common

REPOSITORY = 'GoogleCloudPlatform/cloudml-samples'
REF = 'c079793582c57538f1df57f10167758e1f5ae057'
MODE = '--tf1'
SUBTREE = ('census/estimator',)
CWD = 'census/estimator'


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
