"""The lease of a run in a store: only its holder trains. An evaluator holds a lease of its own.

The lease is an object that its holder renews. A trainer that finds a lease waits. If the object does not change for the
lease's span, by the trainer's own clock, its holder is gone. No two clocks are compared. Each write is conditional on
the version that was read before. So if two trainers want the lease, one gets it. A trainer that was frozen finds out
that it has lost the lease.
"""

import contextlib
import json
import secrets
import socket
import threading
import time
from collections.abc import Callable, Iterator

from estimator_trainer.storage.share import Share
from estimator_trainer.storage.store import Conflict, Store, StoreError, Version

_LONGEST_SPAN_SECS = 600
_LOOKS, _RENEWALS = 30, 4  # within a span
_TRIES = 3


class LeaseTaken(Exception):
    """Another trainer has the lease, and renews it. The text names its machine."""


class LeaseLost(Exception):
    """Another trainer has taken the lease over. The text names its machine."""


def boot_clock() -> float:
    """Seconds that go on while the machine sleeps, where the system tells them."""
    return time.clock_gettime(getattr(time, 'CLOCK_BOOTTIME', time.CLOCK_MONOTONIC))


class NoLease:
    """Stands for the lease of a task that needs none, because nobody else sends what it sends."""

    token = lost = None
    gang = ''
    holder = ''

    def acquire(self, *last_tokens: str, say: object = None, claim: object = None) -> None: ...

    def kept(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def renew(self) -> None: ...

    def check(self) -> None: ...

    def release(self) -> None: ...


class Lease:
    """The lease of one store. Taken by `acquire`; held until `release`, or until another takes it over.

    Args:
        span_secs: another trainer takes the lease over when it was not renewed for so long.
        share: of this process; it says which object is its lease. There is one.
        gang: the generation of the tasks whose training it is, as in training.json.

    Attributes:
        token: names this holding; a scratch folder remembers it.
        gang: `gang`, or the token where the tasks have no generation.
        holder: who has the lease, for messages.
        lost: the machine that has taken the lease over; None while nobody has.
    """

    def __init__(
        self,
        store: Store,
        span_secs: float,
        share: Share,
        gang: str = '',
        clock: Callable[[], float] = boot_clock,
        sleep: Callable[[float], object] = time.sleep,
    ):
        self._store, self._clock, self._sleep = store, clock, sleep
        self.span_secs = min(
            span_secs, _LONGEST_SPAN_SECS
        )  # nobody waits for longer: the holder must not trust it then
        assert share.lease is not None
        self._name, self.holder = share.lease, share.holder
        self.token = secrets.token_hex(16)
        self.gang = gang or self.token
        self._generation, self._beat = 0, 0
        self._version: Version | None = None
        self._renewed = float('-inf')
        self._lock = threading.Lock()  # a thread renews the lease, and others ask for it
        self._may_be_held, self._released = False, False
        self.lost: str | None = None

    def acquire(
        self,
        *last_tokens: str | None,
        say: Callable[[str, float], None] = lambda owner, secs: None,
        claim: Callable[[str, str | None], None] = lambda token, before: None,
    ) -> str | None:
        """Takes the lease, if need be after a span.

        Args:
            last_tokens: of holdings before this one on this machine, which have ended.
            say: told (owner, seconds) before it waits for the lease of another trainer.
            claim: told (token, the one before it) before the lease is written: the answer may not come.

        Returns:
            The token of the holding before this one; None if nobody has ever trained here.

        Raises:
            LeaseTaken: the other one lives.
        """
        while True:
            found = self._store.read(self._name)
            entry, version = (_parse(found[0]), found[1]) if found else ({}, None)
            before = entry.get('token')
            if entry and not entry.get('released') and (before is None or before not in last_tokens):
                self.wait(entry, version, say)
            self._generation = int(entry.get('generation') or 0) + 1
            claim(self.token, before)
            self._may_be_held = True
            try:
                self._write(version)
                return before
            except Conflict:
                continue  # another one was faster: it is the one to wait for now

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """A context in which a thread renews the lease."""
        over = threading.Event()

        def renew() -> None:
            while not over.wait(self.span_secs / _RENEWALS):
                with contextlib.suppress(LeaseLost, StoreError):  # `lost` says so; a store that is away may come back
                    self.renew()

        threading.Thread(target=renew, name='lease', daemon=True).start()
        try:
            yield
        finally:
            over.set()

    def wait(self, entry: dict, version: Version | None, say: Callable[[str, float], None]) -> None:
        """Waits until the owner of the lease gives it back or shows no sign. Raises LeaseTaken if it shows one."""
        span = min(float(entry.get('span_secs') or self.span_secs), _LONGEST_SPAN_SECS)
        say(entry.get('owner', 'another machine'), span)
        until = self._clock() + span
        while self._clock() < until:
            self._sleep(span / _LOOKS)
            found = self._store.read(self._name)
            if found is None or _parse(found[0]).get('released'):
                return
            if found[1] != version:
                raise LeaseTaken(_parse(found[0]).get('owner', 'another machine'))

    def renew(self) -> None:
        """Raises LeaseLost; StoreError: it could not be renewed now."""
        with self._lock:
            if self.lost is None and not self._released:
                self._rewrite()
        if self.lost is not None:
            raise LeaseLost(self.lost)

    def release(self) -> None:
        """Lets the next trainer begin at once. Nothing renews the lease after it. Raises StoreError.

        It may come while `acquire` is at work, or has failed: the store may have the lease all the same.
        """
        with self._lock:
            self._released = True
            if self._may_be_held and self.lost is None:
                self._rewrite()

    def check(self) -> None:
        """Renews the lease if another trainer may have taken it meanwhile. Raises as `renew`."""
        if self.lost is not None:
            raise LeaseLost(self.lost)
        if self._clock() >= self._renewed + self.span_secs:
            self.renew()

    def _rewrite(self) -> None:
        for _ in range(_TRIES):
            try:
                return self._write(self._version)
            except Conflict:
                found = self._store.read(self._name)
            if found is None or _parse(found[0]).get('token') != self.token:
                self.lost = _parse(found[0]).get('owner', 'another machine') if found else 'another machine'
                return
            self._version = found[1]  # an earlier write of ours, whose answer did not come

    def _write(self, version: Version | None) -> None:
        self._beat += 1
        began = self._clock()
        entry = {
            'token': self.token,
            'owner': socket.gethostname(),
            'generation': self._generation,
            'gang': self.gang,
            'span_secs': self.span_secs,
            'beat': self._beat,
            'expires': time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + self.span_secs)),  # for people
            'released': self._released,
        }
        self._version = self._store.write(self._name, json.dumps(entry, indent=1).encode(), version)
        self._renewed = began


def is_held(content: bytes, age_secs: float) -> bool:
    """Whether a trainer has the lease, by its object's content and age. `Lease` asks in a stricter way, which takes a
    span: this is for those who look only.
    """
    entry = _parse(content)
    return not entry.get('released') and age_secs < float(entry.get('span_secs') or _LONGEST_SPAN_SECS)


def _parse(content: bytes) -> dict:
    try:
        entry = json.loads(content)
    except ValueError:
        return {'owner': 'a machine whose lease cannot be read'}
    return entry if isinstance(entry, dict) else {'owner': 'a machine whose lease cannot be read'}
