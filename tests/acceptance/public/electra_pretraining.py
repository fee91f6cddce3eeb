"""google-research/electra: run_pretraining.py, a generator and a discriminator. 2021, TensorFlow 1.15.

It asks for a parallel input without a fixed order: two runs on one version differ in the fourth digit now and then.
"""

import json
import random

import common

REPOSITORY = 'google-research/electra'
REF = '8a46635f32083ada044d7e9ad09604742600ee7b'
MODE = '--tf1'
TOLERANCE = 1e-2
LOSS = r'loss: ([\d.]+)'
LENGTH = 16


def command(source, folder):
    chosen = random.Random(0)
    tokens = 5 + len(common.words())
    rows = []
    for _ in range(64):
        size = chosen.randint(8, LENGTH - 2)
        ids = [2, *(chosen.randrange(5, tokens) for _ in range(size)), 3]
        padding = [0] * (LENGTH - len(ids))
        mask = [1] * len(ids) + padding
        rows.append({'input_ids': ids + padding, 'input_mask': mask, 'segment_ids': [0] * LENGTH})
    (folder / 'pretrain_tfrecords').mkdir()
    common.write_examples(folder / 'pretrain_tfrecords/pretrain_data.tfrecord-0', rows)
    common.write_bert_vocabulary(folder / 'vocab.txt')
    layers = {'hidden_size': 32, 'num_hidden_layers': 2, 'num_attention_heads': 2, 'intermediate_size': 32}
    sizes = {'model_hparam_overrides': layers, 'embedding_size': 16, 'vocab_size': tokens, 'max_seq_length': LENGTH}
    steps = {'train_batch_size': 8, 'num_train_steps': 20, 'num_warmup_steps': 5, 'learning_rate': 1e-3}
    hparams = json.dumps({**sizes, **steps})
    return ['run_pretraining.py', f'--data-dir={folder}', '--model-name=small', f'--hparams={hparams}']
