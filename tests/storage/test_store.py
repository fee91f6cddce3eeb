"""What a store makes of requests that break off, in memory and at a server that counts parts."""

import collections
import datetime
import http.server
import os
import threading

import pytest

obstore = pytest.importorskip('obstore')
pytest.importorskip('boto3')

from botocore import exceptions  # noqa: E402

from estimator_trainer.errors import UsageError  # noqa: E402
from estimator_trainer.storage import connection, store, store_errors  # noqa: E402
from tests.storage import s3_server  # noqa: E402
from tests.storage.memory_store import URL, MemoryStore  # noqa: E402

MIB = 1 << 20
CONTENT = os.urandom(5 * MIB + 3)


class Line:
    """Requests to a store in memory, of which each brings so many chunks and then breaks off.

    Attributes:
        chunks: of each request, in turn; all of it after the last one.
        options: of the requests so far.
        before: called before each request, with the number of those before it.
    """

    def __init__(self, monkeypatch):
        self.chunks, self.options, self.before = [], [], lambda number: None
        self._get = obstore.get
        monkeypatch.setattr(obstore, 'get', self.get)

    def get(self, objects, name, *, options=None):
        self.before(len(self.options))
        self.options.append(options)
        result = self._get(objects, name, options=options)
        return Answer(result, self.chunks.pop(0)) if self.chunks else result


class Answer:
    def __init__(self, result, chunks):
        self._result, self._chunks, self.meta, self.range = result, chunks, result.meta, result.range

    def stream(self, min_chunk_size):
        content = bytes(self._result.bytes())
        for start in range(0, self._chunks * min_chunk_size, min_chunk_size):
            yield content[start : start + min_chunk_size]
        raise obstore.exceptions.GenericError('request or response body error')


@pytest.fixture
def line(monkeypatch):
    return Line(monkeypatch)


@pytest.fixture
def remote():
    return MemoryStore(contents={'large': CONTENT})


def test_what_takes_longer_than_a_request_may_is_fetched_by_several(remote, line):
    line.chunks = [2, 1, 1]
    assert b''.join(remote.chunks('large')) == CONTENT
    version = remote.head('large').version
    rest = [{'range': (start * MIB, len(CONTENT)), 'if_match': version.e_tag} for start in (2, 3, 4)]
    assert line.options == [None, *rest]
    line.chunks = [1]
    assert remote.read('large') == (CONTENT, version)


def test_a_part_of_an_object_is_fetched_so_as_well(remote, line):
    line.chunks = [1, 1]
    found, content = remote.open('large', range(MIB + 1, 4 * MIB))
    assert found.size == len(CONTENT)
    assert b''.join(content) == CONTENT[MIB + 1 : 4 * MIB]
    assert [options['range'] for options in line.options] == [(MIB * n + 1, 4 * MIB) for n in (1, 2, 3)]
    assert b''.join(remote.open('large', range(MIB, 9 * MIB))[1]) == CONTENT[MIB:]


def test_an_empty_object_has_no_content(remote, line):
    remote.put('empty', b'')
    assert list(remote.chunks('empty')) == []
    assert remote.read('empty')[0] == b''
    assert len(line.options) == 2


def test_a_request_that_brings_nothing_is_the_last_one(remote, line):
    line.chunks = [1, 0]
    with pytest.raises(store.StoreUnavailable, match='cannot be read .large.: request or response body error'):
        list(remote.chunks('large'))
    assert len(line.options) == 2


@pytest.mark.parametrize('change', [lambda remote: remote.put('large', CONTENT), lambda remote: remote.remove('large')])
def test_bytes_of_two_versions_are_never_mixed(remote, line, change):
    line.chunks = [2]
    line.before = lambda number: number == 1 and change(remote)
    with pytest.raises(store_errors.ObjectChanged, match='large was changed or removed'):
        list(remote.chunks('large'))
    line.chunks, line.options = [2], []
    remote.put('large', CONTENT)
    with pytest.raises(store.StoreUnavailable, match='large was changed or removed'):
        remote.read('large')


