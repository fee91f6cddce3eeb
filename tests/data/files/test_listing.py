"""data.files.listing: which files, and of which format."""

import errno
import os
import sys

import pytest

from estimator_trainer.config import start_folder
from estimator_trainer.data.files import dataset, listing
from estimator_trainer.errors import DatasetError, DatasetUnavailable, UsageError
from estimator_trainer.jobs import loading


def touched(folder, *names):
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return [str(folder / name) for name in sorted(names)]


def test_names_and_globs_sorted_and_each_once(tmp_path, monkeypatch):
    a, b, c = touched(tmp_path, 'a.csv', 'b.csv', 'sub/c.csv')
    assert listing.expand(f'{tmp_path}/*.csv') == [a, b]
    assert listing.expand(f'{tmp_path}/**/*.csv,{a}') == [a, b, c]
    assert listing.expand([c, a]) == [a, c]
    monkeypatch.chdir(tmp_path)
    assert listing.expand('b.csv, a.csv') == [a, b]


def test_a_path_that_leaves_a_link_is_what_the_system_finds(tmp_path, monkeypatch):
    found, _ = touched(tmp_path, 'releases/eval.csv', 'run/eval.csv')
    (tmp_path / 'releases/7').mkdir()
    (tmp_path / 'run/current').symlink_to(tmp_path / 'releases/7')
    monkeypatch.chdir(tmp_path / 'run')
    assert listing.expand('current/../eval.csv') == listing.expand('current/../*.csv') == [found]


def test_a_name_with_the_letters_of_a_glob_is_a_name(tmp_path):
    (odd,) = touched(tmp_path, 'a[1].csv')
    assert listing.expand(odd) == [odd]


@pytest.mark.parametrize('missing', ['none*.csv', 'none.csv', ''])
def test_what_matches_nothing_is_named(tmp_path, monkeypatch, missing):
    monkeypatch.chdir(tmp_path)
    touched(tmp_path, 'a.csv')
    with pytest.raises(DatasetError, match=r'no file matches .*looked from'):
        listing.expand(['a.csv', missing or 'x'])


def test_a_folder_is_refused_with_the_cure(tmp_path):
    touched(tmp_path, 'sub/c.csv')
    with pytest.raises(DatasetError, match=r'sub is a folder; name its files, such as .*sub/\*'):
        listing.expand(f'{tmp_path}/sub')


def test_a_glob_passes_over_folders(tmp_path):
    a, c = touched(tmp_path, 'a.csv', 'old/c.csv')
    assert listing.expand(f'{tmp_path}/*') == [a]
    assert listing.expand(f'{tmp_path}/**') == [a, c]


def test_a_glob_passes_over_no_folder_of_data(tmp_path):
    a, b = touched(tmp_path, 'a.parquet', 'b.parquet/part-0.parquet')
    with pytest.raises(DatasetError, match=r'b.parquet is a folder; name its files, such as .*/b.parquet/\*.parquet\*'):
        listing.expand(f'{tmp_path}/*.parquet')
    assert listing.expand(f'{tmp_path}/**/*.parquet') == [a, b]


@pytest.mark.parametrize('pattern', ['*/*.csv', '**/*.csv', 'b/*.csv', '*/sub/*.csv'])
@pytest.mark.parametrize('number', [errno.EIO, errno.ESTALE, errno.EACCES])
def test_a_folder_that_cannot_be_listed_is_not_left_out_without_a_word(tmp_path, monkeypatch, caplog, pattern, number):
    """glob.glob leaves it out."""
    touched(tmp_path, 'a/x.csv', 'a/sub/y.csv', 'b/x.csv', 'b/sub/y.csv')
    folder = tmp_path / ('b/sub' if 'sub' in pattern else 'b')
    scandir = os.scandir

    def failing(path='.'):
        if os.fspath(path) == str(folder):
            raise OSError(number, os.strerror(number), path)
        return scandir(path)

    monkeypatch.setattr(os, 'scandir', failing)
    if number == errno.EACCES and pattern != 'b/*.csv':
        assert listing.expand(f'{tmp_path}/{pattern}')
    else:
        with pytest.raises(DatasetError, match='no file matches' if number == errno.EACCES else f'^{folder} cannot be'):
            listing.expand(f'{tmp_path}/{pattern}')
    assert ('WARNING' in caplog.text and f'{folder} cannot be listed' in caplog.text) == (number == errno.EACCES)


