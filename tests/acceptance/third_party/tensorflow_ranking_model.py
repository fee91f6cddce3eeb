"""TensorFlow Ranking's Estimator: a ranking head and a groupwise scoring function."""
import sys

import numpy as np
import tensorflow as tf
import tensorflow_ranking as tfr


def input_fn():
    rng = np.random.RandomState(0)
    x = rng.normal(size=(400, 6, 3)).astype(np.float32)  # lists of 6 documents
    relevance = np.clip(np.round(x[:, :, 0] + 1), 0, 3).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(({'x': x}, relevance)).repeat(10).batch(20)


def score_fn(context_features, group_features, mode, params, config):
    net = tf.compat.v1.layers.dense(tf.compat.v1.layers.flatten(group_features['x']), 8, tf.nn.relu)
    return tf.compat.v1.layers.dense(net, 1)


def train_op_fn(loss):
    return tf.compat.v1.train.AdagradOptimizer(0.3).minimize(
        loss, tf.compat.v1.train.get_global_step())


head = tfr.head.create_ranking_head(
    loss_fn=tfr.losses.make_loss_fn(tfr.losses.RankingLossKey.SOFTMAX_LOSS),
    eval_metric_fns={'ndcg': tfr.metrics.make_ranking_metric_fn(tfr.metrics.RankingMetricKey.NDCG)},
    train_op_fn=train_op_fn)
estimator = tf.estimator.Estimator(
    tfr.model.make_groupwise_ranking_fn(
        group_score_fn=score_fn, group_size=1, ranking_head=head,
        transform_fn=lambda features, mode: ({}, {'x': features['x']})),
    model_dir=sys.argv[1])
estimator.train(input_fn)
metrics = estimator.evaluate(input_fn)
assert metrics['ndcg'] > 0.9, metrics
print(f'TensorFlow {tf.__version__}: groupwise ranking NDCG {metrics["ndcg"]:.3f}')