def test_two_parts_are_sent_at_once(tmp_path, monkeypatch):
    """The server takes no part before another one has begun. A third one would show itself before they are through."""
    pairs, lock, seen = threading.Barrier(2), threading.Lock(), collections.Counter()

    class Server(http.server.BaseHTTPRequestHandler):
        protocol_version = 'HTTP/1.1'

        def log_message(self, *arguments):
            pass

        def do_POST(self):
            self.rfile.read(int(self.headers.get('Content-Length') or 0))
            self.answer(
                b'<InitiateMultipartUploadResult><Bucket>bucket</Bucket><Key>k</Key><UploadId>1</UploadId>'
                b'</InitiateMultipartUploadResult>'
                if 'uploads' in self.path
                else b'<CompleteMultipartUploadResult><ETag>"e"</ETag></CompleteMultipartUploadResult>'
            )

        def do_PUT(self):
            with lock:
                seen['now'] += 1
                seen['most'] = max(seen['most'], seen['now'])
            pairs.wait(20)
            body = self.rfile.read(int(self.headers['Content-Length']))
            with lock:
                seen['now'] -= 1
                seen['bytes'] += len(body)
            self.answer(b'')

        def answer(self, body):
            self.send_response(200)
            self.send_header('Content-Length', str(len(body)))
            self.send_header('ETag', '"e"')
            self.end_headers()
            self.wfile.write(body)

    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environ = {'AWS_ENDPOINT_URL': f'http://127.0.0.1:{server.server_port}', **s3_server.CREDENTIALS}
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    path = tmp_path / 'large'
    path.write_bytes(bytes(32 * MIB))
    try:
        remote = connection.open_for_reading('s3://bucket/run', environ)
        remote.write_parts('large', 32 * MIB, (bytes(MIB) for _ in range(32)))
        remote.put_file('large', str(path))
    finally:
        server.shutdown()
        server.server_close()
    assert seen == {'now': 0, 'most': 2, 'bytes': 64 * MIB}


@pytest.mark.parametrize('size', [32 * MIB, 80_000 * MIB, 80_001 * MIB, 5_000_000 * MIB])
def test_an_object_of_any_size_has_as_many_parts_as_stores_take(size):
    part = store._in_parts(size)['chunk_size']
    assert -(-size // part) <= 10_000 and part >= 8 * MIB


def provided_by(error):
    """A store whose credentials are asked for from what raises this."""

    def provider():
        raise error

    retries = {'max_retries': 0, 'retry_timeout': datetime.timedelta(seconds=1)}
    objects = obstore.store.from_url(URL, region='us-east-1', credential_provider=provider, retry_config=retries)
    return store.Store(objects, URL)


@pytest.mark.parametrize(
    'error',
    [
        exceptions.EndpointConnectionError(endpoint_url='https://sts.amazonaws.com/?Action=AssumeRole&Token=secret'),
        exceptions.ConnectTimeoutError(endpoint_url='https://sts.amazonaws.com/'),
        exceptions.ReadTimeoutError(endpoint_url='https://sts.amazonaws.com/'),
        exceptions.MetadataRetrievalError(error_msg='Received error'),
        exceptions.CredentialRetrievalError(provider='container-role', error_msg='no answer'),
        exceptions.ClientError({'Error': {'Code': 'Throttling', 'Message': 'Rate exceeded'}}, 'AssumeRole'),
    ],
    ids=lambda error: type(error).__name__,
)
def test_credentials_that_cannot_be_renewed_now_are_no_refusal(error):
    remote = provided_by(error)
    for ask in (remote.list, lambda: remote.write('name', b'', None)):
        with pytest.raises(store.StoreUnavailable, match=f'{URL} cannot .*{type(error).__name__}') as caught:
            with connection.usage_errors(URL, '--model_dir'):  # a start may work later
                ask()
        assert 'secret' not in str(caught.value)


@pytest.mark.parametrize(
    'error',
    [
        exceptions.NoCredentialsError(),
        exceptions.ClientError({'Error': {'Code': 'AccessDenied', 'Message': 'not you'}}, 'AssumeRole'),
        exceptions.CredentialRetrievalError(provider='custom-process', error_msg='no such file'),
    ],
    ids=lambda error: type(error).__name__,
)
def test_credentials_that_nobody_gives_out_are_a_refusal(error):
    with pytest.raises(store.StoreRefused, match=type(error).__name__):
        provided_by(error).list()


@pytest.mark.parametrize('name', ['config.json', 'metadata.json'])
def test_a_url_that_speaks_of_metadata_says_nothing_of_credentials(name):
    url = 's3://ml-metadata/credentials/169.254'
    with pytest.raises(store.StoreUnavailable), connection.usage_errors(url, '--model_dir'):
        with store_errors.translated(f'{url} cannot be read ({name})', ()):
            raise obstore.exceptions.GenericError('status code: 503 Service Unavailable')
    with pytest.raises(UsageError, match='no credentials are found'), connection.usage_errors(url, '--model_dir'):
        with store_errors.translated(f'{url} cannot be read ({name})', ()):
            raise obstore.exceptions.GenericError('Error performing token request: computeMetadata does not answer')
