"""Google's storage as TensorFlow's client speaks it, in memory, in a process and a network of its own.

TensorFlow asks www.googleapis.com by TLS and takes no other address. So the server has namespaces, where that name is
this machine: a client is started with `Google.within`. It knows the objects of the JSON API, and uploads in parts.

    python -m tests.storage.google_server FOLDER

FOLDER/faults.json, such as {"status": 503, "method": "PUT"}, is read at each request.
"""

import contextlib
import dataclasses
import datetime
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import urllib.parse
from multiprocessing import connection

from estimator_trainer.this_process.parent_process import tie_to_parent
from tests.storage import certificates, google_objects

REPOSITORY = pathlib.Path(__file__).parents[2]
NAMES = ('www.googleapis.com', 'storage.googleapis.com')
_START_SECS = 20
_TOOLS = ('ip', 'mount', 'nsenter', 'unshare')
_PREPARE = 'ip link set lo up && mount --bind "$0" /etc/hosts && exec "$@"'


def problem() -> str | None:
    """Why there can be none here."""
    missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
    if missing:
        return f'a Google of our own: needs {", ".join(missing)} (iproute2, util-linux)'
    tried = subprocess.run(
        ['unshare', '--net', '--mount', 'sh', '-c', _PREPARE, '/etc/hosts', 'true'],
        capture_output=True,
        text=True,
        timeout=_START_SECS,
    )
    return f'a Google of our own: needs namespaces: {tried.stderr.strip()}' if tried.returncode else None


@dataclasses.dataclass(frozen=True)
class Google:
    """The server while it runs.

    Attributes:
        environment: in which a client trusts it, and has credentials.
        pid: of the server.
    """

    environment: dict
    pid: int

    def within(self, *command) -> list:
        """What runs a command where the names are those of the server. It works in the repository."""
        return ['nsenter', '-t', str(self.pid), '-n', '-m', f'--wd={REPOSITORY}', '--', *command]


@contextlib.contextmanager
def serving(folder):
    """A Google, which ends with the context or with this process."""
    parent = os.getpid()
    hosts = folder / 'hosts'
    hosts.write_text(f'127.0.0.1 localhost {" ".join(NAMES)}\n')
    process = subprocess.Popen(
        ['unshare', '--net', '--mount', 'sh', '-c', _PREPARE, hosts, sys.executable, '-m', __spec__.name, folder],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=(folder / 'server.err').open('wb'),
        text=True,
        preexec_fn=lambda: tie_to_parent(parent),
    )
    try:
        ready = connection.wait([process.stdout], _START_SECS)
        assert ready and process.stdout.readline().strip(), (folder / 'server.err').read_text()
        environment = {
            'CURL_CA_BUNDLE': str(folder / 'authority.pem'),
            'GOOGLE_AUTH_TOKEN_FOR_TESTING': 'a-token',
            'NO_GCE_CHECK': 'true',
        }
        yield Google(environment, process.pid)
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@dataclasses.dataclass
class Upload:
    """One that can be resumed: what has arrived so far."""

    bucket: str
    name: str
    query: dict
    content: bytearray


