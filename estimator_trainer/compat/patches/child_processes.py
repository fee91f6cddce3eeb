"""Keeps Ctrl-C from helpers that `multiprocessing` starts by exec, and stops the start of processes while a task ends.

Touches: multiprocessing.util.spawnv_passfds, subprocess.Popen._execute_child and multiprocessing.process.BaseProcess
Without it: Ctrl-C also ends the helpers that feed a task before it has saved; and a thread that starts a process while
  its task ends leaves that process behind
For: the trainer
"""

from __future__ import annotations

import functools
import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import pool as pools
from multiprocessing import util
from typing import Any

_log = logging.getLogger('estimator_trainer')
_Pool: Any = pools.Pool  # its private parts have no types
_Iterator: Any = pools.IMapIterator


def start_none() -> None:
    """Lets a thread that starts a process wait: this one ends. `forks.no_more` is the same for forks."""
    popen: Any = subprocess.Popen
    popen._execute_child = _wait  # these call exec, and so come by no hook
    if 'multiprocessing.process' in sys.modules:
        sys.modules['multiprocessing.process'].BaseProcess.start = _wait


def _wait(*args: Any, **kwargs: Any) -> None:
    """For the end of this process, which is near. An exception would only be noise."""
    threading.Event().wait()


def keep_ctrl_c_away() -> None:
    """Blocks SIGINT in helpers that `multiprocessing` starts by exec (spawn, forkserver): a terminal sends Ctrl-C to
    all processes of a group, and it is meant for this one. A second call changes nothing."""
    functions: Any = util
    start = functions.spawnv_passfds
    if getattr(start, 'blocks', False):
        return

    def blocking(*args: Any) -> Any:
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])  # a mask survives exec, a handler does not
        try:
            return start(*args)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)

    functions.spawnv_passfds = blocking
    functions.spawnv_passfds.blocks = True


_SIGNAL_SECS = 2  # a worker may die before this process sees its own signal
_MAYBE_STOPPED = {-signal.SIGTERM, -signal.SIGHUP, 255}  # 255: the forkserver that knew the code has ended too

_DOUBT_SECS = 30  # as long as this, where the machine is so busy that this process hardly runs
_JOIN_SECS = 5

_must_stop = threading.Event()  # this process was told to stop
# (results, error, when) of pools whose worker died like that before this process was told.
_doubtful: list[tuple[Any, BrokenProcessPool, float]] = []
_of_thread = threading.local()  # in the thread that looks after a pool's workers: the results that callers wait for


def break_pools() -> None:
    """Lets a pool that loses a worker raise an exception in all code that waits for its results."""
    _must_stop.set()
    for results, error, _ in _recent(_doubtful):
        _break(results, error)
    _doubtful.clear()


def _recent(doubtful: list[tuple[Any, BrokenProcessPool, float]]) -> list:
    return [entry for entry in doubtful if time.monotonic() - entry[-1] < _DOUBT_SECS]


def let_pools_fail() -> None:
    """Makes a multiprocessing.Pool fail, instead of hang, when its workers are told to stop together with the task.

    Touches: private parts of multiprocessing.pool.Pool
    Without it: a task that is told to stop waits for ever for the result of a worker that was told so as well
    For: the trainer

    An engine sends SIGTERM to every process of a task. The trainer finishes its step and saves, but a worker of a Pool
    dies at once, and it may hold the lock of the pool's queue. Pool starts another worker, but the result of the dead
    one never comes, and the step that waits for it never ends. Here the waiting code gets the exception that a
    ProcessPoolExecutor would raise, and the task can save. A second call changes nothing.
    """
    if hasattr(_Pool._check_running, '__wrapped__'):
        return
    handle, terminate = _Pool._handle_workers.__func__, _Pool._terminate_pool.__func__
    join_exited = _Pool._join_exited_workers

    @functools.wraps(handle)
    def handle_workers(cls: Any, results: Any, *args: Any, **kwargs: Any) -> Any:
        _of_thread.results = results
        return handle(cls, results, *args, **kwargs)

    @functools.wraps(terminate)
    def terminate_pool(
        cls: Any,
        taskqueue: Any,
        inqueue: Any,
        outqueue: Any,
        workers: list[Any],
        change_notifier: Any,
        *handlers_and_results: Any,
    ) -> Any:
        *handlers, results = handlers_and_results  # of workers, tasks and results: threads
        if not _error_of(results):
            return terminate(cls, taskqueue, inqueue, outqueue, workers, change_notifier, *handlers_and_results)
        for handler in handlers:  # the last two are not joined: they may wait for a lock that the dead worker holds
            handler._state = pools.TERMINATE
        change_notifier.put(None)
        if threading.current_thread() is not handlers[0]:
            handlers[0].join(_JOIN_SECS)  # it may be starting a worker
        for worker in list(workers):
            worker.terminate()

    @functools.wraps(join_exited)
    def join_exited_workers(workers: list[Any]) -> Any:
        before = list(workers)
        any_left = join_exited(workers)
        lost = [worker for worker in before if worker not in workers and worker.exitcode]
        return any_left and not (lost and _breaks(lost))  # True: others are started in their places

    _Pool._handle_workers = classmethod(handle_workers)
    _Pool._terminate_pool = classmethod(terminate_pool)
    _Pool._join_exited_workers = staticmethod(join_exited_workers)
    _Pool._check_running = _unless(_refuse_broken, _Pool._check_running)
    _Pool.join = _unless(lambda pool: _error_of(pool._cache), _Pool.join)


def _unless(first: Callable[[Any], Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """`function`, called only if `first` returns nothing true for the same argument."""

    @functools.wraps(function)
    def maybe(argument: Any) -> Any:
        return None if first(argument) else function(argument)

    return maybe


def _error_of(results: Any) -> BrokenProcessPool | None:
    return getattr(results, 'broken', None)


def _refuse_broken(pool: Any) -> None:
    if _error_of(pool._cache):
        raise pool._cache.broken


def _breaks(lost: Sequence[Any]) -> bool:
    """Breaks a pool if these workers of it ended because the task was told to stop. Returns whether it did.

    The pool calls this in the thread that looks after its workers and would start new ones.
    """
    what = 'a worker of a multiprocessing.Pool has ended: ' + ', '.join(
        f'process {worker.pid}, exit code {worker.exitcode}' for worker in lost
    )
    error = BrokenProcessPool(f'{what}, as this task is told to stop')
    if any(worker.exitcode in _MAYBE_STOPPED for worker in lost):
        _doubtful[:] = [*_recent(_doubtful), (_of_thread.results, error, time.monotonic())]
        _must_stop.wait(_SIGNAL_SECS)
    if not _must_stop.is_set():
        _log.warning(
            'WARNING: %s. Its result never comes: a step that waits for it does not end before --step_timeout_secs',
            what,
        )
        return False
    thread: Any = threading.current_thread()
    thread._state = pools.TERMINATE
    _break(_of_thread.results, error)
    return True


def _break(results: Any, error: BrokenProcessPool) -> None:
    results.broken = error
    for number, result in list(results.items()):
        if isinstance(result, _Iterator):
            result._set(result._index, (False, error))  # the caller waits for the result of this index
            continue
        results.pop(number, None)
        result._success, result._value = False, error
        if result._error_callback:
            result._error_callback(error)
        result._event.set()
