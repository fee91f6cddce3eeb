"""guillaumegenthial/tf_ner: models/lstm_crf/main.py, names in sentences. 2018, TensorFlow 1.9.

It trains on the example that lies in the repository.
"""

REPOSITORY = 'guillaumegenthial/tf_ner'
REF = 'e9bca45c7a3d73e1b7ee5ce12ff4f33e4598f9d9'
MODE = '--tf1'
ALSO = {'guillaumegenthial/tf_metrics': 'ee93c3385e76af89c82d11333b47c2c38ba64196'}
CWD = 'models/lstm_crf'


def command(source, folder):
    return ['main.py']
