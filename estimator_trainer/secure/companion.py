"""The process that stands between a task and the other machines.

It stays in the machine's network. On the one side it has the port that the cluster gives the task. On the other it has
sockets of the task's network, which that has made (entering.py): a listener for each other task, and one socket for
each connection to TensorFlow's server.

Its stdin is a Unix socket to the task. It ends with the task: when that socket is closed, or when the kernel says that
its parent has ended. It then closes the port at once, and has DRAIN_SECS to send what the task has still said. The task
ends when it sees that the companion has ended.
"""

import contextlib
import json
import logging
import os
import queue
import resource
import selectors
import signal
import socket
import ssl
import sys
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from typing import Any

from estimator_trainer import exit_codes
from estimator_trainer.secure import channel, door, pump, run_key
from estimator_trainer.secure.channel import Refused, Verdict
from estimator_trainer.secure.membership import Membership, Settings
from estimator_trainer.secure.refusals import WORDS, Refusal
from estimator_trainer.this_process import log, parent_process

_log = logging.getLogger('estimator_trainer')
CONNECT_SECS = 10  # to another companion, and again for the handshake
INSIDE_SECS = 2  # to TensorFlow's server, and for a socket: within the time of a probe
MOST_CONNECTIONS = 4096  # from other tasks
MESSAGE_BYTES = 1 << 16  # of the task
DRAIN_SECS = 2
_LINES, _AGAIN_SECS, _LATER_SECS = 100, 1, 5
_IGNORED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2)  # the task decides
_DRAIN_LOOK_SECS = 0.01


