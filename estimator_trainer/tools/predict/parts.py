"""The parts of a prediction: a process predicts those that are missing, and each becomes a file until all are joined.

    python -m estimator_trainer.tools.predict.parts FOLDER NUMBER PROCESSES

Only `prediction.py` starts this process, which takes every PROCESSES-th part. It reads FOLDER/plan.json, and writes
what it has done as lines of JSON to its stdout:

    {"rows": 100000, "there": 20000, "signature": "predict"}   once: all rows, and those that were predicted before
    {"done": 1024}                                             rows that it has predicted since the last such line

Each file is written under a temporary name, flushed to the disk and renamed, so a part is there whole or not at all,
whatever is killed. An output with several values is a column of lists in Parquet, a column for each value in CSV, and a
list in JSON lines. What is not finite is null in JSON lines. Each part of CSV has a header line, so that parts can be
compared.
"""

import concurrent.futures
import contextlib
import itertools
import json
import math
import os
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from estimator_trainer import compat, exit_codes
from estimator_trainer.data.files import contents
from estimator_trainer.errors import BadExample, UsageError
from estimator_trainer.run_dir import files
from estimator_trainer.this_process import log
from estimator_trainer.tools import command_line
from estimator_trainer.tools.predict import predict_plan as plans
from estimator_trainer.tools.predict.predict_plan import CSV, JSON_LINES, PARQUET, SUFFIXES

TEMPORARY = '.tmp'
Columns = Mapping[str, np.ndarray]  # name -> array [rows, ...] of numbers, bools or bytes
_TEXT_ERRORS = 'backslashreplace'  # bytes that are no UTF-8


class Parts:
    """The parts of `rows` rows in a folder, with `rows_per_part` rows each; the last one may have fewer."""

    def __init__(self, folder: str, suffix: str, rows: int, rows_per_part: int):
        self._folder, self._suffix = folder, suffix
        self._rows, self._rows_per_part = rows, rows_per_part
        self.number = math.ceil(rows / rows_per_part)

    def path(self, part: int) -> str:
        return os.path.join(self._folder, f'part-{part:06}{self._suffix}')

    def range(self, part: int) -> range:
        """The rows of a part, from 0."""
        first = part * self._rows_per_part
        return range(first, min(first + self._rows_per_part, self._rows))

    def missing(self) -> list[int]:
        return [part for part in range(self.number) if not os.path.exists(self.path(part))]

    def write(self, part: int, batches: Sequence[Columns]) -> None:
        """Writes one part.

        Args:
            batches: the columns of each batch, in the order of the rows.

        Raises:
            UsageError: a CSV file cannot hold these columns.
            OSError: it cannot be written.
        """
        with files.replacing(self.path(part)) as temporary, _flushed(temporary):
            if self._suffix == JSON_LINES:
                with open(temporary, 'w', encoding='utf-8') as file:
                    for columns in batches:
                        for row in zip(*map(_plain, columns.values())):
                            file.write(json.dumps(dict(zip(columns, row)), ensure_ascii=False, allow_nan=False) + '\n')
            elif self._suffix == CSV:
                tables = [pa.table(_distinct(list(_scalars(columns)))) for columns in batches]
                for table in tables:
                    _same_columns(table.schema.names, tables[0].schema.names)
                with open(temporary, 'wb') as binary:  # pyarrow takes no path that is not UTF-8
                    pyarrow.csv.write_csv(pa.concat_tables(tables), binary)
            else:
                tables = [pa.table({name: _nested(array) for name, array in columns.items()}) for columns in batches]
                with open(temporary, 'wb') as binary:
                    pyarrow.parquet.write_table(pa.concat_tables(tables), binary)

    def join(self, to: str, each: Callable[[int], None]) -> None:
        """Writes all parts, in their order, into one file. Calls `each(part)` before each part.

        Raises:
            UsageError: a CSV file cannot hold these columns.
            OSError: a part cannot be read, or the file cannot be written.
        """

        def paths():
            for part in range(self.number):
                each(part)
                yield self.path(part)

        with _flushed(to):
            if self._suffix == PARQUET:
                _join_parquet(paths(), to)
            else:
                _join_text(paths(), to, has_header=self._suffix == CSV)


