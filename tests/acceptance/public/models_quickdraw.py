"""tensorflow/models: quickdraw, train_model.py, convolutions and LSTMs on drawings. 2018, TensorFlow 1.8."""

import random

import common

REPOSITORY = 'tensorflow/models'
REF = 'c15aedf3402cf735b17c1bccad009e91cd51cca1'
MODE = '--tf1'
SUBTREE = ('tutorials/rnn/quickdraw',)


def command(source, folder):
    chosen = random.Random(0)
    drawings = []
    for number in range(64):
        ink = [chosen.uniform(-1, 1) for _ in range(3 * chosen.randint(5, 9))]
        drawings.append({'ink': ink, 'shape': [len(ink) // 3, 3], 'class_index': [number % 3]})
    common.write_examples(folder / 'drawings.tfrecord', drawings)
    (folder / 'classes').write_text('cat\ndog\nhouse\n')
    return [
        'tutorials/rnn/quickdraw/train_model.py',
        f'--training_data={folder}/drawings.tfrecord',
        f'--eval_data={folder}/drawings.tfrecord',
        f'--classes_file={folder}/classes',
        f'--model_dir={folder}/model',
        '--num_layers=1',
        '--num_nodes=8',
        '--num_conv=[4, 4]',
        '--conv_len=[3, 3]',
        '--batch_size=8',
        '--steps=30',
    ]
