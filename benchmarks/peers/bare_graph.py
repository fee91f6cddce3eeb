"""The graph of a model on a constant batch, in a loop of session.run: what no trainer can be quicker than.

    python -m benchmarks.peers.bare_graph --model=cnn|small_dnn [--steps=N] [--steps_per_call=N]

prints {"steps_per_sec": …}. With --steps_per_call each call runs a tf.while_loop of so many steps.
"""

import numpy as np

from benchmarks import data
from benchmarks.peers import common


def main():
    parser = common.flags(__doc__)
    parser.add_argument('--model', choices=('cnn', 'small_dnn'), default='cnn')
    parser.add_argument('--steps_per_call', type=int, default=1)
    args = common.parse(parser)

    import tensorflow as tf

    v1 = tf.compat.v1
    features, labels = data.SETS[args.model](data.BATCHES[args.model])
    with tf.Graph().as_default():
        # A variable, not a constant: TensorFlow computes in advance what depends on constants alone.
        inputs = tf.Variable(next(iter(features.values())), trainable=False)
        labels = tf.Variable(labels, trainable=False)
        logits_of, weights = {'cnn': cnn, 'small_dnn': small_dnn}[args.model](tf)

        def step():
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=labels.read_value(), logits=logits_of(inputs.read_value())
            )
            loss = tf.reduce_mean(losses)
            updates = [weight.assign_sub(0.01 * grad) for weight, grad in zip(weights, tf.gradients(loss, weights))]
            with tf.control_dependencies(updates):
                return tf.identity(loss)

        def one_of_many(done, _):
            return done + 1, step()

        if args.steps_per_call == 1:
            call = step()
        else:
            most = args.steps_per_call
            _, call = tf.while_loop(lambda done, _: done < most, one_of_many, (0, 0.0), parallel_iterations=1)
        clock = common.Clock(args.warm_up)
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            for number in range(1, args.steps // args.steps_per_call + 1):
                session.run(call)
                clock.at(number * args.steps_per_call)
    clock.report()


def weight(tf, *shape):
    values = np.random.RandomState(len(shape)).normal(scale=0.05, size=shape)
    return tf.Variable(values.astype(np.float32))


def cnn(tf):
    weights = [weight(tf, *shape) for shape in ([3, 3, 1, 32], [32], [5408, 64], [64], [64, 10], [10])]

    def logits(images):
        kernel, bias, dense, dense_bias, last, last_bias = weights
        hidden = tf.nn.relu(tf.nn.bias_add(tf.nn.conv2d(tf.cast(images, tf.float32) / 255, kernel, 1, 'VALID'), bias))
        hidden = tf.reshape(tf.nn.max_pool2d(hidden, 2, 2, 'VALID'), [-1, 5408])
        hidden = tf.nn.relu(tf.nn.bias_add(hidden @ dense, dense_bias))
        return tf.nn.bias_add(hidden @ last, last_bias)

    return logits, weights


def small_dnn(tf):
    weights = [weight(tf, *shape) for shape in ([32, 16], [16], [16, 16], [16], [16, 10], [10])]

    def logits(x):
        first, bias1, second, bias2, third, bias3 = weights
        hidden = tf.nn.relu(tf.nn.bias_add(x @ first, bias1))
        hidden = tf.nn.relu(tf.nn.bias_add(hidden @ second, bias2))
        return tf.nn.bias_add(hidden @ third, bias3)

    return logits, weights


if __name__ == '__main__':
    main()