def has_any(folder: str) -> bool:
    """Whether a folder holds a part."""
    return any(name.startswith('part-') and name.endswith(SUFFIXES) for name in os.listdir(folder))


@contextlib.contextmanager
def _flushed(path: str) -> Iterator[None]:
    """The file is on the disk afterwards: a machine that goes down must not leave a name without content."""
    yield
    files.flush(path)


def _nested(array: np.ndarray) -> pa.Array:
    """[rows, k, ...] -> lists of k values, and so on.

    Raises:
        UsageError: a batch has more values than the lists of Arrow can count.
    """
    if array.size > np.iinfo(np.int32).max:
        raise UsageError(f'a batch has {array.size:,} values of an output, and 2^31 is too many: lower --batch_size.')
    values = _flat(array)
    for axis in reversed(range(1, array.ndim)):
        number = math.prod(array.shape[:axis])
        values = pa.ListArray.from_arrays(np.arange(number + 1, dtype=np.int32) * array.shape[axis], values)
    return values


def _scalars(columns: Columns) -> Iterator[tuple[str, pa.Array]]:
    """[rows, k, ...] -> k columns, and so on."""
    for name, array in columns.items():
        for index in itertools.product(*map(range, array.shape[1:])):
            yield '_'.join([name, *map(str, index)]), _flat(array[(slice(None), *index)])


def _distinct(columns: Sequence[tuple[str, pa.Array]]) -> dict[str, pa.Array]:
    """The columns by name. Raises UsageError: two have one name."""
    by_name = dict(columns)
    if len(by_name) < len(columns):
        names = [name for name, _ in columns]
        twice = next(name for name in names if names.count(name) > 1)
        raise UsageError(
            f'{twice} would be the name of two columns: an output with several values has a column for each. Write to '
            '--out=NAME.parquet or NAME.jsonl, or choose outputs by --outputs.'
        )
    return by_name


def _flat(array: np.ndarray) -> pa.Array:
    values = array.reshape(-1)
    if values.dtype.kind in 'OS':
        return pa.array([_text(value) for value in values], pa.string())
    if values.dtype.kind not in 'biuf' or values.dtype == np.float16:  # bfloat16, which is no type of NumPy's own
        values = values.astype(np.float32)
    return pa.array(values)


def _plain(array: np.ndarray) -> list:
    """[rows, k, ...] as lists. A float32 gets the shortest digits that give it back, like 0.1."""
    values = array.reshape(-1)
    if values.dtype.kind in 'OS':
        values = np.array([_text(value) for value in values], object)
    elif values.dtype.kind not in 'biu':
        values = values if values.dtype.kind == 'f' else values.astype(np.float32)
        values = np.where(np.isfinite(values), values.astype(str).astype(float), None)
    return values.reshape(array.shape).tolist()


def _text(value: Any) -> str:
    return value.decode('utf-8', _TEXT_ERRORS) if isinstance(value, bytes) else str(value)


def _join_parquet(paths: Iterable[str], to: str) -> None:
    with contextlib.ExitStack() as stack:
        writer = None
        for path in paths:
            table = pyarrow.parquet.read_table(contents.for_pyarrow(path), partitioning=None)
            if writer is None:
                file = stack.enter_context(open(to, 'wb'))
                writer = stack.enter_context(pyarrow.parquet.ParquetWriter(file, table.schema))
            writer.write_table(table)


def _join_text(paths: Iterable[str], to: str, has_header: bool) -> None:
    first = b''
    with open(to, 'wb') as out:
        for path in paths:
            with open(path, 'rb') as file:
                if has_header:
                    header = file.readline()
                    out.write(b'' if first else header)
                    first = first or header
                    _same_columns(header, first)
                shutil.copyfileobj(file, out)


