"""A model of 500 MB on tf.estimator alone, which saves a checkpoint after each step.

    python -m benchmarks.peers.checkpoint_script [--steps=N]

prints {"checkpoint_secs": …}: from one checkpoint to the next one.
"""

import statistics

from benchmarks import data, measure
from benchmarks.peers import common


def main():
    args = common.flags(__doc__).parse_args()

    import tensorflow as tf

    if not hasattr(tf, 'estimator'):  # TensorFlow 2.16 and later
        import estimator_trainer.compat  # noqa: F401

    def input_fn():
        return tf.data.Dataset.from_tensor_slices(data.vectors(1000)).repeat().batch(data.BATCHES['big'])

    config = tf.estimator.RunConfig(save_checkpoints_steps=1, keep_checkpoint_max=args.steps + 1)
    estimator = tf.estimator.Estimator(model_fn, model_dir='run', config=config)
    estimator.train(input_fn, steps=args.steps)
    common.tell(checkpoint_secs=statistics.median(measure.intervals(data.times_of_checkpoints('.'))))


def model_fn(features, labels, mode):
    """A step changes one row of a table of 125 million numbers."""
    import tensorflow as tf

    v1 = tf.compat.v1
    table = v1.get_variable('table', [data.ROWS, 1000], initializer=v1.random_uniform_initializer(seed=1))
    rows = tf.math.floormod(labels, data.ROWS)
    loss = tf.reduce_mean(tf.nn.embedding_lookup(table, rows) ** 2)
    train_op = v1.train.GradientDescentOptimizer(0.01).minimize(loss, v1.train.get_or_create_global_step())
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


if __name__ == '__main__':
    main()
