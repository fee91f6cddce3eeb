"""sstable: what is written is read, and damage is told."""

import pytest

from estimator_trainer.run_dir import sstable
from tests.run_dir import tables

PAIRS = [(b'', b'header'), (b'dnn/bias', b'x' * 300), (b'dnn/kernel', b''), (b'linear', bytes(range(256)))]


@pytest.fixture
def path(tmp_path):
    return tmp_path / 'table'


@pytest.mark.parametrize('snappy', [False, True])
def test_what_is_written_is_read(path, snappy):
    path.write_bytes(tables.table([PAIRS[:3], PAIRS[3:]], snappy))
    assert sstable.is_table(path) and list(sstable.entries(path)) == PAIRS


@pytest.mark.parametrize(
    'harm, said',
    [
        (lambda content: content[:20], 'less than the footer'),
        (lambda content: content[:-1], 'does not end as a table does'),
        (lambda content: content[:5] + b'?' + content[6:], 'block at byte 0 has a wrong checksum'),
        (lambda content: content[-60:], 'beyond the end|wrong checksum'),
        (lambda content: b'', 'it has 0 bytes'),
    ],
)
def test_damage_is_told(path, harm, said):
    path.write_bytes(harm(tables.table([PAIRS])))
    with pytest.raises(ValueError, match=said):
        list(sstable.entries(path))


def test_other_files_are_no_tables(path):
    for content in (b'', b'{"a": 1}', bytes(100)):
        path.write_bytes(content)
        assert not sstable.is_table(path)
