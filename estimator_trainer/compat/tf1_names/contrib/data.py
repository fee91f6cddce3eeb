"""Functions of tf.contrib.data that tf.data replaced by arguments of other functions."""


def batch_and_drop_remainder(batch_size):
    """For Dataset.apply: batches of exactly batch_size examples."""
    return lambda dataset: dataset.batch(batch_size, drop_remainder=True)


def padded_batch_and_drop_remainder(batch_size, padded_shapes, padding_values=None):
    """For Dataset.apply: padded batches of exactly batch_size examples."""
    return lambda dataset: dataset.padded_batch(batch_size, padded_shapes, padding_values, drop_remainder=True)
