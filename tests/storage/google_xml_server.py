"""Google Cloud Storage's XML API, as obstore speaks it, in memory and with TLS.

    python -m tests.storage.google_xml_server FOLDER

FOLDER holds the certificate that `certificates.make` has written. It prints its port. Like Google's own server

- it names the version of an object by its generation, which a list does not tell to obstore,
- it gives an object that was written in parts an ETag that is no checksum, and another one in the answer to the upload.
"""

import hashlib
import http.server
import itertools
import pathlib
import re
import ssl
import sys
import threading
import time
import urllib.parse
from email.utils import formatdate
from typing import NamedTuple
from xml.sax.saxutils import escape

CONDITION, GENERATION = 'x-goog-if-generation-match', 'x-goog-generation'


class Content(NamedTuple):
    data: bytes
    generation: int
    e_tag: str


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    disable_nagle_algorithm = True
    objects: dict[str, Content] = {}
    uploads: dict[str, dict[int, bytes]] = {}
    lock, numbers = threading.Lock(), itertools.count(time.time_ns() // 1000)

    def do_GET(self):
        key, query = self._request()
        if 'list-type' in query:
            return self._list(key, query)
        found = self.objects.get(key)
        if found is None:
            return self._reply(404, b'<Error><Code>NoSuchKey</Code><Message>It is not there.</Message></Error>')
        asked = re.fullmatch(r'bytes=(\d+)-(\d*)', self.headers.get('Range', ''))
        if not asked:
            return self._reply(200, found.data, found)
        first, end = int(asked[1]), min(int(asked[2] or len(found.data)) + 1, len(found.data))
        self._reply(206, found.data[first:end], found, {'Content-Range': f'bytes {first}-{end - 1}/{len(found.data)}'})

    do_HEAD = do_GET

    def do_PUT(self):
        key, query = self._request()
        body = self.rfile.read(int(self.headers.get('Content-Length') or 0))
        if 'uploadId' in query:
            self.uploads[query['uploadId']][int(query['partNumber'])] = body
            return self._reply(200, b'', None, {'ETag': _md5(body)})
        if '/' not in key:  # a bucket: all are there
            return self._reply(200)
        with self.lock:
            wanted = self.headers.get(CONDITION)
            if wanted is not None and int(wanted) != (self.objects[key].generation if key in self.objects else 0):
                return self._reply(412, b'<Error><Code>PreconditionFailed</Code><Message>no</Message></Error>')
            content = self.objects[key] = Content(body, next(self.numbers), _md5(body))
        self._reply(200, b'', content)

    def do_POST(self):
        key, query = self._request()
        self.rfile.read(int(self.headers.get('Content-Length') or 0))
        if 'uploads' in query:
            upload = str(next(self.numbers))
            self.uploads[upload] = {}
            return self._reply(
                200, f'<InitiateMultipartUploadResult><UploadId>{upload}</UploadId></InitiateMultipartUploadResult>'
            )
        parts = self.uploads.pop(query['uploadId'])
        data = b''.join(parts[number] for number in sorted(parts))
        with self.lock:
            generation = next(self.numbers)
            self.objects[key] = Content(data, generation, f'"-{generation}="')
        tag = f'<ETag>"{len(parts)}-parts"</ETag>'
        self._reply(200, f'<CompleteMultipartUploadResult>{tag}</CompleteMultipartUploadResult>')

    def do_DELETE(self):
        key, query = self._request()
        if 'uploadId' in query:
            self.uploads.pop(query['uploadId'], None)
            return self._reply(204)
        with self.lock:
            found = self.objects.pop(key, None)
        self._reply(204 if found else 404)

    def _request(self):
        """'bucket/name', and the query."""
        url = urllib.parse.urlsplit(self.path)
        return urllib.parse.unquote(url.path).strip('/'), dict(urllib.parse.parse_qsl(url.query, True))

    def _list(self, bucket, query):
        prefix = f'{bucket}/{query.get("prefix", "")}'
        with self.lock:
            found = sorted((key, content) for key, content in self.objects.items() if key.startswith(prefix))
        entries = ''.join(
            f'<Contents><Key>{escape(key.removeprefix(f"{bucket}/"))}</Key><Generation>{content.generation}</Generation>'
            f'<LastModified>{time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime())}</LastModified>'
            f'<ETag>{escape(content.e_tag)}</ETag><Size>{len(content.data)}</Size></Contents>'
            for key, content in found
        )
        self._reply(200, f'<ListBucketResult><IsTruncated>false</IsTruncated>{entries}</ListBucketResult>')

    def _reply(self, status, body=b'', content=None, headers=None):
        body = body if isinstance(body, bytes) else body.encode()
        self.send_response(status)
        self.send_header('Content-Length', str(len(body)))
        self.send_header('Last-Modified', formatdate(usegmt=True))
        if content:
            self.send_header('ETag', content.e_tag)
            self.send_header(GENERATION, str(content.generation))
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)

    def log_message(self, *args):
        pass


def _md5(data):
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def main(folder):
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / 'server.pem', folder / 'server.key')
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == '__main__':
    main(pathlib.Path(sys.argv[1]))
