"""What the exact order of the data costs: share of a training step that goes into computing it.

    python benchmarks/data_order.py

Times, side by side in one process and in turn, one step of the mnist job's model on a batch of 64 (the
same gradients, by Keras's tape) and the permutation of 64 positions that chooses its examples. Prints
the median of each and their ratio; below 0.02 is the aim.
"""

import os
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from estimator_trainer import compat  # noqa: E402

compat.install()
import tensorflow as tf  # noqa: E402

from estimator_trainer.data import order  # noqa: E402
from estimator_trainer.jobs import mnist  # noqa: E402

BATCH, EXAMPLES, ROUNDS, REPEATS = 64, 4000, 7, 20


def seconds_of(function) -> float:
    """Seconds of one call, out of REPEATS."""
    start = time.perf_counter()
    for _ in range(REPEATS):
        function()
    return (time.perf_counter() - start) / REPEATS


def main():
    model = mnist.make_model({'seed': 1, 'classes': 10})
    model.build([None, 28, 28, 1])
    images, labels = tf.random.uniform([BATCH, 28, 28, 1]), tf.zeros([BATCH], tf.int64)

    @tf.function
    def step():
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=model(images)))
        for weight, gradient in zip(model.trainable_weights, tape.gradient(loss, model.trainable_weights)):
            weight.assign_sub(0.01 * gradient)

    @tf.function
    def permutations():  # many at once: a call from Python costs more than one of them
        return tf.map_fn(
            lambda element: order.permuted(order.positions(element, BATCH, 1, BATCH, 0, 0), EXAMPLES, 1),
            tf.range(100, dtype=tf.int64),
        )

    step(), permutations()
    steps, orders = zip(*((seconds_of(step), seconds_of(permutations) / 100) for _ in range(ROUNDS)))
    one, two = statistics.median(steps), statistics.median(orders)
    print(f'step {one * 1e3:.2f} ms, order {two * 1e6:.1f} us, ratio {two / one:.4f}')


if __name__ == '__main__':
    main()