@pytest.mark.parametrize('pattern', ['*/x.csv', '*/sub/*.csv', '**/x.csv', '[ab]/sub/y.csv', '*/**/y.csv'])
@pytest.mark.parametrize('number', [errno.EIO, errno.ESTALE, errno.EACCES])
def test_a_folder_that_cannot_be_entered_is_not_left_out_without_a_word(tmp_path, monkeypatch, caplog, pattern, number):
    """glob.glob asks for a part without the letters of a glob whether it is there, and takes each error for a no."""
    touched(tmp_path, 'a/x.csv', 'a/sub/y.csv', 'b/x.csv', 'b/sub/y.csv')
    lstat, stat = os.lstat, os.stat

    def failing(path, look, options):
        if isinstance(path, str) and path.startswith(f'{tmp_path}/b/'):
            raise OSError(number, os.strerror(number), path)
        return look(path, **options)

    monkeypatch.setattr(os, 'lstat', lambda path, **options: failing(path, lstat, options))
    monkeypatch.setattr(os, 'stat', lambda path, **options: failing(path, stat, options))
    if number == errno.EACCES:
        assert listing.expand(f'{tmp_path}/{pattern}')
        assert f'{tmp_path}/b cannot be entered ({os.strerror(number)}), and its files are left out' in caplog.text
    else:
        with pytest.raises(DatasetUnavailable, match=f'^{tmp_path}/b/.* cannot be read'):
            listing.expand(f'{tmp_path}/{pattern}')


@pytest.mark.parametrize(
    'number, kind', [(errno.EIO, DatasetUnavailable), (errno.ESTALE, DatasetUnavailable), (errno.EACCES, DatasetError)]
)
def test_a_name_that_the_system_refuses_to_look_at_has_its_words(tmp_path, monkeypatch, number, kind):
    (path,) = touched(tmp_path, 'x.csv')
    stat = os.stat

    def failing(name, **options):
        if os.fspath(name) == path:
            raise OSError(number, os.strerror(number), name)
        return stat(name, **options)

    monkeypatch.setattr(os, 'stat', failing)
    with pytest.raises(kind, match=f'^{path} cannot be read .{os.strerror(number)}') as raised:
        listing.expand(path)
    assert type(raised.value) is kind
    with pytest.raises(DatasetError, match='no file matches'):
        listing.expand(f'{path}/x.csv')  # a file has no files


NAMES = {
    'x.tfrecord': 'tfrecord',
    'x.tfrecords.gz': 'tfrecord',
    'train.tfrecord-00000-of-00004': 'tfrecord',
    'train-00000-of-00004.TFRecord': 'tfrecord',
    'x.csv': 'csv',
    'x.tsv.gz': 'csv',
    'x.parquet': 'parquet',
    'x.array_record': 'array_record',
    'x.arrayrecord-00001-of-00002': 'array_record',
    'x.csv-2020.parquet': 'parquet',
    'x.parquet-old.csv-00000-of-00001': 'csv',
}


@pytest.mark.parametrize('name', NAMES)
def test_the_format_is_that_of_the_name(name):
    assert listing.format_of([f'/data/{name}']) == NAMES[name]
    assert listing.format_of(['/data/whatever'], NAMES[name]) == NAMES[name]


DELIMITERS = {'x.tsv': '\t', 'x.TSV.gz': '\t', 'x.tsv-00000-of-00004': '\t', 'x.csv': ',', 'x.tsv.csv': ',', 'x': ','}


