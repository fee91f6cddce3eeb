"""A door on a port of this machine, in a thread, and clients that call it."""

import contextlib
import queue
import socket
import threading

from estimator_trainer.secure import channel, door, refusals, run_key

ATTEMPT = run_key.name_of_attempt('this')


class ServedDoor:
    """Serves as long as it is entered. It says '+' to whoever it admits, and gives them back what they send.

    Attributes:
        admitted: identities.
        lines: what was said of others.
    """

    def __init__(self, credentials):
        self.context = channel.server_context(credentials)
        self.admitted: queue.Queue = queue.Queue()
        self.lines: list = []
        self._ends = False

    def __enter__(self):
        self._listener = socket.create_server(('127.0.0.1', 0), backlog=1024)
        self._listener.setblocking(False)
        self.address = self._listener.getsockname()
        self.door = door.Door(self._listener, lambda: self.context, self._admit, door.Notices(self.lines.append))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()
        return self

    def __exit__(self, *exc_info):
        self._ends = True
        self._thread.join()
        self._listener.close()

    def _serve(self):
        while not self._ends:
            self.door.look(0.05)

    def _admit(self, connection, address):
        def echo():
            with connection, contextlib.suppress(OSError):
                connection.setblocking(True)
                self.admitted.put(channel.identity_of(connection))
                connection.sendall(channel.Verdict.WELCOME.value)
                while data := connection.recv(1 << 16):
                    connection.sendall(data)

        threading.Thread(target=echo, daemon=True).start()


def call(address, credentials, task='worker:0', attempt=ATTEMPT):
    """Raises channel.Refused."""

    def check(identity):
        if identity.attempt != attempt:
            raise channel.Refused(refusals.Refusal.OTHER_ATTEMPT)

    raw = socket.create_connection(address, 60)
    return channel.call(raw, channel.client_context(credentials), task, check, 60)
