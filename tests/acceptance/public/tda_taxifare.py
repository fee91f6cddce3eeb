"""GoogleCloudPlatform/training-data-analyst: taxifare, a canned DNNRegressor. 2020, TensorFlow 2.1."""

import random

import common

REPOSITORY = 'GoogleCloudPlatform/training-data-analyst'
REF = 'a681bd179524128544b658923b1440a18b232414'
MODE = ''
SUBTREE = ('courses/machine_learning/deepdive/03_tensorflow/taxifare',)
CWD = SUBTREE[0]


def command(source, folder):
    chosen = random.Random(0)
    places = [[chosen.uniform(-74, -73.8), chosen.uniform(40.6, 40.8)] * 2 for _ in range(256)]
    rides = [[chosen.uniform(5, 30), *place, chosen.randint(1, 4), key] for key, place in enumerate(places)]
    common.write_table(folder / 'rides.csv', rides)
    return [
        '-m',
        'trainer.task',
        f'--train_data_paths={folder}/rides.csv',
        f'--eval_data_paths={folder}/rides.csv',
        f'--output_dir={folder}/model',
        '--train_batch_size=32',
        '--train_steps=100',
    ]
