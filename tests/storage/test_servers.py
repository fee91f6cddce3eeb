"""A store at servers of S3's and Google's API: conditions, lists, parts, and what their failures mean."""

import os
import pathlib

import pytest

pytest.importorskip('obstore')
pytest.importorskip('moto')
boto3 = pytest.importorskip('boto3')

from botocore.credentials import RefreshableCredentials  # noqa: E402

from estimator_trainer.data.remote import paths  # noqa: E402
from estimator_trainer.errors import DatasetError, UsageError  # noqa: E402
from estimator_trainer.storage import connection, fetch, lease, mirror, names, scratch_state, store  # noqa: E402
from estimator_trainer.storage.share import Share  # noqa: E402
from tests.storage import s3_server, servers  # noqa: E402

ALL = Share()


@pytest.fixture(params=['moto', 'google'])
def place(request, tmp_path, monkeypatch):
    """(folder of the server, URL)."""
    with servers.SERVERS[request.param](tmp_path) as (url, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield tmp_path, url


@pytest.fixture
def s3(tmp_path, monkeypatch):
    with servers.moto(tmp_path) as (url, environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        yield tmp_path, url


def test_a_version_that_was_put_or_listed_can_be_replaced_and_an_older_one_cannot(place):
    remote = connection.connect(place[1], os.environ)
    assert remote.conditional
    first = remote.write('a/name', b'first', None)
    second = remote.write('a/name', b'second', first)
    for old in (None, first):
        with pytest.raises(store.Conflict):
            remote.write('a/name', b'third', old)
    listed = remote.list()['a/name'].version
    assert listed.e_tag == second.e_tag
    remote.write('a/name', b'third', listed)
    with pytest.raises(store.Conflict):
        remote.write('a/name', b'fourth', listed)
    assert remote.read('a/name')[0] == b'third'


def test_a_run_goes_there_and_comes_back(place, tmp_path):
    one = tmp_path / 'one'
    (one / 'run').mkdir(parents=True)
    large = os.urandom(store.ONE_REQUEST_BYTES + 1)  # in parts
    (one / 'run' / 'notes.bin').write_bytes(large)
    (one / 'run' / 'config.json').write_text('{}')
    push(place[1], one)
    (one / 'run' / 'notes.bin').write_bytes(large[::-1])
    (one / 'run' / 'config.json').write_text('{"seed": 2}')
    push(place[1], one)  # as the next start on this machine does
    two = tmp_path / 'two'
    (two / 'run').mkdir(parents=True)
    remote, known = connection.connect(place[1], os.environ), scratch_state.ScratchState(str(two), place[1])
    fetch.fetch(remote, str(two / 'run'), known, ALL, continues=False)
    found = {path.name: path.read_bytes() for path in (two / 'run').iterdir()}
    assert found == {'notes.bin': large[::-1], 'config.json': b'{"seed": 2}'}
    assert set(remote.list()) == {*found, names.LEASE}


def push(url, scratch: pathlib.Path):
    remote, known = connection.connect(url, os.environ), scratch_state.ScratchState(str(scratch), url)
    mine = lease.Lease(remote, 30, ALL)
    before = mine.acquire(known.token)
    known.save()  # as claiming the lease does
    newest, _ = fetch.fetch(remote, str(scratch / 'run'), known, ALL, continues=before is not None)
    known.token = mine.token
    known.save()
    to = mirror.Mirror(remote, mine, str(scratch), known, newest, 3, ALL)
    to.look()
    to.push()
    sent = to.sent_bytes
    to.push()
    assert to.sent_bytes == sent  # equal content is not sent again
    mine.release()


@pytest.mark.parametrize(
    'fault, said',
    [
        ({'status': 403, 'code': 'AccessDenied'}, 'AccessDenied: Access Denied'),
        ({'status': 507, 'code': 'QuotaExceeded'}, 'QuotaExceeded'),
        ({'status': 507}, '507'),
        ({'status': 403, 'code': 'RequestTimeTooSkewed'}, 'The difference between the request time and the current'),
        ({'status': 301, 'code': 'PermanentRedirect'}, 'in another region; set AWS_REGION'),
        ({'status': 400, 'code': 'AuthorizationHeaderMalformed'}, 'AuthorizationHeaderMalformed'),
        ({'status': 400, 'code': 'InvalidBucketName'}, 'InvalidBucketName'),
        ({'status': 400, 'code': 'InvalidToken'}, 'InvalidToken'),
        ({'status': 400, 'code': 'InvalidRequest'}, 'InvalidRequest'),
        ({'status': 405}, '405'),
    ],
)
def test_a_store_that_refuses_at_the_start_is_an_error_of_use(s3, fault, said):
    folder, url = s3
    s3_server.set_fault(folder, **fault)
    with pytest.raises(UsageError, match=said) as caught:
        connection.connect(url, os.environ)
    assert len(str(caught.value).splitlines()) == 1
    assert s3_server.CREDENTIALS['AWS_SECRET_ACCESS_KEY'] not in str(caught.value)


def test_a_store_that_does_not_answer_may_work_later(s3):
    folder, url = s3
    s3_server.set_fault(folder, silent=True)
    with pytest.raises(
        store.StoreUnavailable,
        match=r'error sending request.* \(the server is http://127.0.0.1:\d+ \(AWS_ENDPOINT_URL\)\)',
    ):
        connection.connect(url, os.environ)
    s3_server.set_fault(folder, status=400, code='ExpiredToken')  # somebody is about to renew it
    with pytest.raises(store.StoreUnavailable, match='ExpiredToken'):
        connection.connect(url, os.environ)
    s3_server.set_fault(folder, status=503, every=3)
    assert connection.connect(url, os.environ).conditional


@pytest.mark.parametrize('endpoint', ['127.0.0.1:5555', 'http://127.0.0.1:5555/bucket', 'http://'])
def test_an_endpoint_that_names_no_server_is_an_error_of_use(s3, endpoint, monkeypatch):
    _, url = s3
    monkeypatch.setenv('AWS_ENDPOINT_URL', endpoint)
    with pytest.raises(UsageError, match=f'AWS_ENDPOINT_URL={endpoint} names no server'):
        connection.connect(url, os.environ)


def test_a_password_in_an_endpoint_is_refused_and_not_shown(s3, monkeypatch):
    monkeypatch.setenv('AWS_ENDPOINT_URL', 'http://me:hush@127.0.0.1:5555')
    with pytest.raises(UsageError, match='AWS_ENDPOINT_URL holds a name or a password') as caught:
        connection.connect(s3[1], os.environ)
    assert 'hush' not in str(caught.value)


@pytest.mark.parametrize('name', ['run//x', 'run/a/./x', 'run/../x', 'run/a\tb'])
def test_an_object_that_cannot_be_listed_is_named(s3, name):
    client = boto3.client('s3', endpoint_url=os.environ['AWS_ENDPOINT_URL'])
    client.put_object(Bucket=s3_server.BUCKET, Key=name)
    with pytest.raises(store.StoreRefused) as caught:
        connection.open_for_reading(s3[1], os.environ).list()
    assert f'the name of the object {name!r} has' in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_the_marker_of_an_empty_folder_is_no_object(s3, monkeypatch):
    """Consoles and s3fs make one."""
    client = boto3.client('s3', endpoint_url=os.environ['AWS_ENDPOINT_URL'])
    for name in ('run/notes/', 'run/eval/a', 'run/empty'):
        client.put_object(Bucket=s3_server.BUCKET, Key=name)
    assert set(connection.open_for_reading(s3[1], os.environ).list()) == {'eval/a', 'empty'}
    monkeypatch.setattr(paths, 'open_stores', {})
    with pytest.raises(DatasetError, match='no file matches'):
        paths.expand(f'{s3[1]}/notes/*', '--train_files')


@pytest.mark.parametrize('written', ['S3://bucket/a%20b/100%', 's3://bucket/a b/100%25/'])
def test_a_folder_is_the_same_for_a_run_and_for_data_however_its_url_is_written(s3, written, monkeypatch):
    monkeypatch.setattr(paths, 'open_stores', {})
    connection.connect(written, os.environ).write('x%20y', b'content', None)
    for pattern in (f'{written.rstrip("/")}/x%2520y', f'{written.rstrip("/")}/x*'):
        (found,) = paths.expand(pattern, '--train_files')
        assert (found, found.name) == ('s3://bucket/a b/100%/x%2520y', 'a b/100%/x%20y')
        assert found.read(0, 7) == b'content'
    assert paths.in_folder(written, '--data_dir') == [found]


def test_credentials_of_a_role_are_asked_for_before_they_end(s3):
    remote = connection.open_for_reading(s3[1], os.environ)
    ttl = remote._objects.credential_provider.ttl
    assert ttl.total_seconds() <= RefreshableCredentials._mandatory_refresh_timeout
