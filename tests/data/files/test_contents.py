"""data.files.contents: the bytes of files, which may be compressed, also in several streams."""

import errno
import gzip
import os
import zlib

import pyarrow
import pyarrow.parquet
import pytest

from estimator_trainer.data.files import contents, index
from estimator_trainer.errors import BadExample

ROWS = b'x,y\n' + b''.join(b'%d,%d\n' % (i, i * i) for i in range(100))
FIRST = ROWS.index(b'50,')  # the bytes of the first stream


def load(path):
    (starts,) = index.load_all([str(path)], 'csv', True, None)
    return starts.tolist()


@pytest.mark.parametrize('name, compress', [('a.csv.gz', gzip.compress), ('a.csv.zlib', zlib.compress)])
@pytest.mark.parametrize('between', [b'', bytes(512)], ids=['joined', 'with zeros between'])
def test_all_streams_of_a_file_are_read(tmp_path, name, compress, between):
    path = tmp_path / name
    path.write_bytes(b''.join(compress(part) + between for part in (ROWS[:FIRST], ROWS[FIRST:])))
    assert contents.decompressed(str(path)) == ROWS == contents.read_beginning_of_csv(str(path), 2**16)[0]
    assert len(load(path)) == 101 and load(path)[-1] == len(ROWS)


def test_an_index_of_the_first_stream_alone_is_made_anew(tmp_path, monkeypatch):
    """Earlier versions made such ones."""
    path = tmp_path / 'a.csv.zlib'
    path.write_bytes(zlib.compress(ROWS[:FIRST]) + zlib.compress(ROWS[FIRST:]))
    with monkeypatch.context() as earlier:
        earlier.setattr(contents, 'decompressed', lambda path: ROWS[:FIRST])
        earlier.setattr(index, '_ALL_STREAMS', 'none')
        assert len(load(path)) == 51
    assert len(load(path)) == 101
    monkeypatch.setattr(index, 'make', None)
    assert len(load(path)) == 101


def test_an_index_of_a_file_of_gzip_by_an_earlier_version_is_used(tmp_path, monkeypatch):
    path = tmp_path / 'a.csv.gz'
    path.write_bytes(gzip.compress(ROWS))
    with monkeypatch.context() as earlier:
        earlier.setattr(index, '_ALL_STREAMS', 'none')
        load(path)
    monkeypatch.setattr(index, 'make', None)
    assert len(load(path)) == 101


def test_pyarrow_reads_files_whose_names_are_not_utf8(tmp_path):
    for name in (b'plain', b'caf\xc3\xa9', b'caf\xe9'):
        pyarrow.parquet.write_table(pyarrow.table({'a': [1]}), tmp_path / 'new')
        path = os.fsdecode(os.fsencode(tmp_path) + b'/' + name)
        os.replace(tmp_path / 'new', path)
        assert pyarrow.parquet.read_metadata(contents.for_pyarrow(path)).num_rows == 1
        with pyarrow.parquet.ParquetFile(contents.for_pyarrow(path)) as opened:
            assert opened.read_row_group(0).to_pydict() == {'a': [1]}
    with pytest.raises(FileNotFoundError) as raised:
        contents.for_pyarrow(f'{path}-not-there')
    assert raised.value.errno == errno.ENOENT


@pytest.mark.parametrize('behind', [b'x', zlib.compress(b'more')[:-3]], ids=['garbage', 'cut short'])
def test_what_follows_a_stream_of_zlib_and_is_none_is_damage(tmp_path, behind):
    path = tmp_path / 'a.csv.zlib'
    path.write_bytes(zlib.compress(ROWS) + behind)
    with pytest.raises(BadExample, match='a.csv.zlib: is damaged and cannot be decompressed'):
        contents.decompressed(str(path))


@pytest.mark.parametrize(
    'compress',
    [bytes, gzip.compress, lambda data: gzip.compress(data[:7]) + gzip.compress(data[7:])]
    + [lambda data: gzip.compress(data[:7]) + bytes(512) + gzip.compress(data[7:]) + bytes(512)],
)
def test_the_header_is_the_first_row_and_little_more_is_read(tmp_path, monkeypatch, compress):
    path, header = tmp_path / 'a.csv.gz', b'"a\r\nb",c\r\n'
    path.write_bytes(compress(b'\xef\xbb\xbf\r\n' + header + b'1,2\n' * 10))
    assert contents.header_of_csv(str(path)) == header
    for empty in (b'', b'\n', b'\xef\xbb\xbf'):
        path.write_bytes(compress(empty))
        assert contents.header_of_csv(str(path)) == b''
    path.write_bytes(compress(header + b'1,' + os.urandom(2**22)))  # a blank line would belong to the header
    monkeypatch.setattr(contents, 'decompressed', None)
    sizes, read = [], contents.read_beginning_of_csv
    monkeypatch.setattr(contents, 'read_beginning_of_csv', lambda path, size: sizes.append(size) or read(path, size))
    assert contents.header_of_csv(str(path)) == header and sizes == [contents._FIRST_BYTES]
