"""GoogleCloudPlatform/cloudml-samples: census with tf.contrib.learn.Experiment. 2017, TensorFlow 1.4."""

import common

REPOSITORY = 'GoogleCloudPlatform/cloudml-samples'
REF = '6b1cf7c9920ec3a3b64b82af81efed41c8821980'
MODE = '--tf1'
SUBTREE = ('census/estimator',)
CWD = 'census/estimator'
STOPS = 'tf.contrib.learn'


def command(source, folder):
    common.write_census(folder / 'adult.csv')
    return [
        '-m',
        'trainer.task',
        f'--train-files={folder}/adult.csv',
        f'--eval-files={folder}/adult.csv',
        f'--job-dir={folder}/model',
        '--train-steps=60',
    ]
