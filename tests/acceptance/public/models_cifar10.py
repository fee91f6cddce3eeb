"""tensorflow/models: official/resnet/cifar10_main.py, a ResNet of 8 layers. 2018, TensorFlow 1.5.

Later versions read in parallel without an order, so that their losses differ from run to run.
"""

import random

REPOSITORY = 'tensorflow/models'
REF = 'a6758929de084bcb98de00e1ec6fc6837cfbeb56'
MODE = '--tf1'
SUBTREE = ('official/resnet',)


def command(source, folder):
    chosen = random.Random(0)
    (folder / 'cifar-10-batches-bin').mkdir()
    for name in ['test_batch', *(f'data_batch_{number}' for number in range(1, 6))]:
        images = b''.join(bytes([chosen.randrange(10)]) + chosen.randbytes(32 * 32 * 3) for _ in range(8))
        (folder / f'cifar-10-batches-bin/{name}.bin').write_bytes(images)
    return [
        'official/resnet/cifar10_main.py',
        f'--data_dir={folder}',
        f'--model_dir={folder}/model',
        '--data_format=channels_last',
        '--resnet_size=8',
        '--batch_size=8',
        '--train_epochs=2',
        '--epochs_per_eval=1',
    ]
