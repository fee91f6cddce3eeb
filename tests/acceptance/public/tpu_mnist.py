"""tensorflow/tpu: mnist_tpu.py, a TPUEstimator on the CPU. 2022, TensorFlow 2.x with tensorflow.compat.v1."""

import random

import common

REPOSITORY = 'tensorflow/tpu'
REF = 'b681f132cd9987cfe8fa6f7383072897831dcd73'
MODE = ''
SUBTREE = ('models/official/mnist',)


def command(source, folder):
    chosen = random.Random(0)
    images = [{'image_raw': [chosen.randbytes(28 * 28)], 'label': [chosen.randrange(10)]} for _ in range(64)]
    for name in ('train', 'validation', 'test'):
        common.write_examples(folder / f'{name}.tfrecords', images)
    return [
        'models/official/mnist/mnist_tpu.py',
        '--use_tpu=False',
        '--tpu=local',
        f'--data_dir={folder}',
        f'--model_dir={folder}/model',
        '--batch_size=16',
        '--train_steps=20',
        '--iterations=10',
        '--eval_steps=2',
        '--learning_rate=0.01',
    ]
