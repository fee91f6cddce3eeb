"""Generated values -> train -> export -> predict: what comes out is what session.run computes of the same values."""

import csv
import os
import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf
from array_record.python import array_record_module

from tests.data.oracle.round_trip_job import COLUMNS

pytestmark = pytest.mark.slow
ROWS, SHARDS = 300, 3
INTEGERS = (0, 1, -1, 2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63))
REALS = (0.0, 0.1, -1.5, 2.0**24 + 1, 1700000000.123, 1e-30, float('inf'), None)
TEXTS = ('a', 'ä', '1,234', 'a"b', 'line\nend', '\ttab', 'null', "'", '0', None)


def generated(seed) -> list[dict]:
    draw = random.Random(seed)
    return [
        {
            'key': f'row {row}',
            'number': draw.choice([*INTEGERS, draw.randrange(-(2**63), 2**63)]),
            'real': draw.choice([*REALS, draw.uniform(-5, 5)]),
            'text': draw.choice(TEXTS),
            'y': draw.random(),
        }
        for row in range(ROWS)
    ]


def example(row) -> bytes:
    found = tf.train.Example()
    for name, value in row.items():
        if isinstance(value, str):
            found.features.feature[name].bytes_list.value.append(value.encode())
        elif isinstance(value, int):
            found.features.feature[name].int64_list.value.append(value)
        elif value is not None:
            found.features.feature[name].float_list.value.append(value)
    return found.SerializeToString()


def write_csv(path, rows):
    with open(path, 'w', newline='', encoding='utf-8') as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def write_tfrecord(path, rows):
    with tf.io.TFRecordWriter(path) as writer:
        for row in rows:
            writer.write(example(row))


def write_array_record(path, rows):
    writer = array_record_module.ArrayRecordWriter(path, 'group_size:1')
    for row in rows:
        writer.write(example(row))
    writer.close()


WRITERS = {
    'parquet': lambda path, rows: pa.parquet.write_table(pa.Table.from_pylist(rows), path, row_group_size=40),
    'csv': write_csv,
    'tfrecord': write_tfrecord,
    'array_record': write_array_record,
}


def command(*argv):
    environ = {**os.environ, 'PYTHONPATH': os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, '-m', 'estimator_trainer', *argv], env=environ, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr


def by_session(export, rows) -> dict:
    """What the SavedModel computes of these values. It takes tf.Examples, which are made here."""
    with tf.compat.v1.Session(graph=tf.Graph()) as session:
        signature = tf.compat.v1.saved_model.load(session, ['serve'], export).signature_def['predict']
        (given,) = signature.inputs.values()
        found = session.run(
            {name: signature.outputs[name].name for name in COLUMNS}, {given.name: [example(row) for row in rows]}
        )
    return found


@pytest.mark.parametrize('file_format', WRITERS)
def test_predict_gives_what_the_session_computes(tmp_path, file_format):
    rows = generated(seed=file_format)
    for shard in range(SHARDS):
        part = rows[shard * ROWS // SHARDS : (shard + 1) * ROWS // SHARDS]
        WRITERS[file_format](str(tmp_path / f'part-{shard}.{file_format}'), part)
    files, run, out = f'{tmp_path}/part-*.{file_format}', str(tmp_path / 'run'), str(tmp_path / 'out.parquet')
    command(
        *('--job=tests.data.oracle.round_trip_job:job', f'--train_files={files}', f'--eval_files={files}'),
        *(f'--model_dir={run}', '--max_steps=5', '--export=final', '--report=off', '--progress=off'),
    )
    command('predict', f'--model_dir={run}', f'--files={files}', f'--out={out}', '--key=key', '--batch_size=64')
    found = pyarrow.parquet.read_table(out)
    assert found['key'].to_pylist() == [row['key'] for row in rows]
    (export,) = (tmp_path / 'run' / 'export' / 'final').glob('*[0-9]')
    expected = by_session(str(export), rows)
    assert found['number'].to_pylist() == [row['number'] for row in rows] == expected['number'].tolist()
    texts = [text.encode() if isinstance(text, str) else text for text in found['text'].to_pylist()]
    assert texts == [(row['text'] or 'none').encode() for row in rows] == expected['text'].tolist()
    reals = [np.float32(0.25 if row['real'] is None else row['real']) for row in rows]
    assert found['real'].to_numpy().tolist() == reals == expected['real'].tolist()
    np.testing.assert_allclose(found['score'].to_numpy(), expected['score'], rtol=1e-6)
