"""google-research/bert: run_classifier.py, fine-tuning of BERT. 2020, TensorFlow 1.11 to 1.15."""

import common

REPOSITORY = 'google-research/bert'
REF = 'eedf5716ce1268e56f0a50264a88cafad334ac61'
MODE = '--tf1'


def command(source, folder):
    common.write_bert_config(folder / 'bert_config.json')
    common.write_bert_vocabulary(folder / 'vocab.txt')
    common.write_cola(folder)
    return [
        'run_classifier.py',
        '--task_name=CoLA',
        '--do_train=true',
        '--do_eval=true',
        f'--data_dir={folder}',
        f'--vocab_file={folder}/vocab.txt',
        f'--bert_config_file={folder}/bert_config.json',
        f'--output_dir={folder}/model',
        '--max_seq_length=16',
        '--train_batch_size=8',
        '--num_train_epochs=5',
        '--learning_rate=1e-3',
    ]
