"""Answers `GET /metrics` in one thread. No client can block it, or slow the training down.

A connection has REQUEST_SECS for its request and its answer. If there are more than MOST_CONNECTIONS, the oldest is
closed. Answers within FRESH_SECS are the same text, so that many requests cost little.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable

from estimator_trainer.monitoring import port
from estimator_trainer.monitoring.run_state import RunState
from estimator_trainer.this_process import forks

REQUEST_SECS = 5.0
MOST_CONNECTIONS = 32
FRESH_SECS = 0.5
_MOST_HEAD_BYTES = 16 << 10  # of a request
END_SECS = 1.0  # that the end of a run waits for the thread

_log = logging.getLogger('estimator_trainer')


def of_run(listener: socket.socket, read: Callable[[], RunState], say: Callable[[str], None]) -> 'Server':
    """Serves the metrics of a run, and says where.

    Args:
        listener: of `port.listen`.
        read: () -> what is known of the run; called at a scrape.
    """
    from estimator_trainer.monitoring import collector  # only a run with --metrics_port needs its package

    collector.text(lambda: RunState('', 0.0))  # it imports what it needs now, and not while TensorFlow is imported
    say(f'metrics: {port.url(listener)}')
    return Server(listener, lambda: collector.text(read), collector.CONTENT_TYPE)


class Server:
    """A context in which a thread serves.

    Args:
        listener: a socket that listens. The thread closes it.
        text: () -> the metrics. Called in the thread, when a client asks.
        content_type: of the text.
    """

    def __init__(self, listener: socket.socket, text: Callable[[], bytes], content_type: str):
        self._listener, self._make, self._content_type = listener, text, content_type
        self._made_at, self._text = float('-inf'), b''
        self._open: dict[asyncio.Task, None] = {}  # the connections, oldest first
        self._loop = asyncio.SelectorEventLoop()  # whatever policy the job chooses
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name='metrics', daemon=True)

    def __enter__(self) -> 'Server':
        try:
            self._thread.start()
        except RuntimeError as error:  # too many processes of this user: the run goes on without metrics
            _log.warning('WARNING: no metrics are served: %s', error)
        return self

    def __exit__(self, *exc_info: object) -> None:
        with contextlib.suppress(RuntimeError):  # its loop is closed
            self._loop.call_soon_threadsafe(self._over.set)
        if self._thread.ident is not None:
            self._thread.join(END_SECS)
        forks.forget(self._listener.close)

    def _run(self) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they belong to the main thread
        with self._listener, contextlib.closing(self._loop):
            self._loop.run_until_complete(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._connected, sock=self._listener, limit=_MOST_HEAD_BYTES)
        await self._over.wait()
        server.close()
        connections = asyncio.all_tasks() - {asyncio.current_task()}
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None  # asyncio runs each connection as a task
        self._open[task] = None
        if len(self._open) > MOST_CONNECTIONS:
            oldest = next(iter(self._open))
            del self._open[oldest]
            oldest.cancel()
        try:
            await asyncio.wait_for(self._exchange(reader, writer), REQUEST_SECS)
        except (asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, OSError):
            pass  # the client's affair
        except asyncio.CancelledError:
            pass  # asyncio would log it
        finally:
            self._open.pop(task, None)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b'\r\n\r\n')
        status, content_type, body = self._answer(head)
        writer.transport.set_write_buffer_limits(0)  # `drain` waits until the system has taken everything
        writer.write(
            f'HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n'
            'Connection: close\r\n\r\n'.encode()
            + body
        )
        await writer.drain()
        writer.write_eof()
        await reader.read(1)  # the client closes: if we closed first, it could lose what it has not read yet

    def _answer(self, head: bytes) -> tuple[str, str, bytes]:
        """(status, content type, body)"""
        method, _, rest = head.partition(b' ')
        path = rest.split(b' ', 1)[0].split(b'?', 1)[0]
        plain = 'text/plain; charset=utf-8'
        if method != b'GET':
            return '405 Method Not Allowed', plain, b'GET is the only method here\n'
        if path != b'/metrics':
            return '404 Not Found', plain, b'the metrics are at /metrics\n'
        try:
            return '200 OK', self._content_type, self._fresh()
        except Exception as error:  # a scrape that fails must not end the thread
            _log.debug('metrics', exc_info=True)
            return '500 Internal Server Error', plain, f'{type(error).__name__}: {error}\n'.encode()

    def _fresh(self) -> bytes:
        if time.monotonic() - self._made_at >= FRESH_SECS:
            self._text = self._make()
            self._made_at = time.monotonic()
        return self._text