class Inside:
    """What is in the task's network.

    Args:
        listeners: by the name of the task for which each stands.
        maker: sends a new socket for each byte that it gets.
        port: of TensorFlow's server; None: the task has none.
    """

    def __init__(self, listeners: Mapping[str, socket.socket], maker: socket.socket, port: int | None):
        self.listeners, self._maker, self._port = listeners, maker, port
        self._lock = threading.Lock()
        maker.settimeout(INSIDE_SECS)

    def connect(self) -> socket.socket:
        """A connection to TensorFlow's server. Raises OSError."""
        with self._lock:
            self._maker.send(b'?')
            _, descriptors, _, _ = socket.recv_fds(self._maker, 1, 1)
        if not descriptors or self._port is None:
            raise ConnectionRefusedError
        connection = socket.socket(fileno=descriptors[0])
        try:
            connection.settimeout(INSIDE_SECS)
            connection.connect(('127.0.0.1', self._port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError:
            connection.close()
            raise
        return connection


class Companion:
    """Connects the task with the others. Its methods run in threads of their own."""

    def __init__(self, settings: Settings, membership: Membership, inside: Inside, notices: door.Notices):
        self._settings, self._membership, self._inside, self._notices = settings, membership, inside, notices
        self._free = threading.BoundedSemaphore(MOST_CONNECTIONS)
        self._lock, self._carried, self._routes = threading.Lock(), 0, channel.Routes()

    # Connections of other tasks.

    def admit(self, connection: ssl.SSLSocket, address: str) -> None:
        """Takes a connection whose certificate is of this run."""
        if not self._free.acquire(blocking=False):
            self._notices.refused(address, f'over {MOST_CONNECTIONS} connections')
            connection.close()
            return
        try:
            start('admitted', self._welcome, connection, address)
        except RuntimeError:
            self._free.release()
            self._notices.refused(address, 'this machine has no threads left')
            connection.close()

    def _welcome(self, connection: ssl.SSLSocket, address: str) -> None:
        try:
            with connection, contextlib.suppress(OSError):
                connection.settimeout(INSIDE_SECS)
                identity = channel.identity_of(connection)
                if not self._membership.attempt or not identity.attempt:  # one of the two has to ask the chief first
                    connection.sendall(Verdict.NOBODY_LISTENS.value)
                    return
                if identity.attempt != self._membership.attempt:
                    self._notices.refused(address, f'the key of another attempt ({identity.task})')
                    connection.sendall(Verdict.OTHER_ATTEMPT.value)
                    return
                try:
                    server = self._inside.connect()
                except OSError:
                    connection.sendall(Verdict.NOBODY_LISTENS.value)
                    return
                with server:
                    self._membership.settle()
                    connection.sendall(Verdict.WELCOME.value)
                    self._carry(connection, server)
        finally:
            self._free.release()

    # Connections of this task to others.

    def listen_inside(self) -> None:
        """Never returns."""
        selector = selectors.DefaultSelector()
        for name, listener in self._inside.listeners.items():
            listener.setblocking(False)
            selector.register(listener, selectors.EVENT_READ, name)
        while True:
            for key, _ in selector.select():
                try:
                    connection, _ = key.fileobj.accept()  # type: ignore[union-attr]
                except (BlockingIOError, ConnectionError):  # it has gone already
                    continue
                except OSError:  # no descriptors
                    time.sleep(_AGAIN_SECS)
                    continue
                try:
                    start('called', self._call, key.data, connection)
                except RuntimeError:
                    connection.close()  # TensorFlow calls again
                    time.sleep(_AGAIN_SECS)

    def _call(self, name: str, client: socket.socket) -> None:
        with client, contextlib.suppress(OSError):
            try:
                connection = self.connect(name)
            except Refused as refused:
                if refused.refusal not in (Refusal.NOBODY_LISTENS, Refusal.SILENT):
                    self._notices.refused(f'{name} at {self._settings.addresses[name]}', WORDS[refused.refusal])
                pump.say_and_close(client, refused.refusal.frame())
                return
            with connection:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._carry(client, connection)

    def connect(self, name: str) -> ssl.SSLSocket:
        """A connection to the companion of another task. Raises Refused."""
        connection = self._connect(name)
        self._membership.settle()
        return connection

    def _connect(self, name: str) -> ssl.SSLSocket:
        with self._routes.to(self._settings.addresses[name], CONNECT_SECS) as raw:
            return channel.call(raw, self._membership.client, name, self._membership.check, CONNECT_SECS)

    def learn_attempt(self) -> None:
        """Asks the chief for its attempt until that stays: other tasks may call this one first."""
        while not self._membership.is_settled:
            with contextlib.suppress(Refused):
                self._connect(self._settings.chief).close()
            time.sleep(_LATER_SECS if self._membership.attempt else _AGAIN_SECS)

    # The end.

    def drain(self, secs: float = DRAIN_SECS) -> None:
        """Waits until all connections have ended, because TensorFlow's side of them has; at most `secs`."""
        until = time.monotonic() + secs
        while self._carried and time.monotonic() < until:
            time.sleep(_DRAIN_LOOK_SECS)

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with self._lock:
            self._carried += 1
        try:
            pump.carry(one, other)
        finally:
            with self._lock:
                self._carried -= 1


def start(name: str, function: Callable[..., object], *args: Any) -> None:
    """Calls a function in a thread. If it fails in a way that nobody has foreseen, the process ends, and the task.
    Raises RuntimeError: this machine has no threads left."""

    def run() -> None:
        try:
            function(*args)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    threading.Thread(target=run, name=name, daemon=True).start()


class _Lines:
    """Log lines of a thread of their own. If nobody reads them, they are dropped: no connection waits for that."""

    def __init__(self) -> None:
        self._queue: queue.Queue[str] = queue.Queue(_LINES)
        start('lines', self._write)

    def __call__(self, line: str) -> None:
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(line)

    def _write(self) -> None:
        while True:
            _log.warning('secure: %s', self._queue.get())


def main() -> None:
    """The companion, from its first message to the end of its task."""
    for signum in _IGNORED:
        signal.signal(signum, signal.SIG_IGN)
    task = socket.socket(fileno=os.dup(0))

    def shut() -> None:
        with contextlib.suppress(OSError):  # it is closed, or not connected any more
            task.shutdown(socket.SHUT_RD)

    parent_process.call_at_parents_end(shut)  # a process that the task has forked may hold the other end of the socket
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the task has ended and hears no answer
        _serve(task)


def _serve(task: socket.socket) -> None:
    log.set_up()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    _, descriptors, _, _ = socket.recv_fds(task, 1, 2)
    if not descriptors:  # the task has ended
        return
    of_settings, *of_listener = descriptors
    with open(of_settings, 'rb') as file:
        settings = Settings(**json.load(file))
    task.send(b'{}')
    inside = _inside(task, settings)
    if inside is None or not task.recv(1):  # the task has ended; else it says that there is a key
        return
    try:
        membership = Membership(run_key.read(settings.key_file), settings)
    except (OSError, ValueError, run_key.KeyRefused) as error:
        code = exit_codes.USAGE if isinstance(error, run_key.KeyRefused) else exit_codes.COMPANION_LOST
        task.send(json.dumps({'problem': str(error), 'exit_code': code}).encode())
        return
    notices = door.Notices(_Lines())
    companion = Companion(settings, membership, inside, notices)
    listener = socket.socket(fileno=of_listener[0]) if of_listener else None
    if listener:
        listener.setblocking(False)
        start('door', door.Door(listener, lambda: membership.server, companion.admit, notices).serve)
        start('attempt', companion.learn_attempt)
    start('inside', companion.listen_inside)
    task.send(b'{}')
    with contextlib.suppress(ConnectionResetError):  # it has ended with something unread
        while task.recv(1):
            pass
    if listener:
        listener.shutdown(socket.SHUT_RDWR)  # from now on nobody listens on the port
    companion.drain()


def _inside(task: socket.socket, settings: Settings) -> Inside | None:
    """What the task sends from its network: its listeners, each with its name, and then the maker of sockets."""
    listeners: dict[str, socket.socket] = {}
    while True:
        text, descriptors, _, _ = socket.recv_fds(task, MESSAGE_BYTES, 1)
        if not descriptors:
            return None
        received = socket.socket(fileno=descriptors[0])
        if not (name := json.loads(text)):
            return Inside(listeners, received, settings.ports.get(settings.task))
        listeners[name] = received


if __name__ == '__main__':
    main()
    sys.stderr.flush()
    os._exit(0)  # whatever its threads wait for
