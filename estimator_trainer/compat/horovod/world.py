"""All ranks, as this process knows them after init(): who it is, and how it exchanges arrays. Imports no TensorFlow."""

from __future__ import annotations

import atexit
import contextlib
import math
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

from estimator_trainer import exit_codes
from estimator_trainer.compat.horovod import joining, ranks
from estimator_trainer.this_process.shared_memory import TaskLost

__all__ = ['HorovodInternalError', 'HostsUpdatedInterrupt']

_JOIN_SECS = 600  # for the last rank to start; the trainer's --join_timeout_secs
_SAY_SECS = 60  # after which a wait for other ranks is told
_BOUND = 'HOROVOD_STALL_SHUTDOWN_TIME_SECONDS'  # Horovod's; 0: without end
_BOUND_SECS = 3600  # without it. A rank may evaluate for long while the others wait.

_place: ranks.Place | None = None
_transport = None  # None with one rank
_code = 0  # of this process, if the error that we raise ends it
_waits: dict = {}  # {number: (what, since)}


class HorovodInternalError(RuntimeError):
    """Another rank was lost or never came."""


class HostsUpdatedInterrupt(RuntimeError):
    """Never raised: ranks do not change while a program runs."""


def init(*args: Any, **kwargs: Any) -> None:
    """Finds the other ranks and connects to them. A second call changes nothing.

    Raises:
        HorovodInternalError: a rank did not come within ten minutes.
        ValueError: a variable of the environment that says for how long ranks wait is no number of seconds.
    """
    global _place, _transport
    if _place is not None:
        return
    place, bound = ranks.take(os.environ), _bound(os.environ.get(_BOUND, ''))
    if place.size > 1:
        try:
            _transport = joining.join(place, _JOIN_SECS)
        except TimeoutError as error:
            _fail(exit_codes.NO_PEER)
            raise HorovodInternalError(str(error)) from None
        threading.Thread(target=_watch_waits, args=(bound,), daemon=True).start()
        if not place.rank:
            way = 'over TCP' if isinstance(_transport, joining.socket_mesh.SocketMesh) else 'in shared memory'
            _say(f'{place.size} ranks exchange arrays {way}')
    _place = place


def shutdown() -> None:
    """Leaves the others. `init` cannot connect again."""
    if isinstance(_transport, joining.socket_mesh.SocketMesh):
        _transport.leave()


def is_initialized() -> bool:
    """Whether init() has been called."""
    return _place is not None


def place() -> ranks.Place:
    """This process among all ranks.

    Raises:
        ValueError: init() has not been called.
    """
    if _place is None:
        raise ValueError('Horovod has not been initialized; use hvd.init().')
    return _place


@contextlib.contextmanager
def exchange(what: str) -> Iterator[Any]:
    """Within it this process waits for others: yields the transport.

    Args:
        what: the operation, for messages.

    Raises:
        HorovodInternalError: a rank was lost.
    """
    number = object()
    _waits[number] = what, time.monotonic()
    try:
        yield _transport
    except TaskLost as error:
        _fail(exit_codes.LOST_PEER)
        lost = f'rank {error.rank} ({place().addresses[error.rank]})'
        raise HorovodInternalError(f'{what}: {lost} has ended before it took part') from error
    finally:
        del _waits[number]


def _fail(code: int) -> None:
    """If this process ends with an exception, it ends with this exit code, which the launcher knows."""
    global _code
    _code = _code or code


def _end() -> None:
    """Ends this process with the code of a rank that has lost another one. It waits for no child process.

    Touches: multiprocessing.util._run_finalizers
    Without it: the workers of a multiprocessing.Pool stay behind a rank that has lost another one
    For: programs that import Horovod
    """
    if not _code or getattr(sys, 'last_value', None) is None:  # an exception that nobody caught
        return
    if 'multiprocessing.util' in sys.modules:  # which may have come before this file, and end its workers after this
        sys.modules['multiprocessing.util']._run_finalizers(0)
        for child in multiprocessing.active_children():
            if child.daemon:
                child.terminate()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(_code)


atexit.register(_end)  # what the program registers comes later, and is called before


def _bound(text: str) -> float:
    """Seconds. Raises ValueError: the text is no number of them."""
    try:
        secs = float(text or _BOUND_SECS)
    except ValueError:
        secs = -1.0
    if not 0 <= secs < math.inf:
        raise ValueError(f'{_BOUND}={text}: give a number of seconds, or 0 for no bound.')
    return secs or math.inf


def _watch_waits(bound: float) -> None:
    """Tells of long waits, and ends this process after one of `bound` seconds: another rank is stopped, or blocked."""
    reported = set()
    while True:
        time.sleep(min(_SAY_SECS, bound) / 4)
        for number, (what, since) in list(_waits.items()):
            secs = time.monotonic() - since
            if secs > bound:
                _say(f'{_waited(secs, what)} and ends; {_BOUND} sets how long it may wait (default {_BOUND_SECS})')
                os._exit(exit_codes.STALLED)
            if secs > _SAY_SECS and number not in reported:
                reported.add(number)
                _say(_waited(secs, what))


def _waited(secs: float, what: str) -> str:
    return f'rank {place().rank} has waited {secs:.0f} s for other ranks in {what}'


def _say(message: str) -> None:
    print(f'horovod (estimator_trainer): {message}', file=sys.stderr, flush=True)
