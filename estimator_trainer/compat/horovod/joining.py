"""How the ranks find each other: over TCP at their addresses, and then in shared memory if one machine has them all."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import struct
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from estimator_trainer.compat.horovod import socket_mesh
from estimator_trainer.this_process import shared_memory

if TYPE_CHECKING:
    from estimator_trainer.compat.horovod import ranks

_HELLO = struct.Struct('<8sqq')  # who we are, rank, size
_NAME = b'et-ranks'
_AGAIN_SECS = 0.1
_HELLO_SECS = 10  # for somebody who has connected to say hello


def join(place: ranks.Place, timeout_secs: float) -> socket_mesh.SocketMesh | shared_memory.SharedMemory:
    """Connects all ranks; each calls this. Bounded.

    Args:
        place: ranks.Place of more than one rank.
        timeout_secs: how long the ranks wait for the last one.

    Returns:
        shared_memory.SharedMemory, or SocketMesh where the ranks cannot share memory.

    Raises:
        OSError: a rank did not come in time, or this one's port is taken.
    """
    until = time.monotonic() + timeout_secs
    mesh = socket_mesh.SocketMesh(place.rank, _peers(place, until))
    memory = _in_memory(place, mesh, max(1.0, until - time.monotonic()))
    if memory is None:
        return mesh
    mesh.leave()
    return memory


def _peers(place: ranks.Place, until: float) -> dict:
    """{rank: socket}: connects to lower ranks, and waits for higher ones."""
    peers: dict[int, socket.socket] = {}
    try:
        with _listen(place.addresses[place.rank], place.size) as listener:
            for other in range(place.rank):
                peers[other] = _connect(place, other, until)
            while missing := [rank for rank in range(place.rank + 1, place.size) if rank not in peers]:
                listener.settimeout(max(0.001, until - time.monotonic()))
                try:
                    accepted, _ = listener.accept()
                except TimeoutError:
                    where = ', '.join(f'{rank} ({place.addresses[rank]})' for rank in missing)
                    raise TimeoutError(f'rank {place.rank} waited in vain for rank {where}') from None
                rank = _greeted(accepted, place, hears_first=True)
                if rank in missing:
                    peers[rank] = accepted
                else:
                    accepted.close()
            return peers
    except BaseException:
        for peer in peers.values():
            peer.close()
        raise


def _listen(address: str, size: int) -> socket.socket:
    host, _, port = address.rpartition(':')
    family = socket.AF_INET6 if ':' in host else socket.AF_INET
    local = host if host in ('127.0.0.1', 'localhost', '[::1]') else ''
    try:
        return socket.create_server((local.strip('[]'), int(port)), family=family, backlog=size)
    except OSError as error:
        raise OSError(error.errno, f'{error.strerror}: port {port} of this rank ({address})') from None


def _connect(place: ranks.Place, other: int, until: float) -> socket.socket:
    host, _, port = place.addresses[other].rpartition(':')
    while True:
        try:
            peer = socket.create_connection((host.strip('[]'), int(port)), timeout=_HELLO_SECS)
            if _greeted(peer, place, hears_first=False) == other:
                return peer
            peer.close()
        except OSError as error:
            if time.monotonic() > until:
                where = place.addresses[other]
                raise TimeoutError(f'rank {place.rank} waited in vain for rank {other} ({where}): {error}') from None
        if time.monotonic() > until:
            raise TimeoutError(f'rank {place.rank} found another program at {place.addresses[other]}, rank {other}')
        time.sleep(_AGAIN_SECS)


def _greeted(peer: socket.socket, place: ranks.Place, hears_first: bool) -> int | None:
    """The rank that is there; None where it is nobody of this gang, or has given up.

    Who has connected speaks first, and again at the end, so that the other knows that it is still there.
    """
    said, hello = bytearray(_HELLO.size), _HELLO.pack(_NAME, place.rank, place.size)
    peer.settimeout(_HELLO_SECS)
    try:
        for hears in (True, False, True) if hears_first else (False, True, False):
            if not hears:
                peer.sendall(hello)
            elif not socket_mesh.fill(peer, said):
                return None
    except OSError:
        return None
    name, rank, size = _HELLO.unpack(said)
    return rank if (name, size) == (_NAME, place.size) else None


def _in_memory(
    place: ranks.Place, mesh: socket_mesh.SocketMesh, timeout_secs: float
) -> shared_memory.SharedMemory | None:
    """SharedMemory of all ranks; None if one of them cannot share it."""
    keys = itertools.count()
    where = shared_memory.place()
    try:
        listener = shared_memory.Listener() if where else None
    except OSError:  # this system allows no such socket
        where, listener = None, None
    offers = _all_tell(mesh, next(keys), (where, listener and listener.address))
    if listener is None or len({place for place, _ in offers}) > 1:
        return None
    memory = None
    with contextlib.suppress(OSError):  # two containers may look like one place, and may be kept apart all the same
        memory = listener.connect(place.rank, [address for _, address in offers], timeout_secs)
    return memory if all(_all_tell(mesh, next(keys), memory is not None)) else None


def _all_tell(mesh: socket_mesh.SocketMesh, key: int, what: Any) -> list:
    """What each rank tells here, which JSON can hold."""
    message = np.frombuffer(json.dumps(what).encode(), np.uint8)
    return [json.loads(part.tobytes()) for part in mesh.parts(key, message)]
