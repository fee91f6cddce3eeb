"""One task of a cluster, as TF_CONFIG says: parameter servers, or workers under a strategy, and an evaluator."""

import json
import os
import sys

import numpy as np
import tensorflow as tf

kind, model_dir, out = sys.argv[1:]
task = json.loads(os.environ['TF_CONFIG'])['task']['type']


def input_fn(input_context=None):
    rng = np.random.RandomState(1)
    x = rng.normal(size=(640, 5)).astype(np.float32)
    y = (x[:, :1] * 2 - x[:, 1:2]).astype(np.float32)
    dataset = tf.data.Dataset.from_tensor_slices(({'x': x}, y))
    if input_context:
        dataset = dataset.shard(input_context.num_input_pipelines, input_context.input_pipeline_id)
    return dataset.batch(32).repeat()


def model_fn(features, labels, mode):
    glorot = tf.compat.v1.glorot_uniform_initializer
    net = tf.compat.v1.layers.dense(features['x'], 8, tf.nn.tanh, kernel_initializer=glorot(seed=1))
    output = tf.compat.v1.layers.dense(net, 1, kernel_initializer=glorot(seed=2))
    loss = tf.compat.v1.losses.mean_squared_error(labels, output)
    optimizer = tf.compat.v1.train.AdamOptimizer(0.01)
    return tf.estimator.EstimatorSpec(
        mode,
        {'y': output},
        loss,
        optimizer.minimize(loss, tf.compat.v1.train.get_global_step()),
        eval_metric_ops={'mae': tf.compat.v1.metrics.mean_absolute_error(labels, output)},
    )


tf.compat.v1.disable_eager_execution()  # as the strategy asks of those who use Estimator
strategy = tf.distribute.MultiWorkerMirroredStrategy() if kind == 'workers' else None
estimator = tf.estimator.Estimator(
    model_fn,
    model_dir,
    tf.estimator.RunConfig(
        tf_random_seed=5, train_distribute=strategy, save_checkpoints_steps=20, save_summary_steps=10
    ),
)


class Keep(tf.estimator.Exporter):
    """Writes down the last evaluation."""

    name = 'keep'

    def export(self, estimator, export_path, checkpoint_path, eval_result, is_the_final_export):
        if is_the_final_export:
            with open(out, 'w') as f:
                json.dump({name: float(value) for name, value in eval_result.items()}, f)


tf.estimator.train_and_evaluate(
    estimator,
    tf.estimator.TrainSpec(input_fn, max_steps=40),
    tf.estimator.EvalSpec(input_fn, steps=10, start_delay_secs=0, throttle_secs=1, exporters=Keep()),
)
