"""As wide-and-deep programs of 2017 look: columns, CSV files, train and evaluate in a loop, an export."""

from __future__ import print_function

import argparse
import json
import os
import shutil
import sys

import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser()
parser.add_argument('--model_dir', type=str, default='/tmp/census_model')
parser.add_argument('--train_epochs', type=int, default=4)
COLUMNS = ['age', 'education', 'occupation', 'income']
DEFAULTS = [[0.0], [''], [''], ['']]


def model_columns():
    age = tf.feature_column.numeric_column('age')
    buckets = tf.feature_column.bucketized_column(age, boundaries=[25, 40, 60])
    education = tf.feature_column.categorical_column_with_vocabulary_list('education', ['BSc', 'MSc', 'PhD'])
    occupation = tf.feature_column.categorical_column_with_hash_bucket('occupation', hash_bucket_size=50)
    crossed = tf.feature_column.crossed_column([buckets, 'education'], hash_bucket_size=100)
    deep = [age, tf.feature_column.indicator_column(education), tf.feature_column.embedding_column(occupation, 4)]
    return [education, occupation, buckets, crossed], deep


def write(path, count, seed):
    random = np.random.RandomState(seed)
    with tf.gfile.Open(path, 'w') as file:
        for _ in range(count):
            age, education = random.randint(18, 80), random.choice(['BSc', 'MSc', 'PhD'])
            rich = age > 40 and education != 'BSc'
            file.write('%d,%s,job%d,%s\n' % (age, education, random.randint(9), '>50K' if rich else '<=50K'))


def input_fn(path, epochs, shuffle):
    def parse_csv(line):
        features = dict(zip(COLUMNS, tf.decode_csv(line, record_defaults=DEFAULTS)))
        return features, tf.equal(features.pop('income'), '>50K')

    data = tf.data.TextLineDataset(path)
    if shuffle:
        data = data.shuffle(buffer_size=200, seed=1)
    data = data.map(parse_csv, num_parallel_calls=2).repeat(epochs).batch(40)
    return data.make_one_shot_iterator().get_next()


def main(unused_argv):
    shutil.rmtree(FLAGS.model_dir, ignore_errors=True)
    os.makedirs(FLAGS.model_dir)
    train, test = (os.path.join(FLAGS.model_dir, name) for name in ('adult.data', 'adult.test'))
    write(train, 400, 0)
    write(test, 200, 1)
    wide, deep = model_columns()
    config = tf.estimator.RunConfig(tf_random_seed=1).replace(session_config=tf.ConfigProto(device_count={'GPU': 0}))
    model = tf.estimator.DNNLinearCombinedClassifier(
        model_dir=os.path.join(FLAGS.model_dir, 'model'),
        linear_feature_columns=wide,
        dnn_feature_columns=deep,
        dnn_hidden_units=[20, 10],
        dnn_optimizer=tf.train.ProximalAdagradOptimizer(0.05, l2_regularization_strength=0.001),
        config=config,
    )
    for _ in range(FLAGS.train_epochs // 2):
        hook = tf.train.LoggingTensorHook({'average_loss': 'head/truediv'}, every_n_iter=10)
        model.train(input_fn=lambda: input_fn(train, 2, True), hooks=[hook])
        results = model.evaluate(input_fn=lambda: input_fn(test, 1, False))
        tf.logging.info('%s', results)
    example = tf.feature_column.make_parse_example_spec(wide + deep)
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(example)
    folder = model.export_savedmodel(os.path.join(FLAGS.model_dir, 'export'), receiver, strip_default_attrs=True)
    with tf.Session(graph=tf.Graph()) as session:
        meta = tf.saved_model.loader.load(session, [tf.saved_model.tag_constants.SERVING], folder)
        tensors = meta.signature_def['predict']
        texts = {'education': b'PhD', 'occupation': b'job1'}
        features = {n: tf.train.Feature(bytes_list=tf.train.BytesList(value=[t])) for n, t in texts.items()}
        features['age'] = tf.train.Feature(float_list=tf.train.FloatList(value=[55.0]))
        serialized = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()
        feed = {tensors.inputs['examples'].name: [serialized]}
        results['exported'] = session.run(tensors.outputs['logistic'].name, feed)[0, 0]
    print('RESULT', json.dumps({name: float(value) for name, value in sorted(results.items())}))


if __name__ == '__main__':
    tf.logging.set_verbosity(tf.logging.ERROR)
    FLAGS, unparsed = parser.parse_known_args()
    tf.app.run(main=main, argv=[sys.argv[0]] + unparsed)
