"""SavedModels and files for the tests: row r has x = [r], the word "a" and n = r if r is odd."""

import csv

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import tensorflow as tf

SPEC = {
    'x': tf.io.FixedLenFeature([1], tf.float32),
    'words': tf.io.VarLenFeature(tf.string),
    'n': tf.io.FixedLenFeature([], tf.int64, default_value=-1),
}


def estimator_export(folder, held_by: str = '', held_from: int = 0) -> str:
    """An Estimator's export, whose signature takes serialized tf.Examples.

    Args:
        held_by: a file; as long as it is there, batches with a row from `held_from` on wait.
    """

    def model_fn(features, labels, mode, params):
        scale = tf.compat.v1.get_variable('scale', initializer=3.0)
        x = features['x'][:, 0] * scale
        n = features['n']
        if held_by:

            def held(looks):
                name = tf.strings.regex_replace(tf.strings.join([held_by, '#', tf.as_string(looks)]), '#.*', '')
                there = tf.size(tf.io.matching_files(name)) > 0  # no constant: it is looked for each time
                return tf.logical_and(there, tf.reduce_max(features['x']) >= held_from)

            x += 0 * tf.cast(tf.while_loop(held, lambda looks: looks + 1, [tf.constant(0, tf.int64)]), tf.float32)
        count = tf.sparse.to_dense(features['words'], default_value='')
        words = tf.compat.v1.strings.reduce_join(count, axis=1)
        given = {'x3': x, 'pair': tf.stack([n, -n], axis=1), 'text': words}
        train_op = tf.compat.v1.train.get_global_step().assign_add(1)
        loss = tf.reduce_sum(x)
        return tf.estimator.EstimatorSpec(mode, predictions=given, loss=loss, train_op=train_op)

    def input_fn():
        batch = {'x': [[1.0]], 'n': [1], 'words': tf.sparse.from_dense([['a']])}
        return tf.data.Dataset.from_tensors(
            ({name: tf.convert_to_tensor(b) if name != 'words' else b for name, b in batch.items()}, [0])
        )

    estimator = tf.estimator.Estimator(model_fn, str(folder / 'run'))
    estimator.train(input_fn, steps=1)
    receiver = tf.estimator.export.build_parsing_serving_input_receiver_fn(SPEC)
    return estimator.export_saved_model(str(folder / 'run' / 'export' / 'final'), receiver).decode()


def tensor_export(folder, rows: int | None = None) -> str:
    """A SavedModel whose signature takes tensors by name. `rows`: so many examples at once, and no others."""

    class Sum(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([rows, 1], tf.float64, 'x'), tf.TensorSpec([rows], tf.int32, 'n')])
        def __call__(self, x, n):
            return {'sum': x[:, 0] + tf.cast(n, tf.float64)}

    module = Sum()
    tf.saved_model.save(module, str(folder), signatures={'serving_default': module.__call__})
    return str(folder)


def write_tfrecords(folder, rows: int, files: int) -> str:
    """Glob of files that are of different size."""
    borders = [rows * number**2 // files**2 for number in range(files + 1)]
    for number in range(files):
        with tf.io.TFRecordWriter(str(folder / f'part-{number}.tfrecord')) as writer:
            for row in range(*borders[number : number + 2]):
                writer.write(example(row))
    return str(folder / 'part-*.tfrecord')


def example(row, **other) -> bytes:
    features = {
        'id': tf.train.Feature(bytes_list=tf.train.BytesList(value=[b'k%d' % row])),
        'x': tf.train.Feature(float_list=tf.train.FloatList(value=[row])),
        'words': tf.train.Feature(bytes_list=tf.train.BytesList(value=_words(row))),
    }
    if row % 2:
        features['n'] = tf.train.Feature(int64_list=tf.train.Int64List(value=[row]))
    return tf.train.Example(features=tf.train.Features(feature={**features, **other})).SerializeToString()


def _words(row):
    return [b'a'] * (row % 2)


def write_csv(path, rows: int) -> str:
    with open(path, 'w', newline='') as file:
        writer = csv.writer(file)
        writer.writerow(['id', 'other', 'n', 'x', 'words'])
        for row in range(rows):
            writer.writerow([f'k{row}', 'o', row if row % 2 else '', row, 'a' * (row % 2)])
    return str(path)


def write_parquet(path, rows: int) -> str:
    table = pa.table(
        {
            'id': [f'k{row}' for row in range(rows)],
            'x': np.arange(rows, dtype=np.float32),
            'n': pa.array([row if row % 2 else None for row in range(rows)], pa.int64()),
            'words': pa.array([['a'] * (row % 2) for row in range(rows)], pa.list_(pa.string())),
        }
    )
    pyarrow.parquet.write_table(table, path, row_group_size=7)
    return str(path)


def expected(rows: int) -> list[dict]:
    """What `estimator_export` gives for all rows."""
    numbers = [row if row % 2 else -1 for row in range(rows)]
    return [
        {'id': f'k{row}', 'pair': [n, -n], 'text': 'a' * (row % 2), 'x3': 3.0 * row} for row, n in enumerate(numbers)
    ]
