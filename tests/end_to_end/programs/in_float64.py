"""short_batches in float64, in which no two inputs of a maximum are so close that rounding chooses between them.

In float32 they are that close on some machines, with any seed. The convolutions there round differently when a
replica's batch has another size.
"""

import short_batches
import tensorflow as tf

tf.keras.backend.set_floatx('float64')
mnist, fashion_mnist = short_batches.mnist, short_batches.fashion_mnist
