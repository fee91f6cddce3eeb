"""Embedding tables that are spread over the parameter servers: who likes what?

cd docs/examples
../../run_local_cluster.sh --workers=2 --ps=2 -- --job=embedding:job --max_steps=1000 --model_dir=/tmp/embedding
"""

import numpy as np

from estimator_trainer.jobs import Job

USERS, ITEMS = 200, 100


def ratings(seed, count):
    """Some users' opinions of some items: int64 [count] each, and int64 [count], 1 where the user likes the item.

    A user likes an item if the two vectors that stand for them point the same way.
    """
    tastes = np.random.RandomState(0)
    users, items = tastes.normal(size=[USERS, 2]), tastes.normal(size=[ITEMS, 2])
    random = np.random.RandomState(seed)
    user, item = random.randint(0, USERS, count), random.randint(0, ITEMS, count)
    return user, item, (np.sum(users[user] * items[item], axis=1) > 0).astype(np.int64)


def input_fn(mode, params, input_context):
    from estimator_trainer.data import array_batches

    user, item, likes = ratings(1, 20_000) if mode == 'train' else ratings(2, 2_000)
    return array_batches({'user': user, 'item': item}, likes, mode, params, input_context)


def model_fn(features, labels, mode, params, config):
    import tensorflow as tf

    v1 = tf.compat.v1
    # A part for each parameter server; a process alone, and an evaluator, have none, and the table is whole. These
    # tables are small: by default no part is smaller than 256 KiB.
    partitioner = v1.min_max_variable_partitioner(max_partitions=config.num_ps_replicas, min_slice_size=1024)

    def embedded(name, size):
        table = v1.get_variable(
            f'{name}_table',
            [size, params['dimensions']],
            initializer=v1.random_normal_initializer(stddev=0.5, seed=params['seed']),
            partitioner=partitioner,
        )
        return v1.nn.embedding_lookup(table, features[name], partition_strategy='div')

    logits = tf.reduce_sum(embedded('user', USERS) * embedded('item', ITEMS), axis=1)
    likes = tf.sigmoid(logits)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return tf.estimator.EstimatorSpec(mode, predictions={'likes': likes})
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=tf.cast(labels, tf.float32), logits=logits))
    if mode == tf.estimator.ModeKeys.EVAL:
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, eval_metric_ops={'accuracy': v1.metrics.accuracy(labels, tf.round(likes))}
        )
    optimizer = v1.train.AdagradOptimizer(params['learning_rate'], initial_accumulator_value=1e-3)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=optimizer.minimize(loss, v1.train.get_global_step()))


def serving_input_fn(params):
    import tensorflow as tf

    features = {name: tf.compat.v1.placeholder(tf.int64, [None], name=name) for name in ('user', 'item')}
    return tf.estimator.export.ServingInputReceiver(features, features)


job = Job(
    model_fn=model_fn,
    input_fn=input_fn,
    serving_input_fn=serving_input_fn,
    params={'dimensions': 8, 'learning_rate': 0.3},
    best_metric='accuracy',
    best_mode='max',
    num_train_examples=20_000,
)
