"""A tiny network on tf.estimator alone: 32 numbers, two layers of 16.

    python -m benchmarks.peers.small_dnn_script [--steps=N] [--constant]

prints {"steps_per_sec": …}.
"""

from benchmarks import data
from benchmarks.peers import common


def main():
    parser = common.flags(__doc__)
    parser.add_argument('--constant', action='store_true', help='each batch is the same one')
    args = common.parse(parser)

    import tensorflow as tf

    if not hasattr(tf, 'estimator'):  # TensorFlow 2.16 and later
        import estimator_trainer.compat  # noqa: F401

    def input_fn():
        dataset = tf.data.Dataset.from_tensor_slices(data.vectors())
        if args.constant:
            return dataset.batch(data.BATCHES['small_dnn']).take(1).cache().repeat()
        return dataset.shuffle(10_000).repeat().batch(data.BATCHES['small_dnn'])

    def model_fn(features, labels, mode):
        model = common.KERAS_MODELS['small_dnn'](tf.keras)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model(features['x']))
        loss = tf.reduce_mean(losses)
        optimizer = tf.compat.v1.train.GradientDescentOptimizer(0.01)
        train_op = optimizer.minimize(loss, tf.compat.v1.train.get_or_create_global_step())
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)

    clock = common.Clock(args.warm_up)
    estimator = tf.estimator.Estimator(model_fn, model_dir='model')
    estimator.train(input_fn, hooks=[common.step_hook(clock)], steps=args.steps)
    clock.report()


if __name__ == '__main__':
    main()