def _same_columns(one: Any, other: Any) -> None:
    if one != other:
        raise UsageError(
            'an output of the model does not have the same number of values in every batch, and a CSV file has fixed '
            'columns; write to --out=NAME.parquet or NAME.jsonl.'
        )


def main(argv: Sequence[str]) -> int:
    """The exit code. Anything but 0 comes with a last line on stderr that says why."""
    folder, number, processes = argv[0], int(argv[1]), int(argv[2])
    report = os.fdopen(os.dup(sys.stdout.fileno()), 'w')
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is for people

    def work() -> int:
        plan = plans.load(os.path.join(folder, plans.NAME))
        compat.bring_up()
        log.set_up()
        predict(plan, folder, number, processes, lambda **what: print(json.dumps(what), file=report, flush=True))
        return exit_codes.OK

    return command_line.run((), '', plans.PredictPlan, work, {BadExample: exit_codes.DAMAGED})


def predict(plan: plans.PredictPlan, folder: str, number: int, processes: int, tell: Callable[..., None]) -> None:
    """Predicts the parts of process `number` that are not there yet. `tell` reports fields by name.

    Raises:
        UsageError: the model, the files, the key and the outputs do not go together; or the model has changed.
        DatasetError, BadExample: the files cannot be read, or have changed, or the model fails on an example.
        OSError: a part cannot be written.
    """
    from estimator_trainer.tools.predict.examples import Examples
    from estimator_trainer.tools.predict.signature import Model

    model = Model(plan.path(plan.export), plan.signature, plan.outputs, plan.batch_size)
    plan.check_export()  # after it is loaded: a run may have put another one there since the command looked
    examples = Examples(plan, model, folder)
    parts = Parts(folder, plan.suffix, examples.number, plan.rows_per_part)
    missing = parts.missing()
    there = examples.number - sum(len(parts.range(part)) for part in missing)
    tell(rows=examples.number, there=there, signature=model.name)
    batches = [
        (part, range(first, min(first + plan.batch_size, parts.range(part).stop)))
        for part in missing
        if part % processes == number
        for first in parts.range(part)[:: plan.batch_size]
    ]
    with concurrent.futures.ThreadPoolExecutor(1) as reader:  # one batch is read while the model predicts another
        ahead = [reader.submit(examples.read, rows) for _, rows in batches[:1]]
        held = []
        for place, (part, rows) in enumerate(batches):
            inputs, keys = ahead.pop().result()
            ahead += [reader.submit(examples.read, following) for _, following in batches[place + 1 : place + 2]]
            outputs = _outputs(model, examples, inputs, rows)
            name_of_key = plan.key
            while name_of_key in outputs:
                name_of_key = f'key_{name_of_key}'
            held.append(outputs if keys is None else {name_of_key: keys, **outputs})
            tell(done=len(rows))
            if rows.stop == parts.range(part).stop:
                parts.write(part, held)
                held = []


def _outputs(model, examples, inputs, rows: range) -> dict:
    import tensorflow as tf

    from estimator_trainer.tools.predict.signature import first_line

    try:
        return model.predict(inputs, len(rows))
    except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as error:
        for place, row in enumerate(rows):  # which one is it?
            try:
                model.predict({name: tensor[place : place + 1] for name, tensor in inputs.items()}, 1)
            except (tf.errors.InvalidArgumentError, UnicodeDecodeError) as of_one:
                why = first_line(of_one)
                cure = 'mend it'
                if 'is required but could not be found' in why:
                    cure = (
                        'mend it, or export again: give this feature a default_value in the FileSpec, or the job a '
                        'serving_input_fn'
                    )
                raise BadExample(
                    f'{examples.where(row)}: the signature {model.name} fails on this example: {why}; {cure}'
                ) from error
        raise


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
