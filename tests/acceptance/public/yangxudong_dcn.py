"""yangxudong/deeplearning: DCN, a model_fn with a head of tf.contrib.estimator. 2018, TensorFlow 1.6."""

import random

import common

REPOSITORY = 'yangxudong/deeplearning'
REF = '6eb6f9ac881edb7999bf6ec23a3339dc4965e249'
MODE = '--tf1'
SUBTREE = ('DCN',)


def command(source, folder):
    chosen = random.Random(0)
    names = ['productId', 'sellerId', 'behaviorPids', 'behaviorSids', 'gender', 'position']
    clicks = [
        {
            'click': [chosen.randrange(2)],
            'price_norm': [chosen.random()],
            'popScore': [chosen.random()],
            'phoneOs': [chosen.choice([b'android', b'ios'])],
            **{name: [chosen.randrange(3)] for name in names},
        }
        for _ in range(128)
    ]
    common.write_examples(folder / 'clicks.tfrecord', clicks)
    return [
        '-m',
        'DCN.train',
        f'--train_data={folder}/clicks.tfrecord',
        f'--eval_data={folder}/clicks.tfrecord',
        f'--model_dir={folder}/model',
        '--train_steps=30',
        '--batch_size=32',
        '--hidden_units=32,16',
    ]
