"""TF-GAN's GANEstimator learns the mean of a distribution."""
import sys

import numpy as np
import tensorflow as tf
import tensorflow_gan as tfgan

v1 = tf.compat.v1


def input_fn(mode, params=None):
    rng = np.random.RandomState(0)
    noise, real = rng.normal(size=(2, 640, 2)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((noise, real * 0.1 + [3., -1.])).map(
        lambda a, b: (a, tf.cast(b, tf.float32))).repeat().batch(64)


def generator(noise, mode):
    return v1.layers.dense(noise, 2, kernel_initializer=v1.truncated_normal_initializer(stddev=0.1))


def discriminator(data, conditioning, mode):
    return v1.layers.dense(v1.layers.dense(data, 16, tf.nn.leaky_relu), 1)


estimator = tfgan.estimator.GANEstimator(
    sys.argv[1], generator_fn=generator, discriminator_fn=discriminator,
    generator_loss_fn=tfgan.losses.wasserstein_generator_loss,
    discriminator_loss_fn=tfgan.losses.wasserstein_discriminator_loss,
    generator_optimizer=v1.train.AdamOptimizer(0.02, 0.5),
    discriminator_optimizer=v1.train.AdamOptimizer(0.02, 0.5))
estimator.train(input_fn, max_steps=300)
metrics = estimator.evaluate(lambda: input_fn('eval'), steps=2)
made = np.array([row for row, _ in zip(estimator.predict(lambda: input_fn('infer')), range(200))])
print(f'TensorFlow {tf.__version__}: GANEstimator at step {metrics["global_step"]}, mean of what it makes',
      made.mean(0).round(1).tolist(), 'for [3.0, -1.0]')
