"""TF 1 code under `import tensorflow.compat.v1 as tf`: model_fn, layers, hooks, a session of one's own."""

import json
import sys

import numpy as np
import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
tf.logging.set_verbosity(tf.logging.ERROR)


def data(rows, seed):
    rng = np.random.RandomState(seed)
    x = rng.normal(size=(rows, 8, 8, 1)).astype(np.float32)
    return x, (x.mean(axis=(1, 2, 3)) > 0).astype(np.int32)


def model_fn(features, labels, mode, params):
    training = mode == tf.estimator.ModeKeys.TRAIN
    net = tf.layers.conv2d(features['image'], 8, 3, activation=tf.nn.relu, name='conv')
    net = tf.layers.max_pooling2d(net, 2, 2)
    net = tf.layers.batch_normalization(net, training=training)
    net = tf.layers.dropout(tf.layers.flatten(net), 0.2, training=training, seed=5)
    logits = tf.layers.dense(net, 2, name='logits')
    predictions = {'classes': tf.argmax(logits, 1), 'probabilities': tf.nn.softmax(logits)}
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions)
    loss = tf.losses.sparse_softmax_cross_entropy(labels, logits)
    rate = tf.train.exponential_decay(params['rate'], tf.train.get_global_step(), 50, 0.9)
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        train_op = tf.train.AdamOptimizer(rate).minimize(loss, tf.train.get_global_step())
    return tf.estimator.EstimatorSpec(
        mode,
        predictions,
        loss,
        train_op,
        eval_metric_ops={
            'accuracy': tf.metrics.accuracy(labels, predictions['classes']),
            'auc': tf.metrics.auc(labels, predictions['probabilities'][:, 1]),
        },
    )


class LastLoss(tf.train.SessionRunHook):
    def before_run(self, run_context):
        return tf.train.SessionRunArgs(tf.get_collection(tf.GraphKeys.LOSSES)[0])

    def after_run(self, run_context, run_values):
        self.value = float(run_values.results)


x, y = data(600, 1)
train_fn = tf.estimator.inputs.numpy_input_fn({'image': x}, y, batch_size=32, num_epochs=None, shuffle=False)
estimator = tf.estimator.Estimator(
    model_fn, sys.argv[1], tf.estimator.RunConfig(tf_random_seed=3, keep_checkpoint_max=2), params={'rate': 0.01}
)
last = LastLoss()
estimator.train(train_fn, max_steps=80, hooks=[last, tf.train.StopAtStepHook(last_step=80)])
x, y = data(200, 2)
metrics = estimator.evaluate(tf.estimator.inputs.numpy_input_fn({'image': x}, y, batch_size=50, shuffle=False))
first = next(iter(estimator.predict(tf.estimator.inputs.numpy_input_fn({'image': x}, batch_size=50, shuffle=False))))

with tf.Graph().as_default():
    step = tf.train.get_or_create_global_step()
    w = tf.get_variable('w', [3], initializer=tf.zeros_initializer())
    loss = tf.reduce_sum(tf.square(w - [1.0, 2.0, 3.0]))
    train_op = tf.train.MomentumOptimizer(0.05, 0.9).minimize(loss, global_step=step)
    with tf.train.MonitoredTrainingSession(hooks=[tf.train.StopAtStepHook(last_step=30)]) as session:
        while not session.should_stop():
            _, own_loss = session.run([train_op, loss])

json.dump(
    {
        'train_loss': last.value,
        'own_session_loss': float(own_loss),
        'probability': float(first['probabilities'][1]),
        **{name: float(value) for name, value in metrics.items()},
    },
    open(sys.argv[2], 'w'),
)
