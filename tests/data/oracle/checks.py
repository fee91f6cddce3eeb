"""One generated file: what we read is what stands there, or is refused by name."""

import os

import numpy as np
import tensorflow as tf

from estimator_trainer.data.files import open_source
from estimator_trainer.errors import BadExample, DatasetError, UsageError
from tests.data.oracle import formats, generated

NAMED = (BadExample, DatasetError, UsageError)
MAY_BE_OTHER = ('csv', 'parquet')  # a flipped bit of a text, or of a footer, is another value: nothing can know
_number = iter(range(10**9))


class Wrong(AssertionError):
    """Another number, another order, or an error without a name."""


def outcome(folder, file_format, data, damage, choose) -> str:
    """What became of a file of this format with these data.

    Args:
        damage: of generated.DAMAGES.
        choose: (list) -> one of it.

    Raises:
        Wrong: see there.
    """
    path = os.path.join(folder, f'{next(_number)}.{file_format}')
    formats.WRITERS[file_format](path, data, choose)
    if damage in generated.LATER:
        later, is_damaged = damage.removesuffix(' later'), False
    else:
        later, is_damaged = '', _damage(path, damage, choose)
    try:
        return _read(path, file_format, data, is_damaged, later, choose)
    finally:
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))


def _read(path, file_format, data, is_damaged, later, choose) -> str:
    expected = formats.rows(data)
    good = [row for row in expected if row is not None]
    try:
        source = open_source(path, formats.spec(data), max_bad_examples=0 if is_damaged else data.rows)
    except NAMED as error:
        if not is_damaged and not isinstance(error, UsageError):
            raise Wrong(f'a whole file: {error}') from error
        if not is_damaged:
            raise Wrong(f'a spec that fits: {error}') from error
        return 'damage refused at the start'
    if later and _damage(path, later, choose):
        is_damaged = True
        os.utime(path, ns=(0, 0))  # the clock of a file system may not have moved on
    else:
        later = ''
    ids = np.arange(source.num_examples)[:: choose([1, -1])]
    try:
        found = _plain(source, ids)
    except (*NAMED, tf.errors.OpError, UnicodeDecodeError) as error:  # a message of TensorFlow may quote bytes
        why = source.failure()
        if not isinstance(error, NAMED) and not isinstance(why, NAMED):
            raise Wrong(f'an error without a name: {error}') from error
        if not is_damaged and good:
            raise Wrong(f'a whole file: {why or error}') from error
        if later and 'has changed' not in str(why or error):
            raise Wrong(f'a file that changes while it is read: {why or error}') from error
        return f'{later} later, refused' if later else 'damage refused' if is_damaged else 'no row can be had'
    if later:
        raise Wrong('a file that changed after it was opened was read')
    if is_damaged and file_format.startswith(MAY_BE_OTHER):
        return 'damage that cannot be seen'
    forwards = found if not len(ids) or ids[0] == 0 else found[::-1]
    if is_damaged and not _same(forwards, good):
        stand = formats.rows_that_stand(path, file_format, data)
        if stand is None or None in stand or not _same(forwards, stand):
            raise Wrong(f'found {forwards}, not {good}; other readers find {stand}')
        return 'damage that other readers read as well'  # such as a second whole copy behind the first
    if not _same(forwards, good):
        raise Wrong(f'found {forwards}, not {good}')
    if is_damaged:
        return 'damage without an effect'
    if source.tolerance.count != len(expected) - len(good):
        raise Wrong(f'left out {source.tolerance.count}, not {len(expected) - len(good)}')
    return 'equal' if len(good) == len(expected) else 'equal, and bad rows named'


def _plain(source, ids) -> list[dict]:
    columns = {}
    for name, value in source.batch(ids).items():
        value = tf.RaggedTensor.from_sparse(value) if isinstance(value, tf.SparseTensor) else value
        columns[name] = value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()
    return [dict(zip(columns, row)) for row in zip(*columns.values())]


def _same(found, wanted) -> bool:
    return len(found) == len(wanted) and all(
        one.keys() == other.keys() and all(repr(one[name]) == repr(other[name]) for name in one)  # -0.0 is not 0.0
        for one, other in zip(found, wanted)
    )


def _damage(path, damage, choose) -> bool:
    with open(path, 'rb') as file:
        whole = file.read()
    place = choose(range(2**16)) * len(whole) >> 16  # the size of a file differs from run to run
    changed = {
        'none': whole,
        'cut': whole[:place],
        'flipped': whole[:place] + bytes([whole[place] ^ (1 << choose(range(8)))]) + whole[place + 1 :],
        'appended': whole + whole[place:],
        'empty': b'',
    }[damage]
    with open(path, 'wb') as file:
        file.write(changed)
    return changed != whole
