"""predict.predict_plan: what decides the rows."""

import dataclasses
import json

import pytest

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
    path.write_text(json.dumps(plans.to_json(PLAN)))
    assert plans.load(str(path)) == PLAN
    assert plans.difference(PLAN, plans.load(str(path))) == ''
    path.write_text(json.dumps(plans.to_json(CHOSEN)))
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