class Handler(google_objects.Handler):
    """One connection."""

    def handle_request(self):
        url, body = urllib.parse.urlsplit(self.path), self.body()
        query = dict(urllib.parse.parse_qsl(url.query, keep_blank_values=True))
        fault = self._fault()
        if fault:
            return self._reply(fault)
        for pattern, answer in _ROUTES:
            found = re.fullmatch(pattern, url.path)
            if found:
                return answer(self, query, body, *map(_unquoted, found.groups()))
        return self._reply(404)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = handle_request

    def _fault(self) -> int | None:
        try:
            fault = json.loads((self.folder / 'faults.json').read_text())
        except FileNotFoundError:
            return None
        return fault.get('status') if self.command == fault.get('method', self.command) else None

    def _reply(self, status, body=b'', **headers):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace('_', '-'): value for name, value in headers.items()}
        self.reply(status, content, {'Content-Type': 'application/json', **named})

    def _bucket(self, query, body, bucket):
        self._reply(200, {'kind': 'storage#bucket', 'name': bucket, 'location': 'US'})

    def _layout(self, query, body, bucket):
        self._reply(200, {'bucket': bucket, 'hierarchicalNamespace': {'enabled': False}})

    def _list(self, query, body, bucket):
        """A page of what begins with `prefix`; what is alike up to the next `delimiter` is one entry."""
        prefix, delimiter, after = query.get('prefix', ''), query.get('delimiter'), query.get('pageToken', '')
        entries = {}
        for key, _ in self.objects.below(f'{bucket}/{prefix}'):
            name = key.removeprefix(f'{bucket}/')
            rest = name[len(prefix) :]
            folder = delimiter and delimiter in rest
            entry = prefix + rest.partition(delimiter)[0] + delimiter if folder else name
            if entry > after and name >= query.get('startOffset', ''):
                entries[entry] = 'prefixes' if folder else 'items'
        most = int(query.get('maxResults', 1000))
        page = dict(list(entries.items())[:most])
        answer = {'kind': 'storage#objects'}
        for entry, kind in page.items():
            meta = self._meta(bucket, entry) if kind == 'items' else entry
            if meta:
                answer.setdefault(kind, []).append(meta)
        if len(page) < len(entries):
            answer['nextPageToken'] = list(page)[-1]
        self._reply(200, answer)

    def _meta(self, bucket, name):
        found = self.objects.get(f'{bucket}/{name}')
        if not found:
            return None
        when = datetime.datetime.fromtimestamp(found.generation / 1e6, datetime.UTC).strftime('%Y-%m-%dT%H:%M:%S.%fZ')
        return {
            'kind': 'storage#object',
            'bucket': bucket,
            'name': name,
            'size': str(len(found.data)),
            'generation': str(found.generation),
            'updated': when,
        }

    def _object(self, query, body, bucket, name):
        if self.command == 'DELETE':
            return self._reply(204 if self.objects.delete(f'{bucket}/{name}') else 404)
        if query.get('alt') == 'media':
            return self._content(query, body, bucket, name)
        meta = self._meta(bucket, name)
        return self._reply(200, meta) if meta else self._reply(404)

    def _content(self, query, body, bucket, name):
        found = self.objects.get(f'{bucket}/{name}')
        if not found:
            return self._reply(404)
        headers = {'Content-Type': 'application/json', 'X-Goog-Generation': found.generation}
        return self.reply_content(found, headers)

    def _rewrite(self, query, body, bucket, name, to_bucket, to_name):
        found = self.objects.get(f'{bucket}/{name}')
        if not found:
            return self._reply(404)
        self.objects.put(f'{to_bucket}/{to_name}', found.data, query.get('ifGenerationMatch'))
        size = str(len(found.data))
        done = {'kind': 'storage#rewriteResponse', 'done': True, 'objectSize': size, 'totalBytesRewritten': size}
        return self._reply(200, {**done, 'resource': self._meta(to_bucket, to_name)})

    def _upload(self, query, body, bucket):
        """A whole object, or the parts of an upload that can be resumed."""
        if query.get('uploadType') == 'resumable':
            name = query.get('name') or json.loads(body)['name']
            number = f'{time.time_ns()}'
            self.uploads[number] = Upload(bucket, name, query, bytearray())
            where = f'https://{NAMES[0]}/upload/storage/v1/b/{bucket}/o?upload_id={number}'
            return self._reply(200, Location=where)
        if self.command == 'POST':
            return self._put(bucket, query['name'], body, query)
        upload = self.uploads.get(query['upload_id'])
        if not upload:
            return self._reply(404)
        sent = re.fullmatch(r'bytes (?:\*|(\d+)-\d+)/(\d+|\*)', self.headers.get('Content-Range', ''))
        if sent is None or sent[1] and int(sent[1]) == len(upload.content):
            upload.content += body
        if sent and (sent[2] == '*' or len(upload.content) < int(sent[2])):
            arrived = {'Range': f'bytes=0-{len(upload.content) - 1}'} if upload.content else {}
            return self._reply(308, **arrived)
        del self.uploads[query['upload_id']]
        return self._put(upload.bucket, upload.name, bytes(upload.content), upload.query)

    def _put(self, bucket, name, content, query):
        written = self.objects.put(f'{bucket}/{name}', content, query.get('ifGenerationMatch'))
        return self._reply(200, self._meta(bucket, name)) if written else self._reply(412)


_OBJECT = r'/(?:download/)?storage/v1/b/([^/]+)/o/([^/]+)'
_ROUTES = (
    (r'/storage/v1/b/([^/]+)', Handler._bucket),
    (r'/storage/v1/b/([^/]+)/storageLayout', Handler._layout),
    (r'/storage/v1/b/([^/]+)/o', Handler._list),
    (_OBJECT, Handler._object),
    (_OBJECT + r'/rewriteTo/b/([^/]+)/o/([^/]+)', Handler._rewrite),
    (r'/upload/storage/v1/b/([^/]+)/o', Handler._upload),
    (r'/([^/]+)/(.+)', Handler._content),
)


def _unquoted(part):
    return urllib.parse.unquote(part)


def main(folder, port=443):
    certificates.make(folder, NAMES)
    google_objects.serve(Handler, folder, port)


if __name__ == '__main__':
    main(pathlib.Path(sys.argv[1]))
