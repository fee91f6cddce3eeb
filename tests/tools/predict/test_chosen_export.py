"""predict.exports: which SavedModel the flags mean."""

import json

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.tools.predict import chosen_export


def saved_model(folder, weights=b'1', vocabulary=b'a'):
    (folder / 'variables').mkdir(parents=True)
    (folder / 'assets').mkdir()
    (folder / 'saved_model.pb').write_bytes(b'graph')
    (folder / 'variables' / 'variables.index').write_bytes(b'sums of ' + weights)
    (folder / 'variables' / 'variables.data-00000-of-00001').write_bytes(weights)
    (folder / 'assets' / 'words').write_bytes(vocabulary)
    return str(folder)


def test_a_saved_model_or_the_newest_of_several(tmp_path):
    old, new = saved_model(tmp_path / '999'), saved_model(tmp_path / '1000')
    (tmp_path / 'temp-2000').mkdir()
    (tmp_path / '3000').mkdir()  # without a model
    assert chosen_export.find(old, '') == old
    assert chosen_export.find(str(tmp_path), '') == new


def test_of_a_run_the_best_that_its_file_names_or_else_the_last(tmp_path):
    final = saved_model(tmp_path / 'export' / 'final' / '20')
    assert chosen_export.find('', str(tmp_path)) == final
    best, _ = (saved_model(tmp_path / 'export' / 'best' / name) for name in ('10', '11'))
    assert chosen_export.find('', str(tmp_path)) == final
    (tmp_path / 'export' / 'best' / 'best.json').write_text(json.dumps({'saved_model': '10'}))
    assert chosen_export.find('', str(tmp_path)) == best


def test_there_is_none(tmp_path):
    with pytest.raises(UsageError, match='--export=.*is no SavedModel and holds none'):
        chosen_export.find(str(tmp_path), '')
    with pytest.raises(UsageError, match='--model_dir=.*export/best or export/final'):
        chosen_export.find('', str(tmp_path / 'nowhere'))


def test_the_fingerprint_changes_with_the_model(tmp_path):
    one = chosen_export.fingerprint(saved_model(tmp_path / '1'))
    assert chosen_export.fingerprint(saved_model(tmp_path / '2')) == one
    assert chosen_export.fingerprint(saved_model(tmp_path / '3', weights=b'2')) != one
    assert chosen_export.fingerprint(saved_model(tmp_path / '4', vocabulary=b'b')) != one
