"""predict.parts: rows as files."""

import csv
import json
import os

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.tools.predict import parts
from estimator_trainer.tools.predict import predict_plan as plans


def columns(first, rows, width=2):
    """What a model may give for some rows."""
    numbers = np.arange(first, first + rows)
    return {
        'id': np.array([b'k%d' % number for number in numbers], object),
        'score': (numbers / 10).astype(np.float32),
        'pair': np.stack([numbers] * width, 1),
        'grid': np.broadcast_to(np.arange(4.0).reshape(2, 2), [rows, 2, 2]),
    }


def write(folder, suffix, rows=7, rows_per_part=3, batch=2):
    kept = parts.Parts(str(folder), suffix, rows, rows_per_part)
    for part in reversed(kept.missing()):
        there = kept.range(part)
        kept.write(part, [columns(first, min(batch, there.stop - first)) for first in there[::batch]])
    return kept


@pytest.mark.parametrize('rows, sizes', [(0, []), (1, [1]), (3, [3]), (7, [3, 3, 1])])
def test_rows_are_dealt_into_parts(tmp_path, rows, sizes):
    kept = parts.Parts(str(tmp_path), '.csv', rows, 3)
    assert [len(kept.range(part)) for part in range(kept.number)] == sizes
    assert [row for part in range(kept.number) for row in kept.range(part)] == list(range(rows))


def test_what_is_missing(tmp_path):
    kept = write(tmp_path, '.csv')
    assert kept.missing() == [] and parts.has_any(str(tmp_path))
    (tmp_path / 'part-000001.csv').unlink()
    (tmp_path / 'part-000001.csv.7.tmp').touch()
    assert kept.missing() == [1]


@pytest.mark.parametrize('suffix', plans.SUFFIXES)
def test_a_folder_whose_name_is_not_utf8(tmp_path, suffix):
    folder = os.fsdecode(os.fsencode(tmp_path) + b'/caf\xe9')
    os.mkdir(folder)
    write(folder, suffix).join(f'{folder}/all', lambda part: None)
    (tmp_path / 'other').mkdir()
    write(tmp_path / 'other', suffix).join(str(tmp_path / 'other' / 'all'), lambda part: None)
    with open(f'{folder}/all', 'rb') as file:
        assert file.read() == (tmp_path / 'other' / 'all').read_bytes()


def test_parquet_has_lists(tmp_path):
    seen = []
    write(tmp_path, '.parquet').join(str(tmp_path / 'all'), seen.append)
    table = pa.parquet.read_table(tmp_path / 'all')
    assert seen == [0, 1, 2]
    lists = [pa.list_(pa.int64()), pa.list_(pa.list_(pa.float64()))]
    assert [field.type for field in table.schema] == [pa.string(), pa.float32(), *lists]
    assert table['id'].to_pylist() == [f'k{row}' for row in range(7)]
    assert table.slice(6).to_pylist() == [
        {'id': 'k6', 'score': float(np.float32(0.6)), 'pair': [6, 6], 'grid': [[0, 1], [2, 3]]}
    ]


def test_csv_has_a_column_for_each_value(tmp_path):
    write(tmp_path, '.csv').join(str(tmp_path / 'all'), lambda part: None)
    with open(tmp_path / 'all', newline='') as file:
        rows = list(csv.DictReader(file))
    assert [row['id'] for row in rows] == [f'k{row}' for row in range(7)]
    assert rows[6] == {
        **{'id': 'k6', 'score': '0.6', 'pair_0': '6', 'pair_1': '6'},
        **{'grid_0_0': '0', 'grid_0_1': '1', 'grid_1_0': '2', 'grid_1_1': '3'},
    }


def test_json_lines_have_lists(tmp_path):
    write(tmp_path, '.jsonl').join(str(tmp_path / 'all'), lambda part: None)
    rows = [json.loads(line) for line in (tmp_path / 'all').read_text().splitlines()]
    assert [row['id'] for row in rows] == [f'k{row}' for row in range(7)]
    assert rows[6] == {'id': 'k6', 'score': 0.6, 'pair': [6, 6], 'grid': [[0, 1], [2, 3]]}


def test_odd_values(tmp_path):
    odd = {
        'text': np.array([b'a,"b"\n', 'é'.encode(), b'\xff'], object),
        'number': np.array([np.nan, np.inf, 1e-9], np.float32),
        'flag': np.array([True, False, True]),
        'none': np.zeros([3, 0]),
    }
    found = {}
    for suffix in plans.SUFFIXES:
        kept = parts.Parts(str(tmp_path), suffix, 3, 3)
        kept.write(0, [odd])
        found[suffix] = kept.path(0)
    texts = ['a,"b"\n', 'é', '\\xff']
    table = pa.parquet.read_table(found['.parquet'])
    assert table['text'].to_pylist() == texts and table['none'].to_pylist() == [[], [], []]
    with open(found['.csv'], newline='', encoding='utf-8') as file:
        rows = list(csv.reader(file))
    assert [row[0] for row in rows] == ['text', *texts] and [row[1] for row in rows[1:]] == ['nan', 'inf', '1e-9']
    with open(found['.jsonl'], encoding='utf-8') as file:
        lines = [json.loads(line) for line in file]
    assert [line['text'] for line in lines] == texts and [line['number'] for line in lines] == [None, None, 1e-9]
    assert lines[0]['flag'] is True and lines[0]['none'] == []


def test_outputs_of_another_width_in_each_batch(tmp_path):
    wide = [columns(0, 1, width=1), columns(1, 1, width=3)]
    for suffix in ('.parquet', '.jsonl'):
        kept = parts.Parts(str(tmp_path), suffix, 2, 2)
        kept.write(0, wide)
        kept.join(str(tmp_path / 'all'), lambda part: None)
    kept = parts.Parts(str(tmp_path), '.csv', 2, 2)
    with pytest.raises(UsageError, match='write to --out=NAME.parquet'):
        kept.write(0, wide)
    assert kept.missing() == [0] and not list(tmp_path.glob('*.tmp'))
    kept = parts.Parts(str(tmp_path), '.csv', 2, 1)
    for part, batch in enumerate(wide):
        kept.write(part, [batch])
    with pytest.raises(UsageError, match='write to --out=NAME.parquet'):
        kept.join(str(tmp_path / 'all'), lambda part: None)


def test_two_outputs_with_one_column_of_csv_are_refused(tmp_path):
    batch = {'p': np.zeros([2, 2]), 'p_0': np.zeros([2])}
    with pytest.raises(UsageError, match='p_0 would be the name of two columns.*NAME.parquet'):
        parts.Parts(str(tmp_path), '.csv', 2, 2).write(0, [batch])
    parts.Parts(str(tmp_path), '.jsonl', 2, 2).write(0, [batch])
