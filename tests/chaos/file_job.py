"""The job of `tests.chaos.job`, whose examples lie in files: `--job=tests.chaos.file_job:job`.

In the same order they give the same weights, bit for bit, as the arrays do.
"""

import csv
import dataclasses

from tests.chaos.job import job as of_arrays
from tests.chaos.job import points

FILES = 7


def file_spec(params):
    import tensorflow as tf

    from estimator_trainer.data.files import FileSpec

    features = {'xy': tf.io.FixedLenFeature([2], tf.float32), 'label': tf.io.FixedLenFeature([], tf.int64)}
    return FileSpec(features, label='label')


def csv_spec(params):
    import tensorflow as tf

    from estimator_trainer.data.files import FileSpec

    features = {name: tf.io.FixedLenFeature([], tf.float32) for name in 'xy'}
    return FileSpec({**features, 'label': tf.io.FixedLenFeature([], tf.int64)}, label='label')


def _of_columns(features, labels, mode, params, config):
    import tensorflow as tf

    return of_arrays.model_fn({'xy': tf.stack([features['x'], features['y']], 1)}, labels, mode, params, config)


_files = {'input_fn': None, 'serving_input_fn': None, 'num_train_examples': None}
job = dataclasses.replace(of_arrays, **_files, file_spec=file_spec)
csv_job = dataclasses.replace(of_arrays, **_files, file_spec=csv_spec, model_fn=_of_columns)


def write(folder, ending: str) -> list:
    """Writes the training files and one for the evaluation; returns the flags that name them."""
    folder.mkdir(exist_ok=True)
    for split, seed in (('train', 1), ('eval', 2)):
        xy, labels = points(seed)
        files = FILES if split == 'train' else 1
        for number in range(files):
            part = slice(number * len(xy) // files, (number + 1) * len(xy) // files)
            write_file(folder / f'{split}-{number}.{ending}', xy[part], labels[part])
    name = 'csv_job' if ending == 'csv' else 'job'
    return [
        f'--job=tests.chaos.file_job:{name}',
        f'--train_files={folder}/train-*',
        f'--eval_files={folder}/eval-*',
        '--export=none',
    ]


def write_file(path, xy, labels) -> None:
    if path.suffix == '.csv':
        with open(path, 'w', newline='') as file:
            # repr of a float: reading it gives the same bits
            csv.writer(file).writerows(
                [['x', 'y', 'label'], *([repr(float(x)), repr(float(y)), label] for (x, y), label in zip(xy, labels))]
            )
        return
    if path.suffix == '.parquet':
        import pyarrow
        import pyarrow.parquet

        points_of = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(xy.reshape(-1)), 2)
        pyarrow.parquet.write_table(pyarrow.table({'xy': points_of, 'label': labels}), path, row_group_size=30)
        return
    import tensorflow as tf
    from array_record.python import array_record_module

    def example(point, label):
        return tf.train.Example(
            features=tf.train.Features(
                feature={
                    'xy': tf.train.Feature(float_list=tf.train.FloatList(value=point)),
                    'label': tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                }
            )
        ).SerializeToString()

    if path.suffix == '.array_record':
        writer = array_record_module.ArrayRecordWriter(str(path), 'group_size:1')
    else:
        writer = tf.io.TFRecordWriter(str(path), tf.io.TFRecordOptions('GZIP' if path.suffix == '.gz' else ''))
    for point, label in zip(xy, labels):
        writer.write(example(point, label))
    writer.close()
