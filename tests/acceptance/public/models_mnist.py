"""tensorflow/models: official/mnist/mnist.py, layers of Keras in an Estimator. 2018, TensorFlow 1.9."""

import common

REPOSITORY = 'tensorflow/models'
REF = '20070ca46f27964710a4f187d0437164e5a732c7'
MODE = '--tf1'
SUBTREE = ('official',)
PYTHONPATH = ('.',)


def command(source, folder):
    common.write_mnist(folder)
    return [
        'official/mnist/mnist.py',
        f'--data_dir={folder}',
        f'--model_dir={folder}/model',
        '--data_format=channels_last',
        '--batch_size=10',
        '--train_epochs=2',
    ]
