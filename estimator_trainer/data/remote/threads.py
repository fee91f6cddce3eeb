"""The threads in which this process reads from stores. At its end the process waits for them for a bounded time."""

import atexit
import concurrent.futures
import contextlib
import os
import queue
import threading
import time

from estimator_trainer.data.remote import patience
from estimator_trainer.errors import DatasetUnavailable

COUNT = 8  # a request of a MiB waits for the network most of its time
_END_SECS = 10

_ending = threading.Event()
_tasks: queue.SimpleQueue = queue.SimpleQueue()
_threads: list[threading.Thread] = []
_lock = threading.Lock()


def _begin_anew() -> None:
    """A forked process has none of the threads, and nobody would give back a lock that one of them held."""
    global _tasks, _lock
    _threads.clear()
    _tasks, _lock = queue.SimpleQueue(), threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)


def submit(function, *arguments) -> concurrent.futures.Future:
    """Calls the function in one of the threads, which must not wait for another task."""
    with _lock:
        if not _threads:  # not before anything is read: a fork has no threads
            atexit.register(_end)
        if len(_threads) < COUNT:
            _threads.append(threading.Thread(target=_work, name='data of a store', daemon=True))
            _threads[-1].start()
    future: concurrent.futures.Future = concurrent.futures.Future()
    _tasks.put((future, function, arguments))
    return future


def raise_if_ending() -> None:
    """Raises DatasetUnavailable where this process ends: a task of many requests asks between two of them."""
    if _ending.is_set():
        raise DatasetUnavailable('this process ends')


def _work():
    while (task := _tasks.get()) is not None:
        future, function, arguments = task
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)
        del future, function, arguments, task  # what they refer to is not kept until the next task


def _end():
    """Ends the threads: one that comes back to a Python that is gone would end the process with an error."""
    patience.give_up()
    _ending.set()
    with contextlib.suppress(queue.Empty):
        while True:
            _tasks.get_nowait()
    for _ in _threads:
        _tasks.put(None)
    deadline = time.monotonic() + _END_SECS
    for thread in _threads:
        thread.join(max(0, deadline - time.monotonic()))
