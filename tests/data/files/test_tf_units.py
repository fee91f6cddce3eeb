"""Times of several units, and decimals of several scales, in the files of one data set."""

import datetime
import decimal
import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import tensorflow as tf

from estimator_trainer.data.files import FileSpec, dataset, open_source
from estimator_trainer.errors import UsageError
from tests import fakes

DAY = datetime.datetime(2024, 1, 1)
AS_INT64, AS_TEXT = tf.io.FixedLenFeature([], tf.int64), tf.io.FixedLenFeature([], tf.string)
LISTS = tf.io.VarLenFeature(tf.int64)


def times(kind, value=DAY):
    return pa.array([value], kind)


KINDS = {  # the same day in columns that mean different numbers
    'ms': times(pa.timestamp('ms')),
    'us': times(pa.timestamp('us')),
    'ns': times(pa.timestamp('ns')),
    'us in UTC': times(pa.timestamp('us', 'UTC')),
    'days': times(pa.date32(), DAY.date()),
    'ms since midnight': times(pa.time32('ms'), datetime.time(1)),
    'us since midnight': times(pa.time64('us'), datetime.time(1)),
    'a duration in s': times(pa.duration('s'), datetime.timedelta(1)),
    'a duration in us': times(pa.duration('us'), datetime.timedelta(1)),
    'numbers': pa.array([1]),
}


def write(path, column, **how):
    pyarrow.parquet.write_table(pa.table({'t': column, 'y': pa.array(range(len(column)), pa.int64())}), path, **how)
    return str(path)


def listed(column):
    return pa.ListArray.from_arrays([0, len(column)], column)


@pytest.mark.parametrize('first, second', list(itertools.permutations(KINDS, 2)))
@pytest.mark.parametrize('shape', [lambda column: column, listed], ids=['values', 'lists'])
def test_files_with_other_units_are_refused_by_name(tmp_path, first, second, shape):
    a, b = (write(tmp_path / f'{n}.parquet', shape(KINDS[kind])) for n, kind in enumerate((first, second)))
    spec = FileSpec({'t': LISTS})
    types = [pyarrow.parquet.read_schema(path).field('t').type for path in (a, b)]
    with pytest.raises(UsageError) as raised:
        open_source(f'{tmp_path}/*.parquet', spec)
    assert f"{b}: column 't' is {types[1]}, and {types[0]} in {a}; tf.int64 reads a time" in str(raised.value)
    for path in (a, b):
        open_source(path, spec)


@pytest.mark.parametrize('texts', [('1.5', '1.50'), ('1.50', '1.5')])
def test_decimals_of_other_scales_are_two_texts_and_one_number(tmp_path, texts):
    for number, text in enumerate(texts):
        write(tmp_path / f'{number}.parquet', pa.array([decimal.Decimal(text)]))
    with pytest.raises(
        UsageError, match=r'1.parquet: column .t. is decimal128.*and decimal128.* in .*0.parquet; tf.str'
    ):
        open_source(f'{tmp_path}/*.parquet', FileSpec({'t': AS_TEXT}))
    as_numbers = open_source(f'{tmp_path}/*.parquet', FileSpec({'t': tf.io.FixedLenFeature([], tf.float64)}))
    assert as_numbers.batch(np.arange(2))['t'].numpy().tolist() == [1.5, 1.5]


def test_what_means_the_same_number_is_read(tmp_path):
    """Time zones count from the same moment, and a shard without a value, as pandas writes it, has no unit."""
    for number, column in enumerate(
        [pa.nulls(1), times(pa.timestamp('us', 'UTC')), times(pa.timestamp('us', 'Europe/Rome')), pa.nulls(1)]
    ):
        write(tmp_path / f'{number}.parquet', column)
    opened = open_source(f'{tmp_path}/*.parquet', FileSpec({'t': LISTS}))
    since_1970 = int(DAY.replace(tzinfo=datetime.timezone.utc).timestamp()) * 10**6
    assert tf.RaggedTensor.from_sparse(opened.batch(np.arange(4))['t']).to_list() == [
        [],
        [since_1970],
        [since_1970],
        [],
    ]
    assert opened.units['t'].unit.name == 'timestamp[us, UTC]' and opened.units['t'].path.endswith('1.parquet')


