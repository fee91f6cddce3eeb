"""A file that changes between the look at it and the reading of its records is refused. No TensorFlow."""

import os

import numpy as np
import pytest

from estimator_trainer.data.files import index, listing, records
from estimator_trainer.errors import DatasetError


def opened(path, meanwhile):
    stamps = [listing.stamp(path)]
    starts = index.load_all([path], 'csv', True, None)
    meanwhile()
    return records.IndexedFiles([path], 'csv', starts, 2**20, stamps)


def first_row(files):
    ((row,),), bad = files.read(np.array([0]), np.array([0]))
    assert not bad
    return row


@pytest.fixture
def path(tmp_path):
    path = tmp_path / 'a.csv'
    path.write_text('x\n1\n2\n')
    return str(path)


def test_rows_that_come_after_the_index_was_made_are_not_left_out(path):
    def grow():
        with open(path, 'a') as file:
            file.write('3\n')

    assert first_row(opened(path, lambda: None)) == b'1'
    with pytest.raises(DatasetError, match='a.csv has changed while it was in use'):
        first_row(opened(path, grow))


def test_a_file_that_is_replaced_by_another_of_its_size_is_not_read(path):
    def replace():
        with open(f'{path}.new', 'w') as file:
            file.write('x\n8\n9\n')
        os.utime(f'{path}.new', (1, 1))
        os.replace(f'{path}.new', path)

    with pytest.raises(DatasetError, match='a.csv has changed while it was in use'):
        first_row(opened(path, replace))
