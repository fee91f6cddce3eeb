"""The formats of files: what several places say of them agrees, and no unknown one is taken for another."""

import numpy as np
import pytest

from estimator_trainer.config import declaration
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.data.files import FORMATS, contents, index, records
from estimator_trainer.data.files.spec import KNOWN_FORMATS, FileSpec
from estimator_trainer.errors import UsageError
from estimator_trainer.tools.finished.evaluate import EvaluateFlags


def choices(flags):
    return next(flag.choices for flag in declaration.declared(flags) if flag.name == 'file_format')


def test_the_flags_have_every_format():
    assert choices(TrainerConfig) == FORMATS
    assert choices(EvaluateFlags) == ('', *FORMATS)


def test_a_label_is_one_feature():
    with pytest.raises(UsageError, match=r"FileSpec.label=\['late', 'stars'\]: the name of one feature is needed"):
        FileSpec({}, label=['late', 'stars'])


def test_the_label_is_among_the_features():
    with pytest.raises(
        UsageError, match=r"label='lable' is none of the features \(did you mean label\?\), which are a, label"
    ):
        FileSpec({'label': 1, 'a': 2}, label='lable')
    of_any_file = FileSpec(None, label='late')
    of_any_file.check_names(['late'])
    with pytest.raises(UsageError, match=r"label='late' is none of the features, which are b\."):
        of_any_file.check_names(['b'])


def test_the_key_may_be_a_column_that_is_not_read():
    FileSpec({'late': 1, 'distance': 2}, label='late', key='flight_id')
    with pytest.raises(UsageError, match=r"key='id' is none of the features, which are late\."):
        FileSpec(None, key='id').check_names(['late'])


def test_an_ending_belongs_to_one_format():
    endings = [ending for known in KNOWN_FORMATS.values() for ending in known.endings]
    assert len(set(endings)) == len(endings)


@pytest.mark.parametrize(
    'file_format, has_header, number', [('tfrecord', False, 0), ('csv', False, 1), ('csv', True, 2)]
)
def test_the_number_of_a_format_in_its_indexes_stays(tmp_path, file_format, has_header, number):
    """Users have indexes with these numbers. A new format gets another one, so that it takes no index of theirs."""
    path = tmp_path / 'a'
    path.touch()
    index.load_all([str(path)], file_format, has_header, None)
    with np.load(tmp_path / '.a.index') as held:
        assert held['of'].tolist()[:2] == [2, number]


def test_a_format_that_has_no_index_is_an_error(tmp_path):
    path = tmp_path / 'a'
    path.touch()
    with pytest.raises(KeyError, match='parquet'):
        index.load_all([str(path)], 'parquet', False, None)
    with pytest.raises(KeyError, match='parquet'):
        records.IndexedFiles([str(path)], 'parquet', [np.zeros(1, np.int64)], 0, [])
    with pytest.raises(NotImplementedError, match='parquet'):
        contents.is_compressed(str(path), 'parquet')
