"""The job of `tests.chaos.file_job` on examples with padding, so that their files are larger than the smallest cache:
`--job=tests.data.remote.padded_job:job`."""

import numpy as np

from tests.chaos.file_job import job  # noqa: F401
from tests.chaos.job import points

FILES, PADDING_BYTES = 5, 4096


def write(folder) -> None:
    """Writes train-*.tfrecord of 2.7 MB together, and one eval.tfrecord."""
    import tensorflow as tf

    padding = np.random.RandomState(0)
    for split, seed, files in (('train', 1, FILES), ('eval', 2, 1)):
        xy, labels = points(seed)
        for number in range(files):
            with tf.io.TFRecordWriter(str(folder / f'{split}-{number}.tfrecord')) as writer:
                for at in range(number * len(xy) // files, (number + 1) * len(xy) // files):
                    features = {
                        'xy': tf.train.Feature(float_list=tf.train.FloatList(value=xy[at])),
                        'label': tf.train.Feature(int64_list=tf.train.Int64List(value=[labels[at]])),
                        'padding': tf.train.Feature(
                            bytes_list=tf.train.BytesList(value=[padding.bytes(PADDING_BYTES * (split == 'train'))])
                        ),
                    }
                    example = tf.train.Example(features=tf.train.Features(feature=features))
                    writer.write(example.SerializeToString())
