"""google-research/albert: run_classifier.py, fine-tuning of ALBERT. 2023, TensorFlow 1.15."""

import common

REPOSITORY = 'google-research/albert'
REF = 'b772393d3dae115b493258ce8e37c17b2cc62100'
MODE = '--tf1'
PACKAGES = ('sentencepiece', 'tensorflow-hub')


def command(source, folder):
    (source / 'albert').symlink_to(source)  # its modules import each other from a package of this name
    (folder / 'CoLA').mkdir()
    common.write_cola(folder / 'CoLA')
    common.write_bert_vocabulary(folder / 'vocab.txt')
    common.write_bert_config(folder / 'albert_config.json', embedding_size=8, num_hidden_groups=1)
    return [
        'run_classifier.py',
        '--task_name=cola',
        '--do_train=true',
        f'--data_dir={folder}',
        f'--vocab_file={folder}/vocab.txt',
        f'--albert_config_file={folder}/albert_config.json',
        f'--output_dir={folder}/model',
        '--spm_model_file=',
        '--max_seq_length=16',
        '--train_batch_size=8',
        '--train_step=20',
        '--warmup_step=5',
        '--learning_rate=1e-3',
    ]