def config(folder, train, evaluation, **flags):
    return fakes.config(train_files=train, eval_files=evaluation, model_dir=str(folder / 'run'), **flags)


def test_evaluation_files_have_the_units_of_the_training_files(tmp_path):
    train, evaluation = write(tmp_path / 'a.parquet', KINDS['us']), write(tmp_path / 'b.parquet', KINDS['ns'])
    why = r"--eval_files: .*b.parquet: column 't' is timestamp\[ns\], and timestamp\[us\] in .*a.parquet"
    with pytest.raises(UsageError, match=why):
        dataset.FileDataset(FileSpec({'t': AS_INT64}), config(tmp_path, train, evaluation))


def recorded(folder, contents):
    """A run with a checkpoint and this record of its files."""
    run = folder / 'run'
    run.mkdir(exist_ok=True)
    (run / 'config.json').write_text(json.dumps({'flags': {}, 'params': {}, 'files': contents}))
    (run / 'model.ckpt-1.index').touch()


def test_a_run_resumes_with_the_units_that_it_has_recorded(tmp_path):
    spec = FileSpec({'t': AS_INT64, 'y': AS_INT64})
    us, ns = write(tmp_path / 'a.parquet', KINDS['us']), write(tmp_path / 'b.parquet', KINDS['ns'])
    before = dataset.FileDataset(spec, config(tmp_path, us, us)).contents
    assert before['units'] == {'t': 'timestamp[us]', 'y': ''}
    recorded(tmp_path, before)
    assert dataset.FileDataset(spec, config(tmp_path, us, us)).contents == before
    why = (
        r"--train_files: .*b.parquet: column 't' is timestamp\[ns\], and the run in .*/run was trained on timestamp.us"
    )
    with pytest.raises(UsageError, match=why):
        dataset.FileDataset(spec, config(tmp_path, ns, ns))
    dataset.FileDataset(spec, config(tmp_path, ns, ns, allow_config_change=True))
    (tmp_path / 'run' / 'model.ckpt-1.index').unlink()  # nothing was trained, so the files may be corrected
    dataset.FileDataset(spec, config(tmp_path, ns, ns))


def test_a_run_of_an_earlier_version_has_recorded_no_units_and_resumes(tmp_path):
    us = write(tmp_path / 'a.parquet', KINDS['us'])
    recorded(tmp_path, {'files': 1, 'examples': 1, 'digest': 'x', 'shuffle': 'records'})
    dataset.FileDataset(FileSpec({'t': AS_INT64}), config(tmp_path, us, us))


def test_a_run_that_was_trained_on_numbers_does_not_resume_with_times(tmp_path):
    numbers, us = write(tmp_path / 'a.parquet', KINDS['numbers']), write(tmp_path / 'b.parquet', KINDS['us'])
    spec = FileSpec({'t': AS_INT64})
    contents = dataset.FileDataset(spec, config(tmp_path, numbers, numbers)).contents
    assert contents.keys() == {'files', 'examples', 'digest', 'shuffle', 'units'} and contents['units'] == {'t': ''}
    recorded(tmp_path, contents)
    with pytest.raises(UsageError, match="column 't' is timestamp.us., and the run in .* on values without a unit"):
        dataset.FileDataset(spec, config(tmp_path, us, us))
    recorded(tmp_path, {name: value for name, value in contents.items() if name != 'units'})  # an earlier version
    dataset.FileDataset(spec, config(tmp_path, us, us))


def test_files_that_say_no_types_are_recorded_as_before(tmp_path):
    path = tmp_path / 'a.csv'
    path.write_text('t\n1\n')
    contents = dataset.FileDataset(FileSpec({'t': AS_INT64}), config(tmp_path, str(path), str(path))).contents
    assert contents.keys() == {'files', 'examples', 'digest', 'shuffle'}
