"""TensorFlow Privacy's DNNClassifier, trained with noise and clipped gradients."""
import sys

import numpy as np
import tensorflow as tf
import tensorflow_privacy


def input_fn():
    x = np.random.RandomState(0).normal(size=(600, 4)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices(
        ({'x': x}, (x.sum(axis=1) > 0).astype(np.int32)[:, None])).repeat(10).batch(
            60, drop_remainder=True)


classifier = tensorflow_privacy.DNNClassifier(
    [16], [tf.feature_column.numeric_column('x', [4])], model_dir=sys.argv[1],
    optimizer=lambda: tensorflow_privacy.DPKerasAdamOptimizer(
        l2_norm_clip=1., noise_multiplier=0.5, num_microbatches=60, learning_rate=0.02))
classifier.train(input_fn)
metrics = classifier.evaluate(input_fn)
assert metrics['accuracy'] > 0.9, metrics
print(f'TensorFlow {tf.__version__}: differentially private DNNClassifier accuracy '
      f'{metrics["accuracy"]:.3f}')
