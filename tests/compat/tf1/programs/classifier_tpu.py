"""As fine-tuning programs of 2018 look: TPUEstimator with use_tpu=False, an optimizer of their own, a warm start."""

from __future__ import absolute_import, division, print_function

import collections
import json
import os
import re

import numpy as np
import tensorflow as tf

flags = tf.flags
FLAGS = flags.FLAGS
flags.DEFINE_string('output_dir', None, 'Where checkpoints go.')
flags.DEFINE_bool('use_tpu', False, 'Whether there is a TPU.')
flags.DEFINE_string('tpu_name', None, 'Its name.')
flags.DEFINE_integer('num_train_steps', 12, 'Steps.')


class DecayingAdam(tf.train.Optimizer):
    """Adam whose weights decay outside of its moments."""

    def __init__(self, learning_rate, weight_decay_rate=0.01, exclude=('LayerNorm', 'bias')):
        super(DecayingAdam, self).__init__(False, 'DecayingAdam')
        self.learning_rate, self.weight_decay_rate, self.exclude = learning_rate, weight_decay_rate, exclude

    def apply_gradients(self, grads_and_vars, global_step=None, name=None):
        assignments = []
        for grad, param in grads_and_vars:
            if grad is None:
                continue
            name = param.op.name
            zeros, shape = tf.zeros_initializer(), param.shape.as_list()
            m = tf.get_variable(name + '/first', shape, tf.float32, zeros, trainable=False)
            v = tf.get_variable(name + '/second', shape, tf.float32, zeros, trainable=False)
            next_m = tf.multiply(0.9, m) + tf.multiply(0.1, grad)
            next_v = tf.multiply(0.999, v) + tf.multiply(0.001, tf.square(grad))
            update = next_m / (tf.sqrt(next_v) + 1e-6)
            if not any(re.search(part, name) for part in self.exclude):
                update += self.weight_decay_rate * param
            assignments.extend([param.assign(param - self.learning_rate * update), m.assign(next_m), v.assign(next_v)])
        return tf.group(*assignments, name=name)


def encoder(ids, mask):
    """[batch, length] -> [batch, 16]: an embedding, one layer of attention, a layer norm."""
    with tf.variable_scope('encoder'):
        table = tf.get_variable('word_embeddings', [50, 16], initializer=tf.truncated_normal_initializer(stddev=0.2))
        x = tf.nn.embedding_lookup(table, ids)
        query, key = (tf.layers.dense(x, 16, name=name) for name in ('query', 'key'))
        scores = tf.matmul(query, key, transpose_b=True) / 4.0
        scores += tf.expand_dims(1.0 - tf.to_float(mask), 1) * -10000.0
        x = tf.contrib.layers.layer_norm(
            x + tf.matmul(tf.nn.softmax(scores), x), begin_norm_axis=-1, begin_params_axis=-1, scope='LayerNorm'
        )
        return tf.layers.dense(tf.squeeze(x[:, 0:1, :], axis=1), 16, activation=tf.tanh, name='pooler')


def model_fn(features, labels, mode, params):
    ids, mask, label_ids = features['input_ids'], features['input_mask'], features['label_ids']
    logits = tf.layers.dense(tf.nn.dropout(encoder(ids, mask), keep_prob=1.0), 2, name='output')
    losses = -tf.reduce_sum(tf.one_hot(label_ids, 2) * tf.nn.log_softmax(logits), axis=-1)
    loss = tf.reduce_mean(losses)
    if mode == tf.estimator.ModeKeys.TRAIN:
        step = tf.train.get_or_create_global_step()
        rate = tf.train.polynomial_decay(0.02, step, 100, end_learning_rate=0.0)
        variables = tf.trainable_variables()
        gradients, _ = tf.clip_by_global_norm(tf.gradients(loss, variables), clip_norm=1.0)
        train_op = DecayingAdam(rate).apply_gradients(zip(gradients, variables), global_step=step)
        train_op = tf.group(train_op, [step.assign(step + 1)])
        return tf.contrib.tpu.TPUEstimatorSpec(mode=mode, loss=loss, train_op=train_op, scaffold_fn=None)
    if mode == tf.estimator.ModeKeys.EVAL:

        def metric_fn(losses, label_ids, logits):
            predictions = tf.argmax(logits, axis=-1, output_type=tf.int32)
            return {'eval_accuracy': tf.metrics.accuracy(label_ids, predictions), 'eval_loss': tf.metrics.mean(losses)}

        return tf.contrib.tpu.TPUEstimatorSpec(
            mode=mode, loss=loss, eval_metrics=(metric_fn, [losses, label_ids, logits])
        )
    return tf.contrib.tpu.TPUEstimatorSpec(mode=mode, predictions={'probabilities': tf.nn.softmax(logits)})


def write_records(path):
    random, writer = np.random.RandomState(0), tf.python_io.TFRecordWriter(path)
    for _ in range(200):
        ids, length = random.randint(2, 50, 8), random.randint(3, 9)
        features = collections.OrderedDict()
        for name, values in (
            ('input_ids', ids),
            ('input_mask', [int(place < length) for place in range(8)]),
            ('label_ids', [int(ids[0] > 25)]),
        ):
            features[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=list(map(int, values))))
        writer.write(tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString())
    writer.close()


def input_fn_builder(path, is_training):
    spec = {
        'input_ids': tf.FixedLenFeature([8], tf.int64),
        'input_mask': tf.FixedLenFeature([8], tf.int64),
        'label_ids': tf.FixedLenFeature([], tf.int64),
    }

    def decode(record):
        return {name: tf.to_int32(value) for name, value in tf.parse_single_example(record, spec).items()}

    def input_fn(params):
        data = tf.data.TFRecordDataset(path)
        if is_training:
            data = data.repeat().shuffle(buffer_size=100, seed=1)
        return data.apply(tf.contrib.data.map_and_batch(decode, params['batch_size'], drop_remainder=is_training))

    return input_fn


def main(_):
    tf.logging.set_verbosity(tf.logging.ERROR)
    tf.gfile.MakeDirs(FLAGS.output_dir)
    path = os.path.join(FLAGS.output_dir, 'train.tf_record')
    write_records(path)
    resolver = None
    if FLAGS.use_tpu and FLAGS.tpu_name:
        resolver = tf.contrib.cluster_resolver.TPUClusterResolver(FLAGS.tpu_name)
    config = tf.contrib.tpu.RunConfig(
        cluster=resolver,
        model_dir=os.path.join(FLAGS.output_dir, 'model'),
        tf_random_seed=1,
        tpu_config=tf.contrib.tpu.TPUConfig(
            iterations_per_loop=10, per_host_input_for_training=tf.contrib.tpu.InputPipelineConfig.PER_HOST_V2
        ),
    )
    estimator = tf.contrib.tpu.TPUEstimator(
        use_tpu=FLAGS.use_tpu, model_fn=model_fn, config=config, train_batch_size=32, eval_batch_size=20
    )
    estimator.train(input_fn_builder(path, True), max_steps=FLAGS.num_train_steps)
    result = estimator.evaluate(input_fn_builder(path, False), steps=10)
    print('RESULT', json.dumps({name: float(value) for name, value in sorted(result.items())}))


if __name__ == '__main__':
    flags.mark_flag_as_required('output_dir')
    tf.app.run()
