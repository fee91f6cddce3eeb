"""data.files.index: made once, kept beside the file or in a folder, and never trusted for another file."""

import errno
import gzip
import os
import struct
import subprocess
import sys
import zlib

import google_crc32c
import numpy as np
import pytest

from estimator_trainer.data.files import borders, contents, index
from estimator_trainer.errors import BadExample, DatasetError, DatasetRefused, DatasetUnavailable


def masked(crc):
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def frame(data):
    length = struct.pack('<Q', len(data))
    checksums = (struct.pack('<I', masked(google_crc32c.value(part))) for part in (length, data))
    return length + next(checksums) + data + next(checksums)


RECORDS = [b'', b'a', b'x' * 5000, *(bytes([i]) * i for i in range(200))]
STARTS = np.concatenate([[0], np.cumsum([len(record) + 16 for record in RECORDS])]).tolist()


@pytest.fixture
def path(tmp_path):
    path = tmp_path / 'data' / 'a.tfrecord'
    path.parent.mkdir()
    path.write_bytes(b''.join(map(frame, RECORDS)))
    return str(path)


def load(path, folder=None):
    (starts,) = index.load_all([path], 'tfrecord', False, folder)
    return starts.tolist()


def of_tfrecord(data, path):
    return borders.of_tfrecord(borders.Held(data), path)


def kept(path):
    return os.path.join(os.path.dirname(path), '.a.tfrecord.index')


def test_where_records_begin(path):
    assert load(path) == STARTS
    assert load(path) == STARTS  # the index that was kept


@pytest.mark.parametrize('compress', [gzip.compress, zlib.compress])
def test_of_a_compressed_file(path, compress):
    data = open(path, 'rb').read()
    with open(path, 'wb') as file:
        file.write(compress(data))
    assert load(path) == STARTS == load(path)


SIZES_LIKE_A_MARK = [0x0178, 0x5E78, 0x9C78, 0xDA78, 0x8B1F, 0x10178, 0x1018B1F]


@pytest.mark.parametrize('size', SIZES_LIKE_A_MARK)
def test_a_first_record_whose_length_begins_like_a_compressed_file(path, size):
    with open(path, 'wb') as file:
        file.write(frame(bytes(size)) + frame(b'x'))
    assert load(path) == [0, size + 16, size + 33] and not contents.is_compressed(path, 'tfrecord')


@pytest.mark.parametrize('name, compressed', [('a.csv-00000-of-00001', False), ('a.csv.zlib', True), ('a', False)])
def test_a_csv_file_whose_first_letters_are_like_a_compressed_file(tmp_path, name, compressed):
    path = tmp_path / name
    path.write_bytes(zlib.compress(b'x,y\n1,2\n') if compressed else b'x^,y\n1,2\n')
    assert contents.is_compressed(str(path), 'csv') is compressed
    (starts,) = index.load_all([str(path)], 'csv', True, None)
    assert len(starts) == 2


def test_an_empty_file(path):
    open(path, 'wb').close()
    assert load(path) == [0] == load(path)


def test_is_kept_and_used(path, monkeypatch):
    load(path)
    monkeypatch.setattr(index, 'make', None)
    assert load(path) == STARTS


def test_is_made_anew_for_a_file_that_has_changed(path):
    load(path)
    with open(path, 'ab') as file:
        file.write(frame(b'more'))
    assert load(path) == [*STARTS, STARTS[-1] + 20]


def test_is_made_anew_for_a_file_of_the_same_size_and_another_time(path):
    load(path)
    data = b''.join(map(frame, RECORDS[::-1]))
    with open(path, 'wb') as file:
        file.write(data)
    os.utime(path, ns=(1, 1))
    assert load(path) == of_tfrecord(data, path).tolist() != STARTS


@pytest.mark.parametrize(
    'damage', [lambda data: data[:-30], lambda data: b'', lambda data: data[:200] + b'\0\0\0' + data[203:]]
)
def test_is_made_anew_where_it_is_damaged(path, damage):
    load(path)
    data = open(kept(path), 'rb').read()
    with open(kept(path), 'wb') as file:
        file.write(damage(data))
    assert load(path) == STARTS


def test_a_folder_that_cannot_be_written(path, tmp_path, monkeypatch):
    write = index.write

    def refused(place, **arrays):
        if os.path.dirname(place) == os.path.dirname(path):
            raise PermissionError(13, 'Permission denied', place)
        write(place, **arrays)

    monkeypatch.setattr(index, 'write', refused)
    assert load(path) == STARTS  # kept nowhere
    folder = tmp_path / 'model' / 'index'
    assert load(path, str(folder)) == STARTS
    assert len(list(folder.iterdir())) == 1
    monkeypatch.setattr(index, 'make', None)
    assert load(path, str(folder)) == STARTS


def test_many_files_are_indexed_by_other_processes(tmp_path, monkeypatch):
    paths = []
    for number in range(5):
        paths.append(str(tmp_path / f'{number}.tfrecord'))
        with open(paths[-1], 'wb') as file:
            file.write(b''.join(map(frame, RECORDS[number:])))
    monkeypatch.setattr(index, 'PARALLEL_BYTES', 0)
    monkeypatch.setattr(index, 'make', None)
    for number, starts in enumerate(index.load_all(paths, 'tfrecord', False, None)):
        assert len(starts) == len(RECORDS) - number + 1


