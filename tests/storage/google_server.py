"""Google's storage as TensorFlow's client speaks it, in memory, in a process and a network of its own.

TensorFlow asks www.googleapis.com by TLS and takes no other address. So the server has namespaces, where that name is
this machine: a client is started with `Google.within`. It knows the objects of the JSON API, and uploads in parts.

    python -m tests.storage.google_server FOLDER

FOLDER/faults.json, such as {"status": 503, "method": "PUT"}, is read at each request.
"""

import contextlib
import dataclasses
import datetime
import http.server
import json
import os
import pathlib
import re
import shutil
import ssl
import subprocess
import sys
import threading
import time
import urllib.parse
from multiprocessing import connection

from estimator_trainer.this_process.parent_process import tie_to_parent
from tests.storage import certificates

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


class Objects:
    """(bucket, name) -> (content, generation). Every method is one step."""

    def __init__(self):
        self._found, self._lock, self._last = {}, threading.Lock(), 0

    def get(self, key):
        with self._lock:
            return self._found.get(key)

    def put(self, key, content, query) -> bool:
        """Whether it was written: not if a condition of the query is not met."""
        with self._lock:
            wanted, now = query.get('ifGenerationMatch'), self._found.get(key, (b'', 0))[1]
            if wanted is not None and int(wanted) != now:
                return False
            self._last = max(self._last + 1, time.time_ns() // 1000)
            self._found[key] = content, self._last
            return True

    def delete(self, key) -> bool:
        with self._lock:
            return self._found.pop(key, None) is not None

    def names(self, bucket, prefix) -> list:
        with self._lock:
            return sorted(name for where, name in self._found if where == bucket and name.startswith(prefix))


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection. `objects`, `uploads` and `folder` belong to the class that `main` makes of it."""

    protocol_version = 'HTTP/1.1'  # and so `Expect: 100-continue` is answered
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def handle_expect_100(self):
        goes_on = super().handle_expect_100()
        self.wfile.flush()
        return goes_on

    def log_message(self, *args):
        pass

    def handle_request(self):
        url, body = urllib.parse.urlsplit(self.path), self._body()
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

    def _body(self) -> bytes:
        if 'chunked' not in self.headers.get('Transfer-Encoding', ''):
            return self.rfile.read(int(self.headers.get('Content-Length') or 0))
        body = bytearray()
        while size := int(self.rfile.readline().split(b';')[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return bytes(body)

    def _reply(self, status, body=b'', **headers):
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {'Content_Type': 'application/json', **headers, 'Content_Length': len(content)}.items():
            self.send_header(name.replace('_', '-'), str(value))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(content)

    def _bucket(self, query, body, bucket):
        self._reply(200, {'kind': 'storage#bucket', 'name': bucket, 'location': 'US'})

    def _layout(self, query, body, bucket):
        self._reply(200, {'bucket': bucket, 'hierarchicalNamespace': {'enabled': False}})

    def _list(self, query, body, bucket):
        """A page of what begins with `prefix`; what is alike up to the next `delimiter` is one entry."""
        prefix, delimiter, after = query.get('prefix', ''), query.get('delimiter'), query.get('pageToken', '')
        entries = {}
        for name in self.objects.names(bucket, prefix):
            rest = name[len(prefix) :]
            folder = delimiter and delimiter in rest
            entry = prefix + rest.partition(delimiter)[0] + delimiter if folder else name
            if entry > after and name >= query.get('startOffset', ''):
                entries[entry] = 'prefixes' if folder else 'items'
        most = int(query.get('maxResults', 1000))
        page = dict(list(entries.items())[:most])
        answer = {'kind': 'storage#objects'}
        for entry, kind in page.items():
            meta = self._meta((bucket, entry)) if kind == 'items' else entry
            if meta:
                answer.setdefault(kind, []).append(meta)
        if len(page) < len(entries):
            answer['nextPageToken'] = list(page)[-1]
        self._reply(200, answer)

    def _meta(self, key):
        found = self.objects.get(key)
        if not found:
            return None
        content, generation = found
        when = datetime.datetime.fromtimestamp(generation / 1e6, datetime.UTC).strftime('%Y-%m-%dT%H:%M:%S.%fZ')
        return {
            'kind': 'storage#object',
            'bucket': key[0],
            'name': key[1],
            'size': str(len(content)),
            'generation': str(generation),
            'updated': when,
        }

    def _object(self, query, body, bucket, name):
        key = bucket, name
        if self.command == 'DELETE':
            return self._reply(204 if self.objects.delete(key) else 404)
        if query.get('alt') == 'media':
            return self._content(query, body, bucket, name)
        meta = self._meta(key)
        return self._reply(200, meta) if meta else self._reply(404)

    def _content(self, query, body, bucket, name):
        found = self.objects.get((bucket, name))
        if not found:
            return self._reply(404)
        content, generation = found
        asked = re.fullmatch(r'bytes=(\d+)-(\d*)', self.headers.get('Range', ''))
        if not asked:
            return self._reply(200, content, X_Goog_Generation=generation)
        first, end = int(asked[1]), min(int(asked[2] or len(content)) + 1, len(content))
        if first >= len(content):
            return self._reply(416)
        where = f'bytes {first}-{end - 1}/{len(content)}'
        return self._reply(206, content[first:end], Content_Range=where, X_Goog_Generation=generation)

    def _rewrite(self, query, body, bucket, name, to_bucket, to_name):
        found = self.objects.get((bucket, name))
        if not found:
            return self._reply(404)
        self.objects.put((to_bucket, to_name), found[0], query)
        size = str(len(found[0]))
        done = {'kind': 'storage#rewriteResponse', 'done': True, 'objectSize': size, 'totalBytesRewritten': size}
        return self._reply(200, {**done, 'resource': self._meta((to_bucket, to_name))})

    def _upload(self, query, body, bucket):
        """A whole object, or the parts of an upload that can be resumed."""
        if query.get('uploadType') == 'resumable':
            name = query.get('name') or json.loads(body)['name']
            number = f'{time.time_ns()}'
            self.uploads[number] = Upload(bucket, name, query, bytearray())
            where = f'https://{NAMES[0]}/upload/storage/v1/b/{bucket}/o?upload_id={number}'
            return self._reply(200, Location=where)
        if self.command == 'POST':
            return self._put((bucket, query['name']), body, query)
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
        return self._put((upload.bucket, upload.name), bytes(upload.content), upload.query)

    def _put(self, key, content, query):
        written = self.objects.put(key, content, query)
        return self._reply(200, self._meta(key)) if written else self._reply(412)


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
    attributes = {'objects': Objects(), 'uploads': {}, 'folder': folder}
    server = http.server.ThreadingHTTPServer(('127.0.0.1', port), type('Handler', (Handler,), attributes))
    server.daemon_threads = True
    certificates.make(folder, NAMES)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / 'server.pem', folder / 'server.key')
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == '__main__':
    main(pathlib.Path(sys.argv[1]))
