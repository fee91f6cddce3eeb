"""shenweichen/DeepCTR: DeepFMEstimator on TFRecord files. 2026, TensorFlow 1.15 to 2.x."""

REPOSITORY = 'shenweichen/DeepCTR'
REF = '1b5fe40e158d1ee6af8b1d9df217a5ed5aea9136'
MODE = ''
LOSS = r"'loss': (?:np.float32\()?([\d.e+-]+\d)"
CWD = 'examples'
PYTHONPATH = ('.',)


def command(source, folder):
    return ['run_estimator_tfrecord_classification.py']
