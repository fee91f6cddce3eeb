"""tensorflow/models: official/boosted_trees/train_higgs.py. 2018, TensorFlow 1.9."""

import numpy

REPOSITORY = 'tensorflow/models'
REF = '20070ca46f27964710a4f187d0437164e5a732c7'
MODE = '--tf1'
SUBTREE = ('official',)
PYTHONPATH = ('.',)
STOPS = 'boosted_trees'


def command(source, folder):
    data = numpy.random.RandomState(0).rand(100, 29).astype('float32')
    numpy.savez(folder / 'HIGGS.csv.gz.npz', data=data)
    return [
        'official/boosted_trees/train_higgs.py',
        f'--data_dir={folder}',
        f'--model_dir={folder}/model',
        '--n_trees=1',
        '--train_count=50',
        '--eval_count=50',
    ]