@pytest.mark.parametrize('name', DELIMITERS)
def test_the_delimiter_is_that_of_the_name(name):
    assert listing.delimiter_of([f'/data/{name}']) == DELIMITERS[name]


def test_names_that_say_two_delimiters_are_refused():
    assert (
        listing.delimiter_of(['a.csv', 'b', 'c.csv.gz']) == ',' and listing.delimiter_of(['a.tsv', 'b.tsv.gz']) == '\t'
    )
    for paths in (['a.csv', 'b.tsv'], ['b.tsv', 'a.csv']):
        with pytest.raises(UsageError, match='^a.csv and b.tsv: .* give FileSpec.delimiter'):
            listing.delimiter_of(paths)


def test_a_folder_of_spark_is_answered_with_a_glob_for_its_data(tmp_path):
    paths = touched(tmp_path, 'out/_SUCCESS', 'out/part-0.snappy.parquet', 'out/part-1.snappy.parquet')
    with pytest.raises(DatasetError, match=r'out is a folder; name its files, such as .*out/\*\.parquet\*'):
        listing.expand(f'{tmp_path}/out')
    assert listing.format_of(listing.expand(f'{tmp_path}/out/*.parquet*')) == 'parquet'
    with pytest.raises(
        DatasetError, match=r'_SUCCESS: its name does not tell .* leave it out, such as with \*\.parquet'
    ):
        listing.format_of(paths)


def test_names_that_tell_no_format_or_two():
    with pytest.raises(DatasetError, match='/data/x: its name does not tell its format; give --file_format'):
        listing.format_of(['/data/x'])
    with pytest.raises(DatasetError, match='a.csv is csv, and /data/b.parquet is parquet'):
        listing.format_of(['/data/a.csv', '/data/b.parquet'])
    with pytest.raises(DatasetError, match="'xml': use one of auto, tfrecord, csv"):
        listing.format_of(['/data/a.csv'], 'xml')


def test_a_file_that_two_paths_lead_to(tmp_path):
    real, copy = touched(tmp_path, '2024/t.csv', '2025/t.csv')
    (tmp_path / 'latest').symlink_to('2024')
    (tmp_path / 'hard').mkdir()
    (tmp_path / 'hard' / 't.csv').hardlink_to(copy)
    paths = listing.expand(f'{tmp_path}/*/t.csv')
    assert paths == [real, copy, f'{tmp_path}/hard/t.csv', f'{tmp_path}/latest/t.csv']  # an example may be meant twice
    assert listing.listed_twice(paths) == {f'{tmp_path}/hard/t.csv': copy, f'{tmp_path}/latest/t.csv': real}
    assert listing.listed_twice([real, copy, f'{tmp_path}/gone.csv']) == {}


def test_names_of_flags_lie_where_the_command_was_started(tmp_path, monkeypatch):
    start, other = tmp_path / 'start [1]', tmp_path / 'other'
    for folder in (start, other):
        folder.mkdir()
        for name in ('a.csv', 'b.csv'):
            (folder / name).touch()
    monkeypatch.chdir(start)
    monkeypatch.setattr(start_folder, '_left', '')
    monkeypatch.setattr(sys, 'path', list(sys.path))
    (start / 'u_moves.py').write_text(
        f'import os\nfrom estimator_trainer.jobs import Job\nos.chdir({str(other)!r})\njob = Job(model_fn=print)\n'
    )
    loading.load('u_moves:job')
    del sys.modules['u_moves']
    assert dataset.listed('train_files', 'a.csv', 'csv') == [f'{start}/a.csv']
    assert dataset.listed('train_files', '*.csv', 'csv') == [f'{start}/a.csv', f'{start}/b.csv']
    assert dataset.listed('train_files', f'{other}/*.csv', 'csv') == [f'{other}/a.csv', f'{other}/b.csv']
    assert listing.expand('a.csv') == [f'{other}/a.csv']  # of the job's own code
