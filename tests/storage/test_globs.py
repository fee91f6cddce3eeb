"""storage.globs: a URL finds among objects what glob.glob finds among files of the same names."""

import glob
import os

import pytest

from estimator_trainer.storage import globs

NAMES = (
    'a.csv',
    'b.csv',
    '.hidden.csv',
    'part-1.csv',
    'part-[1].csv',
    'x/b.csv',
    'x/.hidden.csv',
    'x/y/c.csv',
    '.folder/d.csv',
    'x/.folder/e.csv',
)
PATTERNS = (
    '*.csv',
    '**/*.csv',
    'x/**/*.csv',
    '**/b.csv',
    '*/*.csv',
    '?.csv',
    'x/?/c.csv',
    '[ab].csv',
    '[!a].csv',
    '.*.csv',
    '**/.*.csv',
    '.folder/*',
    '*',
    'x/*',
    '**',
    'part-[1].csv',
    'part-*.csv',
    'x/b.csv',
    'none*',
)


@pytest.mark.parametrize('pattern', PATTERNS)
def test_as_glob(tmp_path, pattern):
    for name in NAMES:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    path = str(tmp_path / pattern)
    files = [path] if os.path.exists(path) else glob.glob(path, recursive=True)
    split = globs.split(f's3://bucket/run/{pattern}')
    below = split.folder.removeprefix('s3://bucket/run').lstrip('/')
    inside = {os.path.relpath(name, below or '.'): name for name in NAMES if not below or name.startswith(f'{below}/')}
    assert [inside[name] for name in globs.matching(inside, split)] == sorted(
        os.path.relpath(each, tmp_path) for each in files if os.path.isfile(each)
    )
    meant = globs.matching(inside, split)
    passed_over = {os.path.relpath(each, tmp_path / below) for each in files if os.path.isdir(each)} - {'.'}
    passed_over -= {folder for folder in passed_over if any(name.startswith(f'{folder}/') for name in meant)}
    assert globs.folders(inside, meant, split) == sorted(passed_over)


def test_an_escaped_letter_is_itself():
    pattern = globs.split('s3://bucket/a%20b/c%2A.csv')
    assert (pattern.folder, pattern.is_glob) == ('s3://bucket/a%20b', False)
    assert globs.matching(['c*.csv', 'cd.csv'], pattern) == ['c*.csv']


@pytest.mark.parametrize(
    'pattern, names',
    [
        ('%5B1%5D*.csv', ['[1]a.csv']),
        ('a[0-9]%2A.csv', ['a1*.csv']),
        ('%3f?.csv', ['?b.csv']),
        ('[ab]%20*.csv', ['a c.csv']),
    ],
)
def test_an_escaped_letter_of_a_glob_is_itself_beside_one_that_is_not(pattern, names):
    there = ['[1]a.csv', '1a.csv', 'a1*.csv', 'a1b.csv', '?b.csv', 'bb.csv', 'a c.csv']
    assert globs.matching(there, globs.split(f's3://bucket/d/{pattern}')) == names
