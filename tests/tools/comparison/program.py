"""A program of a user's: reads files, leaves its seeds open, trains, evaluates, predicts and exports.

    python program.py FOLDER MODEL_DIR [--rate=0.01] [--kernel=glorot_uniform] [--files=0,1,2] [--steps=1000]

makes its files in FOLDER unless they are there.
"""

import argparse
import os
import pathlib
import sys

import numpy as np
import tensorflow as tf

_COLUMNS = 5


def make_files(folder):
    folder.mkdir(exist_ok=True)
    for number in range(3):
        path = folder / f'{number}.csv'
        if path.exists():
            continue
        rows = np.random.RandomState(number).normal(size=(60, _COLUMNS)).round(4)
        with open(path, 'w') as file:
            file.writelines(','.join(map(str, [*row, round(row.sum(), 4)])) + '\n' for row in rows)


def input_fn(files, training):
    def parse(line):
        *numbers, label = tf.io.decode_csv(line, [[0.0]] * (_COLUMNS + 1))
        return {'numbers': tf.stack(numbers), 'size': tf.reduce_sum(tf.abs(numbers))}, label

    dataset = tf.data.TextLineDataset(files).map(parse, tf.data.AUTOTUNE)
    return (dataset.shuffle(40).repeat() if training else dataset).batch(16)


def model_fn(features, labels, mode, params):
    numbers = tf.concat([features['numbers'], features['size'][:, None]], axis=1)
    kernel = tf.compat.v1.keras.initializers.get(params['kernel'])
    hidden = tf.compat.v1.layers.dense(numbers, 8, tf.nn.tanh, kernel_initializer=kernel, name='hidden')
    hidden = tf.compat.v1.layers.dropout(hidden, 0.1, training=mode == 'train')
    output = tf.compat.v1.layers.dense(hidden, 1, name='output')[:, 0]
    if mode == tf.estimator.ModeKeys.PREDICT:
        outputs = {'serving_default': tf.estimator.export.PredictOutput({'output': output})}
        return tf.estimator.EstimatorSpec(mode, {'output': output}, export_outputs=outputs)
    loss = tf.compat.v1.losses.mean_squared_error(labels, output)
    optimizer = tf.compat.v1.train.AdamOptimizer(params['rate'])
    return tf.estimator.EstimatorSpec(
        mode,
        {'output': output},
        loss,
        optimizer.minimize(loss, tf.compat.v1.train.get_global_step()),
        eval_metric_ops={'error': tf.compat.v1.metrics.mean_absolute_error(labels, output)},
    )


def main(argv):
    parser = argparse.ArgumentParser()
    parser.add_argument('folder', type=pathlib.Path)
    parser.add_argument('model_dir')
    parser.add_argument('--rate', type=float, default=0.01)
    parser.add_argument('--kernel', default='glorot_uniform')
    parser.add_argument('--files', default='0,1,2')
    parser.add_argument('--steps', type=int, default=1000)
    options = parser.parse_args(argv)
    make_files(options.folder)
    files = [str(options.folder / f'{number}.csv') for number in options.files.split(',')]
    estimator = tf.estimator.Estimator(
        model_fn, options.model_dir, params={'rate': options.rate, 'kernel': options.kernel}
    )
    estimator.train(lambda: input_fn(files, True), max_steps=options.steps)
    estimator.evaluate(lambda: input_fn(files, False))
    predictions = list(estimator.predict(lambda: input_fn(files, False)))
    assert len(predictions) == 180, len(predictions)
    columns = {'numbers': tf.io.FixedLenFeature([_COLUMNS], tf.float32), 'size': tf.io.FixedLenFeature([], tf.float32)}
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(columns)
    estimator.export_saved_model(os.path.join(options.model_dir, 'export'), receiver)


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
