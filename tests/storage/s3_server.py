"""moto's S3 in a process of its own, with the conditions that it does not know, and with faults.

    python -m tests.storage.s3_server FOLDER

It prints its port. FOLDER/faults.json, {"fault": status} or {}, is read at each request; the requests that have changed
something are written to FOLDER/changes: a line of JSON, then the body. (Not those in
parts.)
"""

import contextlib
import io
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import threading
import time

from estimator_trainer.this_process.parent_process import tie_to_parent

MESSAGES = {  # of AWS and of MinIO
    'AccessDenied': 'Access Denied',
    'QuotaExceeded': 'The quota of the bucket is used up',
    'RequestTimeTooSkewed': 'The difference between the request time and the current time is too large.',
}
REPOSITORY = pathlib.Path(__file__).parents[2]
BUCKET = 'bucket'
CREDENTIALS = {
    'AWS_ACCESS_KEY_ID': 'a-name-of-a-key',
    'AWS_SECRET_ACCESS_KEY': 'a-secret-of-a-key',
    'AWS_REGION': 'us-east-1',
    'AWS_EC2_METADATA_DISABLED': 'true',
}


@contextlib.contextmanager
def serving(folder):
    """The environment in which a client reaches the server. It ends with the context, or with this process."""
    with printing_its_port('tests.storage.s3_server', folder) as port:
        yield {'AWS_ENDPOINT_URL': f'http://127.0.0.1:{port}', **CREDENTIALS}


@contextlib.contextmanager
def printing_its_port(module, folder):
    """The port of a server in a process of its own, a module that is given the folder."""
    parent = os.getpid()
    process = subprocess.Popen(
        [sys.executable, '-m', module, str(folder)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=(folder / 'server.err').open('wb'),
        text=True,
        preexec_fn=lambda: tie_to_parent(parent),
    )
    try:
        port = process.stdout.readline().strip()
        assert port, (folder / 'server.err').read_text()
        yield port
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def set_fault(folder, **fault) -> None:
    """Nothing: no fault.

    status=503      answers so
    code='AccessDenied'  with that error of S3
    every=3         only each third request has the fault
    silent=True     closes the connection without an answer
    bytes_per_sec   takes and gives bodies no faster: all requests together, as on one line
    """
    temporary = folder / 'faults.tmp'
    temporary.write_text(json.dumps(fault))
    temporary.replace(folder / 'faults.json')


def send_signal(folder, signum) -> None:
    """To the server."""
    os.kill(int((folder / 'pid').read_text()), signum)


def changes(folder) -> list:
    """(name, body) of each change, oldest first; the body is None where the object was deleted."""
    found = []
    with (folder / 'changes').open('rb') as file:
        for line in file:
            head = json.loads(line)
            found.append((head['name'], None if head['size'] is None else file.read(head['size'])))
    return found


class _Line:
    """What all requests share."""

    _AT_ONCE = 16 << 10

    def __init__(self):
        self._lock, self._free_at = threading.Lock(), 0.0

    def read(self, file, size, bytes_per_sec):
        """A body that a client sends."""
        return b''.join(file.read(piece) for piece in self._pieces(size, bytes_per_sec))

    def written(self, answer, bytes_per_sec):
        """The pieces of a body, each when it may be given to the client."""
        body, start = b''.join(answer), 0
        for piece in self._pieces(len(body), bytes_per_sec):
            yield body[start : start + piece]
            start += piece

    def _pieces(self, size, bytes_per_sec):
        for start in range(0, size, self._AT_ONCE):
            piece = min(self._AT_ONCE, size - start)
            with self._lock:
                self._free_at = max(self._free_at, time.monotonic()) + piece / bytes_per_sec
                until = self._free_at
            time.sleep(max(0, until - time.monotonic()))
            yield piece


class _Conditions:
    """Refuses a write whose If-Match names another version. One change at a time."""

    def __init__(self, app, folder):
        self._app, self._folder = app, folder
        self._lock, self._requests, self._line = threading.Lock(), 0, _Line()
        self._changes = (folder / 'changes').open('ab', buffering=0)

    def __call__(self, environ, start_response):
        faults = self._faults()
        self._requests += 1
        if self._requests % faults.get('every', 1) == 0:
            if faults.get('silent'):
                environ['werkzeug.socket'].shutdown(socket.SHUT_RDWR)
                raise ConnectionAbortedError
            if faults.get('status'):
                return self._refuse(start_response, faults['status'], faults.get('code'))
        rate = faults.get('bytes_per_sec')
        if not rate:
            return self._answer(environ, start_response)
        body = self._line.read(environ['wsgi.input'], int(environ.get('CONTENT_LENGTH') or 0), rate)
        return self._line.written(self._answer({**environ, 'wsgi.input': io.BytesIO(body)}, start_response), rate)

    def _answer(self, environ, start_response):
        if environ['REQUEST_METHOD'] not in ('PUT', 'POST', 'DELETE'):
            return self._app(environ, start_response)
        with self._lock:
            return self._change(environ, start_response)

    def _refuse(self, start_response, status, code):
        body = f'<Error><Code>{code}</Code><Message>{MESSAGES.get(code, "")}</Message></Error>' if code else 'fault'
        kind = 'application/xml' if code else 'text/plain'
        start_response(f'{status} Fault', [('Content-Type', kind), ('Content-Length', str(len(body)))])
        return [body.encode()]

    def _change(self, environ, start_response):
        wanted = environ.get('HTTP_IF_MATCH')
        if wanted and wanted != self._e_tag(environ):
            start_response('412 Precondition Failed', [('Content-Type', 'application/xml'), ('Content-Length', '58')])
            return [b'<Error><Code>PreconditionFailed</Code><Message/></Error>  ']
        body = environ['wsgi.input'].read(int(environ.get('CONTENT_LENGTH') or 0))
        environ['wsgi.input'] = io.BytesIO(body)
        statuses = []

        def start(status, headers, *rest):
            statuses.append(status)
            return start_response(status, headers, *rest)

        answer = list(self._app(environ, start))
        if statuses[0].startswith('2'):
            if environ.get('QUERY_STRING') == 'delete':
                for path in re.findall(rb'<Key>run/(.*?)</Key>', body):
                    self._note({'name': path.decode(), 'size': None}, b'')
            elif environ['REQUEST_METHOD'] == 'PUT' and not environ.get('QUERY_STRING'):
                name = environ['PATH_INFO'].removeprefix(f'/{BUCKET}/run/')
                self._note({'name': name, 'size': len(body)}, body)
        return answer

    def _note(self, head, body):
        self._changes.write(json.dumps(head).encode() + b'\n' + body)

    def _e_tag(self, environ):
        found = {}

        def start(status, headers, *rest):
            found.update({name.lower(): value for name, value in headers}, status=status)

        asked = {**environ, 'REQUEST_METHOD': 'HEAD', 'wsgi.input': io.BytesIO(), 'CONTENT_LENGTH': '0'}
        list(self._app(asked, start))
        return found.get('etag') if found['status'].startswith('2') else None

    def _faults(self):
        try:
            return json.loads((self._folder / 'faults.json').read_text())
        except FileNotFoundError:
            return {}


def main(folder):
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    app = DomainDispatcherApplication(create_backend_app)
    server = make_server('127.0.0.1', 0, _Conditions(app, folder), threaded=True)
    (folder / 'pid').write_text(str(os.getpid()))
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == '__main__':
    main(pathlib.Path(sys.argv[1]))
