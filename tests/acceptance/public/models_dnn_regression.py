"""tensorflow/models: cookbook, dnn_regression.py, a canned DNNRegressor on prices of cars. 2018, TensorFlow 1.8."""

import common

REPOSITORY = 'tensorflow/models'
REF = '4cfb259f02135f6e5b5a8f965833f6a5ab7672d9'
MODE = '--tf1'
SUBTREE = ('samples/cookbook/regression',)


def command(source, folder):
    kept = folder / '.keras/datasets'  # the home of the program, in which it finds what it would download
    kept.mkdir(parents=True)
    common.write_cars(kept / 'imports-85.data')
    return ['samples/cookbook/regression/dnn_regression.py', '--train_steps=200']
