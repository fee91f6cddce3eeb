"""zihangdai/xlnet: run_classifier.py, fine-tuning of XLNet on reviews. 2019, TensorFlow 1.13."""

import json
import struct

import common

REPOSITORY = 'zihangdai/xlnet'
REF = 'bbaa3a6fa0b3a2ee694e8cf66167434f9eca9660'
MODE = '--tf1'
PACKAGES = ('sentencepiece', 'scikit-learn', 'scipy', 'joblib', 'threadpoolctl')


def command(source, folder):
    _write_sentence_pieces(folder / 'pieces.model')
    for seed, label in enumerate(('neg', 'pos')):
        (folder / 'train' / label).mkdir(parents=True)
        for number, sentence in enumerate(common.sentences(16, seed)):
            (folder / 'train' / label / f'{number}.txt').write_text(sentence)
    sizes = {'n_layer': 2, 'd_model': 16, 'n_head': 2, 'd_head': 8, 'd_inner': 32, 'n_token': 32000}
    (folder / 'xlnet.json').write_text(json.dumps({**sizes, 'ff_activation': 'gelu', 'untie_r': True}))
    return [
        'run_classifier.py',
        '--task_name=imdb',
        '--do_train=true',
        f'--data_dir={folder}',
        f'--spiece_model_file={folder}/pieces.model',
        f'--model_config_path={folder}/xlnet.json',
        f'--output_dir={folder}/records',
        f'--model_dir={folder}/model',
        '--num_core_per_host=1',
        '--max_seq_length=16',
        '--train_batch_size=8',
        '--train_steps=20',
        '--learning_rate=1e-3',
    ]


def _write_sentence_pieces(path):
    """A model of the package sentencepiece, in which each word is a piece. XLNet's marks come first."""
    marks = ['<unk>', '<s>', '</s>', '<cls>', '<sep>', '<pad>', '<mask>', '<eod>', '<eop>']
    model = b''
    for number, piece in enumerate([*marks, *(f'\u2581{word}' for word in common.words())]):
        kind = 2 if piece == '<unk>' else 3 if number < len(marks) else 1
        score = b'\x15' + struct.pack('<f', -1.0)
        model += common.field(1, common.field(1, piece.encode()) + score + common.field(3, kind))
    path.write_bytes(model + common.field(3, common.field(1, b'identity')))
