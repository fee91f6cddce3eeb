"""Training on files, and on a set of TFDS, that lie in an object store: moto's S3, which fails at times."""

import subprocess
import sys

import launch
import pytest

from tests.storage import s3_server

boto3 = pytest.importorskip('boto3')

DATA = f's3://{s3_server.BUCKET}/data'
FLAGS = ('--deterministic', '--max_steps=40', '--report=off', '--export=none', '--steps_per_call=1')
FILES = ('--job=tests.data.remote.padded_job:job', *FLAGS, '--batch_size=64', '--shuffle=blocks')
WRITE = 'import pathlib, sys; from tests.data.remote import padded_job; padded_job.write(pathlib.Path(sys.argv[1]))'


@pytest.fixture(scope='module')
def store(tmp_path_factory):
    """(environment, the server's folder, the folder whose files are in the bucket as well)."""
    folder = tmp_path_factory.mktemp('store')
    data = folder / 'data'
    data.mkdir()
    subprocess.run([sys.executable, '-c', WRITE, str(data)], cwd=launch.REPOSITORY, check=True, timeout=300)
    with s3_server.serving(folder) as environment:
        upload(environment, data)
        yield environment, folder, data


def upload(environment, folder):
    s3 = boto3.client(
        's3',
        endpoint_url=environment['AWS_ENDPOINT_URL'],
        aws_access_key_id=environment['AWS_ACCESS_KEY_ID'],
        aws_secret_access_key=environment['AWS_SECRET_ACCESS_KEY'],
        region_name=environment['AWS_REGION'],
    )
    s3.create_bucket(Bucket=s3_server.BUCKET)
    for path in folder.rglob('*'):
        if path.is_file():
            s3.upload_file(str(path), s3_server.BUCKET, f'data/{path.relative_to(folder)}')


def named(folder):
    return f'--train_files={folder}/train-*.tfrecord', f'--eval_files={folder}/eval-*.tfrecord'


def held(cache):
    return sum(path.stat().st_size for path in cache.rglob('*') if path.is_file() and path.parent.name != 'locks')


@pytest.mark.slow
def test_files_in_a_store_that_fails_give_the_weights_of_local_files(store, tmp_path):
    environment, folder, data = store
    launch.trainer(*FILES, *named(data), f'--model_dir={tmp_path}/local')
    flags = (*FILES, *named(DATA), '--data_cache_mib=1', f'--data_cache_dir={tmp_path}/cache')
    s3_server.set_fault(folder, status=503, every=3)
    try:
        output = launch.trainer(*flags, f'--model_dir={tmp_path}/remote', **environment).output
        workers = ('--workers=2', f'--model_dir={tmp_path}/two', '--batch_size=32')
        two = launch.cluster(workers[:1], *flags, *workers[1:], **environment).output
    finally:
        s3_server.set_fault(folder)
    assert 'do not fit into --data_cache_mib' in output and '--train_files is in a store' in two
    assert launch.weights(tmp_path / 'remote') == launch.weights(tmp_path / 'local')
    assert launch.metrics(tmp_path / 'two')[-1]['step'] == 40  # tests/data/files compares their batches
    assert 0 < held(tmp_path / 'cache') < 1.1 * 2**20
    assert environment['AWS_SECRET_ACCESS_KEY'] not in output + two
