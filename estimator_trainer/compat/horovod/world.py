"""All ranks, as this process knows them after init(): who it is, and how it exchanges arrays. Imports no TensorFlow."""

import atexit
import contextlib
import os
import sys
import threading
import time

from estimator_trainer import exit_codes
from estimator_trainer.compat.horovod import joining, ranks
from estimator_trainer.this_process.shared_memory import TaskLost

__all__ = ['HorovodInternalError', 'HostsUpdatedInterrupt']

_JOIN_SECS = 600  # for the last rank to start; the trainer's --join_timeout_secs
_SAY_SECS = 60  # after which a wait for other ranks is told

_place: ranks.Place | None = None
_transport = None  # None with one rank
_code = 0  # of this process, if the error that we raise ends it
_waits: dict = {}  # {number: (what, since)}


class HorovodInternalError(RuntimeError):
    """Another rank was lost or never came."""


class HostsUpdatedInterrupt(RuntimeError):
    """Never raised: ranks do not change while a program runs."""


def init(*args, **kwargs) -> None:
    """Finds the other ranks and connects to them. A second call changes nothing.

    Raises:
        HorovodInternalError: a rank did not come within ten minutes.
    """
    global _place, _transport
    if _place is not None:
        return
    place = ranks.take(os.environ)
    if place.size > 1:
        try:
            _transport = joining.join(place, _JOIN_SECS)
        except TimeoutError as error:
            _fail(exit_codes.NO_PEER)
            raise HorovodInternalError(str(error)) from None
        threading.Thread(target=_tell_long_waits, daemon=True).start()
        if not place.rank:
            way = 'over TCP' if isinstance(_transport, joining.socket_mesh.SocketMesh) else 'in shared memory'
            print(f'horovod (estimator_trainer): {place.size} ranks exchange arrays {way}', file=sys.stderr, flush=True)
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
def exchange(what: str):
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


def _fail(code) -> None:
    """If this process ends with an exception, it ends with this exit code, which the launcher knows."""
    global _code
    if not _code:
        _code = code
        atexit.register(_end)


def _end() -> None:
    if getattr(sys, 'last_value', None) is not None:  # an exception that nobody caught
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(_code)


def _tell_long_waits() -> None:
    told = set()
    while True:
        time.sleep(_SAY_SECS / 4)
        for number, (what, since) in list(_waits.items()):
            secs = time.monotonic() - since
            if secs > _SAY_SECS and number not in told:
                told.add(number)
                message = f'rank {place().rank} has waited {secs:.0f} s for other ranks in {what}'
                print(f'horovod (estimator_trainer): {message}', file=sys.stderr, flush=True)
