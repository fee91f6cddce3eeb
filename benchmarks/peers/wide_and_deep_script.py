"""A canned wide-and-deep Estimator: 26 hashed columns and 13 numbers, by the usual pipeline of single examples.

    python -m benchmarks.peers.wide_and_deep_script [--steps=N] [--ps]

prints {"steps_per_sec": …}. With --ps it is a chief, a worker and a parameter server, started through TF_CONFIG; the
steps are those of both.
"""

import os

from benchmarks import data
from benchmarks.peers import common


def main():
    parser = common.flags(__doc__)
    parser.add_argument('--ps', action='store_true', help='a chief, a worker and a parameter server')
    args = common.parse(parser)
    number = common.become_cluster(['chief', 'worker', 'ps'] if args.ps else ['alone'])

    import tensorflow as tf

    if not hasattr(tf, 'estimator'):  # TensorFlow 2.16 and later
        import estimator_trainer.compat  # noqa: F401

    def input_fn():
        dataset = tf.data.Dataset.from_tensor_slices(data.clicks())
        return dataset.shuffle(10_000).repeat().batch(data.BATCHES['wide_and_deep'])

    fc = tf.feature_column
    numbers = [fc.numeric_column(name) for name in data.NUMBERS]
    words = [fc.categorical_column_with_hash_bucket(name, 1000) for name in data.WORDS]
    estimator = tf.estimator.DNNLinearCombinedClassifier(
        linear_feature_columns=words,
        dnn_feature_columns=[*numbers, *(fc.embedding_column(word, 8) for word in words)],
        dnn_hidden_units=[64, 32],
        config=tf.estimator.RunConfig(model_dir='model', experimental_max_worker_delay_secs=0),
    )
    if not args.ps:
        clock = common.Clock(args.warm_up)
        estimator.train(input_fn, hooks=[common.step_hook(clock)], steps=args.steps)
        clock.report()
        return
    clock = common.Clock(args.warm_up // 2)  # the hook counts the steps of the chief, half of all
    tf.estimator.train_and_evaluate(
        estimator,
        tf.estimator.TrainSpec(input_fn, args.steps, hooks=[common.step_hook(clock)]),
        tf.estimator.EvalSpec(input_fn, steps=1),
    )
    if number == 0:
        clock.report()


if __name__ == '__main__':
    main()
    if 'TF_CONFIG' in os.environ:
        os._exit(0)  # the port of a task does not hold up its end
