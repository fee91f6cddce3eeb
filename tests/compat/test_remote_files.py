"""The settings of gs://, and which URLs work on this machine. Without TensorFlow, and without asking anybody."""

import importlib.metadata

import pytest

from estimator_trainer.compat import remote_files
from estimator_trainer.storage import connection

NOWHERE = {
    'AWS_EC2_METADATA_DISABLED': 'true',
    'AWS_CONFIG_FILE': '/dev/null',
    'AWS_SHARED_CREDENTIALS_FILE': '/dev/null',
}


def test_what_the_user_has_set_stays():
    environ = {'GCS_STAT_CACHE_MAX_AGE': '7'}
    remote_files.prepare(environ)
    assert environ == {'GCS_STAT_CACHE_MAX_AGE': '7', 'GCS_RETRY_CONFIG_MAX_RETRIES': '6'}


@pytest.mark.parametrize(
    'environ, warned',
    [
        (remote_files.SETTINGS, []),
        ({'GCS_STAT_CACHE_MAX_AGE': '0', 'GCS_RETRY_CONFIG_MAX_RETRIES': '2'}, []),
        ({**remote_files.SETTINGS, 'GCS_STAT_CACHE_MAX_AGE': '5'}, ['GCS_STAT_CACHE_MAX_AGE=5']),
        ({**remote_files.SETTINGS, 'GCS_RETRY_CONFIG_MAX_RETRIES': '10'}, ['GCS_RETRY_CONFIG_MAX_RETRIES=10']),
    ],
)
def test_settings_that_do_harm_are_warned_of(environ, warned):
    lines = [line for line in remote_files.report(environ, (2, 21)) if line.startswith('warning: ')]
    assert [line.split()[1].rstrip(':') for line in lines] == warned


@pytest.mark.parametrize(
    'tensorflow, installed, said',
    [
        ((2, 21), False, 'cannot work: s3:// and hdfs:// as files of TensorFlow: tensorflow-io has builds up to'),
        ((2, 15), False, 'files of TensorFlow: s3:// and hdfs:// need the package tensorflow-io'),
        ((2, 15), True, 'files of TensorFlow: s3:// and hdfs:// in a program that imports tensorflow_io (0.36)'),
    ],
)
def test_other_schemes_need_tensorflow_io(monkeypatch, tensorflow, installed, said):
    def version(name):
        assert name == 'tensorflow-io'
        if not installed:
            raise importlib.metadata.PackageNotFoundError(name)
        return '0.36'

    monkeypatch.setattr(importlib.metadata, 'version', version)
    gs, *others = remote_files.report(remote_files.SETTINGS, tensorflow)
    assert gs.startswith('files of TensorFlow: gs:// works')
    assert [line.startswith(said) for line in others] == [True]


def credentials_of(monkeypatch, tmp_path, **environ):
    """What is said of s3, gs and az."""
    for name, value in {**NOWHERE, 'HOME': str(tmp_path), **environ}.items():
        monkeypatch.setenv(name, value)
    for name in ('AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY', 'AWS_PROFILE', 'AWS_ENDPOINT_URL'):
        if name not in environ:
            monkeypatch.delenv(name, raising=False)
    return [line.partition(': ')[2] for line in connection.installed({**NOWHERE, **environ})]


def test_no_credentials(monkeypatch, tmp_path):
    pytest.importorskip('boto3')
    s3, gs, az = credentials_of(monkeypatch, tmp_path)
    assert s3 == "installed; no credentials found; server: Amazon's"
    assert gs.startswith('installed; no credentials found but those that the machine may have')
    assert az == 'installed; AZURE_STORAGE_ACCOUNT_NAME is not set'


def test_credentials_are_found_and_not_shown(monkeypatch, tmp_path):
    pytest.importorskip('boto3')
    lines = credentials_of(
        monkeypatch,
        tmp_path,
        AWS_ACCESS_KEY_ID='hush',
        AWS_SECRET_ACCESS_KEY='hush',
        AWS_ENDPOINT_URL='http://127.0.0.1:9000',
        GOOGLE_SERVICE_ACCOUNT_KEY='hush',
        AZURE_STORAGE_ACCOUNT_NAME='account',
        AZURE_STORAGE_ACCOUNT_KEY='hush',
    )
    names = ('env', 'GOOGLE_SERVICE_ACCOUNT_KEY', 'AZURE_STORAGE_ACCOUNT_KEY')
    assert [line.partition('; server')[0] for line in lines] == [f'installed; credentials: {name}' for name in names]
    assert lines[0].endswith('; server: http://127.0.0.1:9000 (AWS_ENDPOINT_URL)')


def test_a_package_that_is_missing(monkeypatch, tmp_path):
    monkeypatch.setattr(connection.importlib.util, 'find_spec', lambda name: None)
    lines = credentials_of(monkeypatch, tmp_path)
    assert lines == [
        f'obstore is missing: pip install "estimator-trainer[{extra}]"' for extra in ('s3', 'gcs', 'azure')
    ]
