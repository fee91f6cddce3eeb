"""The threads in which this process reads from stores. At its end the process waits for them for a bounded time."""

import atexit
import concurrent.futures
import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from estimator_trainer.data.remote import patience
from estimator_trainer.errors import DatasetUnavailable

COUNT = 8  # a request for a MiB waits for the network most of its time
_END_SECS = 10
_T = TypeVar('_T')

# A task: its future, the function, and the arguments.
_Task = tuple['concurrent.futures.Future[Any]', Callable[..., Any], tuple[Any, ...]]

_ending = threading.Event()
_tasks: 'queue.SimpleQueue[_Task | None]' = queue.SimpleQueue()
_threads: list[threading.Thread] = []
_lock = threading.Lock()


def _begin_anew() -> None:
    """Makes new state in a forked process. It has none of the threads, so a lock that one held would stay locked."""
    global _tasks, _lock
    _threads.clear()
    _tasks, _lock = queue.SimpleQueue(), threading.Lock()


os.register_at_fork(after_in_child=_begin_anew)


def submit(function: Callable[..., _T], *arguments: Any) -> 'concurrent.futures.Future[_T]':
    """Calls the function in one of the threads. The function must not wait for another task."""
    with _lock:
        if not _threads:  # threads are started at the first read, because a fork has none
            atexit.register(_end)
        if len(_threads) < COUNT:
            _threads.append(threading.Thread(target=_work, name='data of a store', daemon=True))
            _threads[-1].start()
    future: concurrent.futures.Future[_T] = concurrent.futures.Future()
    _tasks.put((future, function, arguments))
    return future


def raise_if_ending() -> None:
    """Raises DatasetUnavailable if this process is ending. A task with many requests calls this between two of them."""
    if _ending.is_set():
        raise DatasetUnavailable('this process ends')


def _work() -> None:
    while (task := _tasks.get()) is not None:
        future, function, arguments = task
        try:
            future.set_result(function(*arguments))
        except BaseException as error:
            future.set_exception(error)
        del future, function, arguments, task  # else their objects would be kept until the next task


def _end() -> None:
    """Ends the threads. A thread that goes on after Python has shut down would end the process with an error."""
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
