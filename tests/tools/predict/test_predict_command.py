"""predict.command: what is refused before TensorFlow is imported, each with one line."""

import json
import os

import pytest

from estimator_trainer.tools import local_copies
from estimator_trainer.tools.predict import predict_command
from tests.tools.predict.test_predict_plan import saved_model


@pytest.fixture
def flags(tmp_path):
    (tmp_path / 'a.tfrecord').write_bytes(b'one')
    (tmp_path / 'b.csv').write_bytes(b'two')
    export = saved_model(tmp_path / 'model')
    return {'export': export, 'files': f'{tmp_path}/a.tfrecord', 'out': f'{tmp_path}/out/all.csv'}


@pytest.mark.parametrize(
    'change, code, said',
    [
        ({'export': ''}, 64, 'give either --export=FOLDER, a SavedModel, or --model_dir=FOLDER'),
        ({'model_dir': 'x'}, 64, 'give either --export=FOLDER, a SavedModel, or --model_dir=FOLDER'),
        ({'export': '/nowhere'}, 64, '--export=/nowhere: is no SavedModel'),
        ({'out': ''}, 64, '--out is missing'),
        ({'out': 'all.txt'}, 64, '--out=all.txt: the name ends with none of .parquet, .csv, .jsonl'),
        ({'files': ''}, 64, '--files is missing'),
        ({'files': '/nowhere/*.csv'}, 66, "no file matches '/nowhere/*.csv'"),
        ({'files': '{folder}/*.*'}, 66, 'name files of one format'),
        ({'batch_size': '0'}, 64, '--batch_size=0: at least 1 is needed'),
        ({'processes': '0'}, 64, '--processes=0: at least 1 is needed'),
        ({'proceses': '2'}, 64, '--proceses: no such flag (did you mean --processes?)'),
        ({'out': '/proc/version/all.csv'}, 74, '/proc/version/all.csv.parts: Not a directory'),
    ],
)
def test_one_error_before_any_work(tmp_path, flags, capsys, change, code, said):
    given = {name: value.format(folder=tmp_path) for name, value in {**flags, **change}.items()}
    argv = [f'--{name}={value}' for name, value in given.items() if value]
    assert predict_command.main(argv) == code
    shown = capsys.readouterr()
    assert shown.out == '' and len(shown.err.splitlines()) == 1
    assert shown.err.startswith('error: ') and said in shown.err
    assert not os.path.exists(tmp_path / 'out')


def test_a_result_that_is_there(tmp_path, flags, capsys):
    out = tmp_path / 'all.csv'
    out.touch()
    assert predict_command.main([f'--{name}={value}' for name, value in {**flags, 'out': str(out)}.items()]) == 64
    assert f'error: --out={out}: is there already' in capsys.readouterr().err


@pytest.mark.parametrize('files', [{'files': 1, 'units': {'t': 'timestamp[us]'}}, {'files': 1}, None])
def test_the_plan_has_the_units_of_the_run(tmp_path, files):
    saved_model(tmp_path / 'run' / 'export' / 'final' / '170')
    (tmp_path / 'run' / 'config.json').write_text(json.dumps({'files': files}))
    (tmp_path / 'a.csv').write_text('x\n1\n')
    values = predict_command.PredictFlags(model_dir=str(tmp_path / 'run'), files=f'{tmp_path}/a.csv', out='all.csv')
    assert predict_command._plan(values, local_copies.LocalCopies()).units == (files or {}).get('units', {})
    values = predict_command.PredictFlags(export=f'{tmp_path}/run/export/final', files=values.files, out='all.csv')
    assert predict_command._plan(values, local_copies.LocalCopies()).units == {}


def test_copies_of_a_store_are_read_in_the_order_of_their_urls(tmp_path):
    """Each pattern has a folder of copies of its own. Two patterns may match one object."""

    class Here:
        urls = {'s3-1/z/1.csv': 's3://b/z/1.csv', 's3-10/a/1.csv': 's3://b/a/1.csv', 's3-2/a/1.csv': 's3://b/a/1.csv'}

        def __init__(self):
            for copy in self.urls:
                (tmp_path / copy).parent.mkdir(parents=True)
                (tmp_path / copy).write_text('x\n1\n')

        def run(self, place, *_):
            return place

        def add(self, folder):
            """Nothing is missing."""

        def files(self, *_):
            return [str(tmp_path / copy) for copy in self.urls]

        def shown(self, path):
            return self.urls.get(os.path.relpath(path, tmp_path), path)

    values = predict_command.PredictFlags(export=saved_model(tmp_path / 'model'), files='s3://…', out='all.csv')
    plan = predict_command._plan(values, Here())
    assert [name for name, *_ in plan.files] == ['s3://b/a/1.csv', 's3://b/z/1.csv']
    assert all(os.path.exists(plan.path(name)) for name, *_ in plan.files)
