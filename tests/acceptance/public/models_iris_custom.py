"""tensorflow/models: samples/core/get_started/custom_estimator.py, kinds of iris. 2018, TensorFlow 1.5."""

import common

REPOSITORY = 'tensorflow/models'
REF = '080795fecb72a68c1ab788e1a6f277641855bad0'
MODE = '--tf1'
SUBTREE = ('samples/core/get_started',)


def command(source, folder):
    kept = folder / '.keras/datasets'  # the home of the program, in which it finds what it would download
    kept.mkdir(parents=True)
    for seed, name in enumerate(('iris_training.csv', 'iris_test.csv')):
        common.write_iris(kept / name, seed)
    return ['samples/core/get_started/custom_estimator.py', '--train_steps=200']
