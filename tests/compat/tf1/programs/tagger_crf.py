"""As taggers of 2018 look: vocabularies in files, a fused LSTM in both directions, a conditional random field."""

import json
import os
import pathlib
import sys

import numpy as np
import tensorflow as tf

WORDS = ['word%d' % number for number in range(20)]
TAGS = ['O', 'B-LOC', 'B-PER']


def sentences(count, seed):
    """Words 0 to 4 are places, 5 to 9 persons; a word after word19 is a person in any case."""
    random = np.random.RandomState(seed)
    for _ in range(count):
        numbers = random.randint(0, 20, random.randint(2, 8))
        before = [None] + list(numbers[:-1])
        tags = [2 if last == 19 else 1 if n < 5 else 2 if n < 10 else 0 for last, n in zip(before, numbers)]
        yield [WORDS[n].encode() for n in numbers], [TAGS[tag].encode() for tag in tags]


def input_fn(count, seed, repeats):
    def generator():
        for words, tags in sentences(count, seed):
            yield (words, len(words)), tags

    data = tf.data.Dataset.from_generator(
        generator, output_types=((tf.string, tf.int32), tf.string), output_shapes=(([None], ()), [None])
    )
    return data.repeat(repeats).padded_batch(16, (([None], ()), [None]), (('<pad>', 0), 'O')).prefetch(1)


def model_fn(features, labels, mode, params):
    words, lengths = features
    word_ids = tf.contrib.lookup.index_table_from_file(params['words'], num_oov_buckets=1).lookup(words)
    table = tf.get_variable('embeddings', [len(WORDS) + 1, 12], tf.float32, tf.random_uniform_initializer(-0.5, 0.5))
    x = tf.transpose(tf.nn.embedding_lookup(table, word_ids), perm=[1, 0, 2])
    forward = tf.contrib.rnn.LSTMBlockFusedCell(10)
    backward = tf.contrib.rnn.TimeReversedFusedRNN(tf.contrib.rnn.LSTMBlockFusedCell(10))
    both = [cell(x, dtype=tf.float32, sequence_length=lengths)[0] for cell in (forward, backward)]
    x = tf.transpose(tf.concat(both, axis=-1), perm=[1, 0, 2])
    logits = tf.layers.dense(x, len(TAGS))
    crf_params = tf.get_variable('crf', [len(TAGS), len(TAGS)], dtype=tf.float32)
    predicted, _ = tf.contrib.crf.crf_decode(logits, crf_params, lengths)
    if mode == tf.estimator.ModeKeys.PREDICT:
        names = tf.contrib.lookup.index_to_string_table_from_file(params['tags'])
        return tf.estimator.EstimatorSpec(mode, predictions={'tags': names.lookup(tf.to_int64(predicted))})
    tags = tf.contrib.lookup.index_table_from_file(params['tags']).lookup(labels)
    likelihood, _ = tf.contrib.crf.crf_log_likelihood(logits, tf.to_int32(tags), lengths, crf_params)
    loss = tf.reduce_mean(-likelihood)
    if mode == tf.estimator.ModeKeys.EVAL:
        weights = tf.sequence_mask(lengths)
        accuracy = tf.metrics.accuracy(tags, tf.to_int64(predicted), weights)
        tf.summary.scalar('accuracy', accuracy[1])
        return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops={'accuracy': accuracy})
    train_op = tf.train.AdamOptimizer(0.02).minimize(loss, global_step=tf.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


if __name__ == '__main__':
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    params = {'words': str(folder / 'words.txt'), 'tags': str(folder / 'tags.txt')}
    for name, lines in (('words', WORDS), ('tags', TAGS)):
        pathlib.Path(params[name]).write_text('\n'.join(lines) + '\n')
    config = tf.estimator.RunConfig(save_checkpoints_steps=40, tf_random_seed=1)
    estimator = tf.estimator.Estimator(model_fn, os.path.join(str(folder), 'model'), config, params)
    os.makedirs(estimator.eval_dir(), exist_ok=True)
    hook = tf.contrib.estimator.stop_if_no_increase_hook(estimator, 'accuracy', 500, min_steps=8000, run_every_secs=120)
    train_spec = tf.estimator.TrainSpec(lambda: input_fn(64, 0, 20), hooks=[hook])
    eval_spec = tf.estimator.EvalSpec(lambda: input_fn(64, 1, 1), throttle_secs=0, start_delay_secs=0)
    tf.estimator.train_and_evaluate(estimator, train_spec, eval_spec)
    result = estimator.evaluate(lambda: input_fn(64, 1, 1))
    print('RESULT', json.dumps({name: float(value) for name, value in sorted(result.items())}))