def test_a_damaged_file_is_named_where_other_processes_make_indexes(path, monkeypatch):
    monkeypatch.setattr(index, 'PARALLEL_BYTES', 0)
    with open(path, 'ab') as file:
        file.write(b'?')
    with pytest.raises(BadExample, match='ends inside record'):
        load(path)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(DatasetError, match='a.tfrecord cannot be read .No such file'):
        load(str(tmp_path / 'a.tfrecord'))


@pytest.mark.parametrize('number', [0, 1, 150, len(RECORDS) - 1])
def test_a_damaged_length(path, number):
    data = bytearray(open(path, 'rb').read())
    data[STARTS[number] + 2] ^= 1
    with pytest.raises(BadExample, match=f'length of record {number} at byte {STARTS[number]:,} is damaged'):
        of_tfrecord(bytes(data), path)


@pytest.mark.parametrize('missing', [1, 15, 16, 100])
def test_a_file_that_was_cut_short(path, missing):
    data = open(path, 'rb').read()[:-missing]
    with pytest.raises(BadExample, match=f'ends inside record {len(RECORDS) - 1}, which begins'):
        of_tfrecord(data, path)


def test_no_tfrecord_file(path):
    with pytest.raises(BadExample, match='is it a TFRecord file'):
        of_tfrecord(b'a,b\n1,2\n' * 40, path)


CSV = {
    b'a,b\n1,2\n': ([b'a,b', b'1,2'], True),
    b'a,b\r\n1,2\r\n': ([b'a,b', b'1,2'], True),
    b'a,b\n1,2': ([b'a,b', b'1,2'], True),
    b'a\n\n\n1\n\n': ([b'a', b'1'], True),
    b'a\n"1\n\n2"\n3\n': ([b'a', b'"1\n\n2"', b'3'], True),
    b'a\n"1 ""\n"" 2"\n': ([b'a', b'"1 ""\n"" 2"'], True),
    b'': ([], False),
    b'a\r1\r2': ([b'a', b'1', b'2'], True),
    b'a\r\r\n\r1,"x\r\ny"\r\n\n2\r': ([b'a', b'1,"x\r\ny"', b'2'], True),
    b'\n\r\n\na\n1\n': ([b'a', b'1'], True),
    b'\xef\xbb\xbfa\n1': ([b'a', b'1'], True),
    b'\xef\xbb\xbf\r\na\n1': ([b'a', b'1'], True),
    b'\xef\xbb\xbf': ([], False),
    b'a\nb': ([b'a', b'b'], True),
    b'\n': ([], False),
}


@pytest.mark.parametrize('data', CSV)
@pytest.mark.parametrize('chunk', [1, 3, 2**20])
def test_rows_of_csv(data, chunk, monkeypatch):
    monkeypatch.setattr(borders, 'CHUNK_BYTES', chunk)
    rows, has_header = CSV[data]
    for header in {False, has_header}:
        starts = borders.of_csv(borders.Held(data), header)
        assert [data[start:end].rstrip(b'\r\n') for start, end in zip(starts, starts[1:])] == rows[header:]


def test_needs_no_tensorflow():
    program = 'import sys, estimator_trainer.data.files.index; sys.exit("tensorflow" in sys.modules)'
    assert subprocess.run([sys.executable, '-c', program], timeout=300).returncode == 0


@pytest.mark.parametrize('chunk', [16, 100, 2**20])
def test_a_file_is_read_in_parts_and_large_records_are_passed_over(path, monkeypatch, chunk):
    monkeypatch.setattr(borders, 'CHUNK_BYTES', chunk)
    monkeypatch.setattr(borders, 'SMALL_CHUNK_BYTES', min(chunk, 64))
    assert load(path) == STARTS


def test_a_file_that_becomes_shorter_while_it_is_indexed_ends_nothing(path, monkeypatch):
    """If it were mapped into memory, this process would be killed."""
    pread = os.pread

    def shortened(*arguments):
        os.truncate(path, 100)
        return pread(*arguments)

    monkeypatch.setattr(borders, 'CHUNK_BYTES', 64)
    monkeypatch.setattr(os, 'pread', shortened)
    with pytest.raises(DatasetError, match='a.tfrecord has changed while it was in use'):
        load(path)


@pytest.mark.parametrize(
    'number, kind, code',
    [(errno.ESTALE, DatasetUnavailable, 200), (errno.EIO, DatasetUnavailable, 200)]
    + [(errno.EMFILE, DatasetRefused, 74), (errno.EACCES, DatasetError, 66)],
)
def test_what_the_system_refuses_has_its_words_and_its_code(path, monkeypatch, number, kind, code):
    def refused(*arguments):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, 'pread', refused)
    with pytest.raises(kind, match=f'a.tfrecord cannot be read .{os.strerror(number)}') as raised:
        load(path)
    assert raised.value.exit_code == code


def test_names_that_are_not_utf8_and_many_of_them(tmp_path, monkeypatch):
    folder = tmp_path / ('a' * 200)
    folder.mkdir()
    paths = [os.fsdecode(os.fsencode(str(folder)) + b'/caf\xe9-%d.tfrecord' % number) for number in range(200)]
    for path in paths:
        with open(path, 'wb') as file:
            file.write(frame(b'x'))
    monkeypatch.setattr(index, 'PARALLEL_BYTES', 0)
    monkeypatch.setattr(index, 'make', None)
    assert [len(starts) for starts in index.load_all(paths, 'tfrecord', False, None)] == [2] * len(paths)
