"""Helper processes as jobs start them. A module of its own: the helpers import it, and are no tasks.

Imports no TensorFlow.
"""

import concurrent.futures
import multiprocessing
import os
import subprocess
import sys
import threading
import time

METHODS = ('fork', 'forkserver', 'spawn')
KINDS = (*METHODS, 'executor', 'subprocess', 'sleeper', 'thread', 'child')
BOUND_SECS = 60  # for one answer of a helper


def double(number):
    return 2 * number


class Helpers:
    """Helpers of some kinds, made when they are first asked. None of them is ever ended.

    Args:
        kinds: of KINDS. 'sleeper': processes that nobody asks and that never end by themselves; 'thread': a
            thread that forks; 'child': a fork by hand, whose child leaves by an exception.
    """

    def __init__(self, kinds):
        self._kinds, self._made = kinds, {}

    def double(self, number: int) -> int:
        """Twice the number, says every kind."""
        for kind in self._kinds:
            if kind not in self._made:
                self._made[kind] = self._make(kind)
            answer = self._made[kind](number)
            assert answer == 2 * number, (kind, answer)
        return 2 * number

    def _make(self, kind):
        if kind in METHODS:
            pool = multiprocessing.get_context(kind).Pool(2)
            return lambda number: pool.apply_async(double, (number,)).get(BOUND_SECS)
        if kind == 'executor':
            executor = concurrent.futures.ProcessPoolExecutor(2)
            return lambda number: executor.submit(double, number).result(BOUND_SECS)
        if kind == 'subprocess':
            program = subprocess.Popen(
                [sys.executable, '-c', 'for line in iter(input, ""): print(2 * int(line), flush=True)'],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            return lambda number: _ask(program, number)
        if kind == 'sleeper':
            multiprocessing.get_context('fork').Process(target=time.sleep, args=(3600,)).start()
            sleeper = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'])
            doomed = subprocess.Popen(['sleep', '3600'])
            doomed.terminate()  # does nothing where it has SIGTERM blocked
            assert doomed.wait(BOUND_SECS) == -15
            return lambda number: 2 * number if sleeper.poll() is None else None
        if kind == 'thread':
            return _in_a_thread
        return _in_a_child


def _ask(program, number):
    program.stdin.write(f'{number}\n')
    program.stdin.flush()
    return int(program.stdout.readline())


def _in_a_thread(number):
    answers = []
    thread = threading.Thread(target=lambda: answers.append(_in_a_child(number, lambda: os._exit(0))))
    thread.start()
    thread.join(BOUND_SECS)
    return answers[0]


def _fail():
    raise RuntimeError('a child leaves where its parent was called')


def _in_a_child(number, leave=_fail):
    """Only the first numbers: to fork TensorFlow's process is slow."""
    if number > 3:
        return 2 * number
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        os.write(writer, str(2 * number).encode())
        os.close(writer)
        leave()
    os.close(writer)
    with open(reader) as answer:
        text = answer.read()
    os.waitpid(child, 0)
    return int(text)
