"""The commands themselves, on a run in moto's S3 and on the same run in a folder."""

import json
import re
import sys

import launch
import pytest

from estimator_trainer import exit_codes
from tests.storage import s3_server
from tests.tools.report import model_dirs

boto3 = pytest.importorskip('boto3')

URL = f's3://{s3_server.BUCKET}/run'


@pytest.fixture
def bucket(tmp_path, monkeypatch):
    """The bucket, to which the environment leads. Temporary folders are made in `tmp_path`/tmp."""
    with s3_server.serving(tmp_path) as environment:
        for name, value in {**environment, 'TMPDIR': str(tmp_path / 'tmp')}.items():
            monkeypatch.setenv(name, value)
        (tmp_path / 'tmp').mkdir()
        s3 = boto3.resource('s3', endpoint_url=environment['AWS_ENDPOINT_URL'], region_name='us-east-1')
        yield s3.create_bucket(Bucket=s3_server.BUCKET)
        # autograph of TensorFlow leaves the bytecode of what it has generated
        assert not {path.name for path in (tmp_path / 'tmp').iterdir()} - {'__pycache__'}


def upload(bucket, folder, name='run'):
    for path in folder.rglob('*'):
        if path.is_file():
            bucket.upload_file(str(path), f'{name}/{path.relative_to(folder)}')


def content(bucket, name) -> bytes:
    return bucket.Object(name).get()['Body'].read()


def command(*arguments, code=0, timeout=180):
    done = launch.run([sys.executable, '-m', 'estimator_trainer', *map(str, arguments)], timeout=timeout)
    assert done.code == code, done.output
    return done.output


@pytest.mark.slow
def test_status_and_report(bucket, tmp_path):
    folder = tmp_path / 'local' / 'run'
    model_dirs.alone(folder)
    upload(bucket, folder)
    assert command('status', URL) == command('status', folder).replace(str(folder), URL)
    assert command('report', URL).startswith(f'{URL}/report.html: ')
    command('report', folder)
    page, there = content(bucket, 'run/report.html').decode(), (folder / 'report.html').read_text()
    assert URL in page and str(tmp_path) not in page
    assert page.count('<svg') == there.count('<svg') > 0
    assert re.findall('<h2.*', page) == re.findall('<h2.*', there) != []
    command('report', URL, folder, f'--out={tmp_path}/both.html')
    assert 'href="s3://bucket/run/report.html"' in (tmp_path / 'both.html').read_text()


@pytest.mark.parametrize(
    'arguments, changed, code, said',
    [
        (('status', 's3://no-such-bucket/run'), {}, exit_codes.USAGE, 'MODEL_DIR=s3://no-such-bucket/run: '),
        (('report', 's3://bucket/none'), {}, exit_codes.USAGE, 'MODEL_DIR=s3://bucket/none: nothing is there'),
        (('status', URL), {'AWS_ENDPOINT_URL': 'http://127.0.0.1:9'}, exit_codes.FILES_AWAY, 'may work later'),
        (('migrate', f'--model_dir={URL}', '--to=hdfs://a/b'), {}, exit_codes.USAGE, '--to=hdfs://a/b: hdfs:// is not'),
        (
            ('predict', f'--export={URL}', '--files=a.csv', '--out=s3://no-such-bucket/out/a.csv'),
            {},
            exit_codes.USAGE,
            '--out=s3://no-such-bucket/out: ',
        ),
        (
            ('sweep', '--param_space=learning_rate:log:1e-4:1', '--', '--max_steps=9', f'--model_dir={URL}'),
            {},
            exit_codes.USAGE,
            'a folder of this machine',
        ),
    ],
)
def test_what_cannot_be_done_is_one_error(bucket, monkeypatch, arguments, changed, code, said):
    for name, value in changed.items():
        monkeypatch.setenv(name, value)
    output = command(*arguments, code=code)
    assert said in output and len(output.splitlines()) == 1


@pytest.mark.slow
def test_migrate_and_inspect(bucket, tmp_path):
    folder = tmp_path / 'local' / 'run'
    launch.trainer('--job=mnist', '--max_steps=4', '--save_checkpoints_steps=2', f'--model_dir={folder}')
    upload(bucket, folder)
    flags = ('--nokeras_file',)
    said = command('migrate', f'--model_dir={URL}', '--to=s3://bucket/keras', *flags)
    here = command('migrate', f'--model_dir={folder}', f'--to={tmp_path}/keras', *flags)
    assert said == here.replace(f'{tmp_path}/keras', 's3://bucket/keras')
    report = json.loads(content(bucket, 'keras/migrate.json'))
    assert report['from'] == f'{URL}/model.ckpt-4' and report['checkpoint'] == 's3://bucket/keras/model.ckpt-4'
    data = 'model.ckpt-4.data-00000-of-00001'
    assert content(bucket, f'keras/{data}') == (tmp_path / 'keras' / data).read_bytes()
    assert 'is not empty' in command('migrate', f'--model_dir={URL}', '--to=s3://bucket/keras', code=exit_codes.USAGE)
    command('inspect', URL, f'{URL}/model.ckpt-2', 's3://bucket/keras', '--json=s3://bucket/out/found.json')
    found = json.loads(content(bucket, 'out/found.json'))
    assert [(each['path'], each['step']) for each in found] == [(URL, 4), (URL, 2), ('s3://bucket/keras', 4)]


@pytest.mark.slow
def test_evaluate_and_export(bucket, tmp_path):
    folder = tmp_path / 'local' / 'run'
    launch.trainer('--job=mnist', '--max_steps=4', '--save_checkpoints_steps=2', '--seed=3', f'--model_dir={folder}')
    upload(bucket, folder)
    metrics = json.loads(command('evaluate', f'--model_dir={URL}', '--checkpoint_step=2').splitlines()[-1])
    here = json.loads(command('evaluate', f'--model_dir={folder}', '--checkpoint_step=2').splitlines()[-1])
    assert metrics == here
    command('export', f'--model_dir={URL}', f'--to={tmp_path}/export')
    assert list((tmp_path / 'export').rglob('saved_model.pb'))
