"""A task without TensorFlow (echo_task.py), as its parent sees it."""

import contextlib
import json
import os
import pathlib
import queue
import subprocess
import sys
import sysconfig
import threading
import time

import tf_config

TASK = pathlib.Path(__file__).with_name('echo_task.py')
SECS = 180
PACKAGES = sysconfig.get_path('purelib')  # for an interpreter that does not look there
ENVIRON = {**os.environ, 'PYTHONPATH': os.pathsep.join((str(TASK.parents[2]), PACKAGES))}


class EchoTask:
    """A task that runs until the context ends. `first`: what it says first."""

    def __init__(self, name, cluster, key_file, attempt='', user=None, python=sys.executable):
        self.address = cluster.address(tf_config.Task(*_split(name)))
        command = [python, str(TASK), name, tf_config.render(cluster, tf_config.Task(*_split(name)))]
        command += [str(key_file), attempt, str(os.geteuid() if user is None else user), str(os.getpid())]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENVIRON
        )
        self.errors, self.lines, self._said = [], [], queue.Queue()
        self.reader = threading.Thread(target=lambda: self.errors.extend(self.process.stderr), daemon=True)
        self.reader.start()
        threading.Thread(target=self._read, daemon=True).start()

    def start(self):
        self.first = self._line('problem')
        return self

    def __enter__(self):
        return self

    def __exit__(self, *exc_info):
        self.process.kill()
        self.process.wait(SECS)
        self.process.stdin.close()

    def _read(self):
        with self.process.stdout as lines:
            for line in lines:
                self._said.put(json.loads(line))
        self._said.put(None)

    def _line(self, key):
        """The next line with this key. Others may come with it: a thread of the task says who has called."""
        while True:
            said = self._said.get(timeout=SECS)
            assert said is not None, self.errors
            if key in said:
                return said
            self.lines.append(said)

    def order(self, key, **order):
        self.process.stdin.write(json.dumps(order) + '\n')
        self.process.stdin.flush()
        return self._line(key)[key]

    def call(self, name, text='hello'):
        return self.order('answer', call=name, text=text)

    def calls_until(self, expected, name, text='hello'):
        """Calls until the answer is the expected one: a companion may have to learn the attempt first."""
        deadline = time.monotonic() + SECS
        while (answer := self.call(name, text)) != expected:
            assert time.monotonic() < deadline, (answer, self.errors)
            time.sleep(0.1)

    def children(self):
        return [int(path.name) for path in pathlib.Path('/proc').glob('[0-9]*') if _parent_of(path) == self.process.pid]


def _split(name):
    role, _, index = name.partition(':')
    return role, int(index)


def _parent_of(path):
    with contextlib.suppress(OSError):
        return int((path / 'stat').read_text().rpartition(')')[2].split()[1])
