"""data.files.dataset: what config.json and the other tasks are told of the files."""

import os

import numpy as np
import pyarrow.parquet
import pytest
import tensorflow as tf

from estimator_trainer.data.files import FileSpec, dataset, open_source
from estimator_trainer.errors import BadExample, DatasetError, UsageError
from tests import fakes
from tests.data.files import written

SPEC = FileSpec({'v': tf.io.VarLenFeature(tf.int64)})


def write(folder, *counts, name=b'part-%d.tfrecord', compression='') -> str:
    """A file with so many examples for each number."""
    os.makedirs(folder, exist_ok=True)
    for number, count in enumerate(counts):
        path = os.fsdecode(os.path.join(os.fsencode(folder), name % number))
        with tf.io.TFRecordWriter(os.fsencode(path), tf.io.TFRecordOptions(compression)) as writer:
            for _ in range(count):
                writer.write(tf.train.Example().SerializeToString())
    return f'{folder}/*'


def opened(
    folder, train: str, evaluation='', shuffle='auto', in_memory_mb=1, file_format='tfrecord', spec=SPEC
) -> dataset.FileDataset:
    config = fakes.config(
        train_files=train,
        eval_files=evaluation or train,
        file_format=file_format,
        in_memory_mb=in_memory_mb,
        max_bad_examples=0,
        data_cache_dir=str(folder / 'cache'),
        data_cache_mib=10,
        model_dir=str(folder / 'model'),
        shuffle=shuffle,
    )
    return dataset.FileDataset(spec, config)


def test_the_digest_is_of_names_sizes_and_counts(tmp_path):
    known = opened(tmp_path, write(tmp_path / 'a', 2, 3)).contents
    assert (known['files'], known['examples'], len(known['digest'])) == (2, 5, 16)
    assert opened(tmp_path, write(tmp_path / 'elsewhere', 2, 3)).contents == known
    for name, counts in (('a', (2, 4)), ('b', (3, 2)), ('c', (5,))):
        assert opened(tmp_path, write(tmp_path / name, *counts)).contents['digest'] != known['digest']
    renamed = write(tmp_path / 'd', 2, 3, name=b'shard-%d.tfrecord')
    assert opened(tmp_path, renamed).contents['digest'] != known['digest']


def test_names_that_are_not_utf8_have_a_digest(tmp_path):
    digests = [
        opened(tmp_path, write(tmp_path / folder, 2, name=name)).contents['digest']
        for folder, name in (('a', b'caf\xe9-%d'), ('b', b'caf\xe8-%d'))
    ]
    assert digests[0] != digests[1]


@pytest.mark.parametrize('ending', ['parquet', 'array_record'])
def test_names_that_are_not_utf8_are_read(tmp_path, ending):
    written.write_file(tmp_path / f'new.{ending}', range(40))
    path = os.fsdecode(os.fsencode(tmp_path) + b'/caf\xe9.' + ending.encode())
    os.replace(tmp_path / f'new.{ending}', path)
    assert open_source(path, written.spec(ending)).batch(np.arange(40))['id'].numpy().tolist() == list(range(40))


def test_a_file_that_fails_while_a_failure_is_looked_for_is_the_failure(tmp_path):
    path = tmp_path / 'part-0.tfrecord'
    written.write_file(path, range(10))
    opened = open_source(str(path), written.spec('tfrecord'))
    opened.batch(np.arange(5))
    path.unlink()
    assert isinstance(opened.failure(), DatasetError) and 'cannot be read any more' in str(opened.failure())


def table(path, **columns) -> str:
    path.parent.mkdir(exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return str(path)


def of_parquet(folder, train: str, evaluation: str) -> dataset.FileDataset:
    """With the features of the files."""
    return opened(folder, train, evaluation, file_format='parquet', spec=FileSpec(None, label='y'))


def test_evaluation_files_have_the_features_of_the_training_files(tmp_path):
    train = table(tmp_path / 'train.parquet', x=[1, 2], y=[0, 1])
    evaluation = table(tmp_path / 'eval.parquet', y=[1, 0], x=[3.0, 4.0], __index_level_0__=[5, 6])
    batches = of_parquet(tmp_path, train, evaluation).input_fn('eval', {'batch_size': 2})
    ((features, labels),) = batches
    assert list(features) == ['x'] and features['x'].dtype == tf.int64 and features['x'].numpy().tolist() == [3, 4]
    assert labels.numpy().tolist() == [1, 0]


def test_evaluation_files_without_a_feature_of_the_training_files_are_refused(tmp_path):
    train, evaluation = table(tmp_path / 'train.parquet', x=[1], y=[0]), table(tmp_path / 'eval.parquet', y=[1])
    with pytest.raises(UsageError, match="--eval_files: .*eval.parquet: has no column 'x'"):
        of_parquet(tmp_path, train, evaluation)


def test_a_command_that_only_evaluates_names_the_flag_of_its_files(tmp_path):
    damaged = tmp_path / 'damaged.parquet'
    damaged.write_bytes(b'no parquet')
    with pytest.raises(BadExample, match='--eval_files: .*damaged.parquet'):
        of_parquet(tmp_path, str(damaged), str(damaged))


def test_files_that_cannot_be_entered_anywhere_are_evaluated_in_their_order(tmp_path):
    """`evaluate` names them as the training files too."""
    files = write(tmp_path / 'gz', 500, compression='GZIP')
    with pytest.raises(UsageError, match='--shuffle=records'):
        opened(tmp_path, files, shuffle='records', in_memory_mb=0)
    assert opened(tmp_path, files, shuffle='none', in_memory_mb=0).contents['examples'] == 500
