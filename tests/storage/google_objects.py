"""The objects of a Google of the tests, and what the servers of its two protocols, JSON and XML, have in common."""

import hashlib
import http.server
import re
import ssl
import threading
import time
from typing import NamedTuple


class Content(NamedTuple):
    data: bytes
    generation: int
    e_tag: str


class Objects:
    """'bucket/name' -> Content. Every method is one step."""

    def __init__(self):
        self._found, self._lock, self._last = {}, threading.Lock(), 0

    def get(self, key) -> Content | None:
        with self._lock:
            return self._found.get(key)

    def put(self, key, data, replaces=None, e_tag=None) -> Content | None:
        """What was written; None: nothing, for the object is not of the generation `replaces`, of which 0 is none.

        Args:
            e_tag: generation -> ETag; without it the checksum.
        """
        with self._lock:
            now = self._found[key].generation if key in self._found else 0
            if replaces is not None and int(replaces) != now:
                return None
            self._last = max(self._last + 1, time.time_ns() // 1000)
            self._found[key] = Content(data, self._last, e_tag(self._last) if e_tag else md5(data))
            return self._found[key]

    def delete(self, key) -> bool:
        with self._lock:
            return self._found.pop(key, None) is not None

    def below(self, prefix) -> list:
        """[(key, Content)], sorted."""
        with self._lock:
            return sorted(each for each in self._found.items() if each[0].startswith(prefix))


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection. `objects` and `folder` belong to the class that `serve` makes of it."""

    protocol_version = 'HTTP/1.1'  # and so `Expect: 100-continue` is answered
    disable_nagle_algorithm = True
    wbufsize = 1 << 16

    def handle_expect_100(self):
        goes_on = super().handle_expect_100()
        self.wfile.flush()
        return goes_on

    def log_message(self, *args):
        pass

    def body(self) -> bytes:
        if 'chunked' not in self.headers.get('Transfer-Encoding', ''):
            return self.rfile.read(int(self.headers.get('Content-Length') or 0))
        body = bytearray()
        while size := int(self.rfile.readline().split(b';')[0], 16):
            body += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return bytes(body)

    def reply(self, status, body=b'', headers=()):
        self.send_response(status)
        for name, value in {**dict(headers), 'Content-Length': len(body)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(body)

    def reply_content(self, content, headers):
        """All of it, or the bytes that the client asks for."""
        asked = re.fullmatch(r'bytes=(\d+)-(\d*)', self.headers.get('Range', ''))
        if not asked:
            return self.reply(200, content.data, headers)
        size = len(content.data)
        first, end = int(asked[1]), min(int(asked[2] or size) + 1, size)
        if first >= size:
            return self.reply(416)
        where = {'Content-Range': f'bytes {first}-{end - 1}/{size}'}
        return self.reply(206, content.data[first:end], {**headers, **where})


def md5(data) -> str:
    return f'"{hashlib.md5(data, usedforsecurity=False).hexdigest()}"'


def serve(handler, folder, port=0):
    """Answers until the process is killed, with the certificate in `folder`. Prints the port."""
    made = type('Handler', (handler,), {'objects': Objects(), 'uploads': {}, 'folder': folder})
    server = http.server.ThreadingHTTPServer(('127.0.0.1', port), made)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / 'server.pem', folder / 'server.key')
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    print(server.server_port, flush=True)
    server.serve_forever()
