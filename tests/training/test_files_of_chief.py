"""training.files_of_chief: workers of parameter servers, which compare their files with config.json."""

import itertools
import json
import re

import pytest

from estimator_trainer.run_dir import config_file
from estimator_trainer.training import files_of_chief

OWN = {'files': 2, 'examples': 100, 'digest': 'a', 'shuffle': 'records', 'units': {'t': 'timestamp[us]'}}
OLD = {**OWN, 'files': 1, 'examples': 50, 'digest': 'b'}


def look(folder, own=OWN, secs=10, sleep=lambda secs: None):
    return files_of_chief.look(str(folder), own, secs, clock=itertools.count().__next__, sleep=sleep)


def write(folder, files):
    config_file.write(str(folder), {'files': files} if files else {})


@pytest.mark.parametrize('files', [OWN, None])
def test_the_same_files_and_none_at_all(tmp_path, files):
    write(tmp_path, files)
    assert look(tmp_path) == '' == look(tmp_path, own=files)
    assert json.loads((tmp_path / 'config.json').read_text()).get('files') == files


def test_a_folder_without_config_json(tmp_path):
    assert look(tmp_path) == ''


def test_other_files_are_refused(tmp_path):
    write(tmp_path, OLD)
    said = 'finds other training files than the chief: 2 with 100 examples, the chief 1 with 50. Let all files be there'
    assert look(tmp_path).startswith(said)
    assert re.search('0 with 0 examples, the chief 1 with 50', look(tmp_path, own=None))


def test_other_windows_are_no_other_files(tmp_path):
    blocks = {**OWN, 'shuffle': 'blocks', 'windows': 3, 'blocks': 'a'}
    write(tmp_path, {**blocks, 'windows': 4, 'blocks': 'b'})
    assert look(tmp_path, own=blocks).startswith('forms other windows of the training files than the chief')
    write(tmp_path, {name: value for name, value in blocks.items() if name not in ('blocks', 'units')})
    assert look(tmp_path, own=blocks) == ''  # of an earlier version


def test_a_config_json_of_an_earlier_start_is_waited_for(tmp_path):
    write(tmp_path, OLD)
    assert look(tmp_path, sleep=lambda secs: write(tmp_path, OWN)) == ''
