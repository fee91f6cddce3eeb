"""predict.predict_plan: what decides the rows, and which SavedModel the flags mean."""

import dataclasses
import json

import pytest

from estimator_trainer.data.files import listing
from estimator_trainer.errors import UsageError
from estimator_trainer.tools.predict import predict_plan as plans

PLAN = plans.PredictPlan(
    export='/run/export/final/170',
    fingerprint='abc',
    signature='',
    files=(('/data/a.tfrecord', 10, 1), ('/data/b.tfrecord', 20, 2)),
    file_format='tfrecord',
    key='id',
    suffix='.csv',
    batch_size=8,
    rows_per_part=100,
    tensorflow='2.21',
)
CHOSEN = dataclasses.replace(PLAN, outputs=('b', 'a'))


def test_it_is_read_as_it_was_written(tmp_path):
    path = tmp_path / plans.NAME
    assert plans.load(str(path)) is None
    path.write_text(json.dumps(dataclasses.asdict(PLAN)))
    assert plans.load(str(path)) == PLAN
    assert plans.difference(PLAN, plans.load(str(path))) == ''
    path.write_text(json.dumps(dataclasses.asdict(CHOSEN)))
    assert plans.load(str(path)) == CHOSEN


@pytest.mark.parametrize('text', ['', '[]', '{}', '{"files": 3}', '{"files": [], "colour": 1}'])
def test_another_file_is_no_plan(tmp_path, text):
    path = tmp_path / plans.NAME
    path.write_text(text)
    with pytest.raises(UsageError, match='is not the plan'):
        plans.load(str(path))


@pytest.mark.parametrize(
    'change, said',
    [
        ({'export': '/x'}, '--export was /run/export/final/170 and is /x'),
        ({'fingerprint': 'x'}, 'the content of /run/export/final/170 has changed'),
        ({'signature': 'predict'}, '--signature was not given and is predict'),
        ({'outputs': ('a', 'b')}, '--outputs was not given and is a,b'),
        ({'key': ''}, '--key was id and is not given'),
        ({'suffix': '.jsonl'}, 'the suffix of --out was .csv and is .jsonl'),
        ({'batch_size': 9}, '--batch_size was 8 and is 9'),
        ({'rows_per_part': 9}, '--rows_per_part was 100 and is 9'),
        ({'tensorflow': '2.15'}, 'the version of TensorFlow was 2.21 and is 2.15'),
        ({'files': PLAN.files[:1]}, '/data/b.tfrecord: 1 files are missing in --files'),
        ({'files': (*PLAN.files, ('/data/c', 1, 1))}, '/data/c: 1 files are new in --files'),
        ({'files': (PLAN.files[0], ('/data/b.tfrecord', 20, 3))}, '/data/b.tfrecord: 1 files have changed'),
    ],
)
def test_a_difference_is_named(change, said):
    assert plans.difference(PLAN, dataclasses.replace(PLAN, **change)) == said


def test_the_units_of_the_run_decide_no_row(tmp_path):
    """A plan of an earlier version has none."""
    now = dataclasses.replace(PLAN, units={'t': 'timestamp[us]'})
    assert plans.difference(PLAN, now) == '' and plans.digest(PLAN) == plans.digest(now)
    assert plans.what_decides(PLAN) == plans.what_decides(now)
    path = tmp_path / plans.NAME
    path.write_text(json.dumps({name: value for name, value in dataclasses.asdict(PLAN).items() if name != 'units'}))
    assert plans.load(str(path)) == PLAN
    path.write_text(json.dumps(dataclasses.asdict(now)))
    assert plans.load(str(path)) == now


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
    assert plans.find_export(old, '') == old
    assert plans.find_export(str(tmp_path), '') == new


def test_of_a_run_the_best_that_its_file_names_or_else_the_last(tmp_path):
    final = saved_model(tmp_path / 'export' / 'final' / '20')
    assert plans.find_export('', str(tmp_path)) == final
    best, _ = (saved_model(tmp_path / 'export' / 'best' / name) for name in ('10', '11'))
    assert plans.find_export('', str(tmp_path)) == final
    (tmp_path / 'export' / 'best' / 'best.json').write_text(json.dumps({'saved_model': '10'}))
    assert plans.find_export('', str(tmp_path)) == best


def test_there_is_none(tmp_path):
    with pytest.raises(UsageError, match='--export=.*is no SavedModel and holds none'):
        plans.find_export(str(tmp_path), '')
    with pytest.raises(UsageError, match='--model_dir=.*export/best or export/final'):
        plans.find_export('', str(tmp_path / 'nowhere'))


def test_the_fingerprint_changes_with_the_model(tmp_path):
    one = plans.fingerprint(saved_model(tmp_path / '1'))
    assert plans.fingerprint(saved_model(tmp_path / '2')) == one
    assert plans.fingerprint(saved_model(tmp_path / '3', weights=b'2')) != one
    assert plans.fingerprint(saved_model(tmp_path / '4', vocabulary=b'b')) != one


def test_each_process_knows_the_files_as_the_command_has_found_them():
    assert PLAN.stamps == [listing.Stamp(10, 1), listing.Stamp(20, 2)]


def test_a_model_that_was_replaced_is_refused(tmp_path):
    folder = saved_model(tmp_path / '170')
    plan = dataclasses.replace(PLAN, export=folder, fingerprint=plans.fingerprint(folder))
    plan.check_export()
    (tmp_path / '170' / 'saved_model.pb').write_bytes(b'other')
    with pytest.raises(UsageError, match='170 has changed while it was in use; put it back'):
        plan.check_export()
