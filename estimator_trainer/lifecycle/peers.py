"""Knows which of the other tasks are alive, and which are lost.

`probes` asks them, at their TensorFlow port, so that tasks need no second port. This module counts the answers.
"""

import dataclasses
import random
import threading
import time
from collections.abc import Callable, Mapping

from estimator_trainer.lifecycle import probes
from estimator_trainer.lifecycle.probes import Answer

PAUSE_SECS = 5  # a process that looks every second was not running if it has not looked for longer than this
CLOSED_SECS = 4  # that a port must have been closed: a task that ends closes it, a broken link does not
FAILURES = 3  # probes in a row that must have failed; one may fail by accident
RETRY_SECS = 1  # between two probes of a peer that does not answer
MOST_A_SECOND = 100  # probes that one task sends, and that one task receives


@dataclasses.dataclass(frozen=True)
class SilentPeer:
    """A peer that does not answer. `secs`: since its first failed probe, or since the watch began. `refusal`: what the
    last probe was told by whoever answers in its place; '': nothing."""

    name: str
    address: str
    ever_seen: bool
    secs: float
    refusal: str = ''


def every_secs(peers: int, askers: int) -> float:
    """Seconds between two probes of a peer that answers.

    Args:
        peers: how many peers one task asks.
        askers: how many tasks ask one peer.
    """
    return max(1.0, peers / MOST_A_SECOND, askers / MOST_A_SECOND)


@dataclasses.dataclass
class _Peer:
    """What is known about one peer. Times are seconds of the clock that `PeerWatch.look` gets."""

    name: str
    address: str
    next_at: float  # when its next probe is due
    failing_since: float  # its first failure in a row; the begin of the watch if it has never answered
    failures: int = 0  # in a row
    closed_since: float | None = None
    ever_seen: bool = False
    refusal: str = ''

    def greets(self) -> None:
        self.ever_seen, self.failures, self.closed_since, self.refusal = True, 0, None, ''

    def fails(self, asked_at: float, answer: Answer) -> None:
        refuses = answer is Answer.REFUSES or answer.is_refusal
        self.refusal = answer.value if answer.is_refusal else ''
        if self.ever_seen and not self.failures:
            self.failing_since = asked_at
        self.failures += 1
        closed_since = asked_at if self.closed_since is None else self.closed_since
        self.closed_since = closed_since if refuses and self.ever_seen else None

    def begin_anew(self, pause: float) -> None:
        """This process has not run for `pause` seconds, and so the failures before say nothing about the peer."""
        self.failures, self.closed_since = 0, None
        self.failing_since += pause

    def gone(self, now: float) -> SilentPeer:
        silent = now - self.failing_since if self.failures or not self.ever_seen else 0.0
        return SilentPeer(self.name, self.address, self.ever_seen, silent, self.refusal)


class PeerWatch:
    """Counts which peers answer. The caller calls `look` every second.

    A peer is lost when at least FAILURES probes in a row have failed, over at least `lost_secs`. If this process
    itself has not run for a while, it could not hear its peers, and it begins to count anew.

    It probes at most MOST_A_SECOND peers in one second. If there are more peers, or more tasks that ask the same
    peers, it asks each of them less often (`every_secs`) and at random moments. A peer that has failed a probe is
    asked again after RETRY_SECS.

    Args:
        peers: name -> address.
        join_secs: how long a peer may take to answer for the first time.
        lost_secs: how long a peer that has answered may be silent; CLOSED_SECS if its port is closed.
        any_is_enough: the peers count as lost only when all of them are, and they may come back. A parameter server
            goes on for the workers that are left.
        askers: how many tasks watch these peers.
        ways: as of probes.Prober.
        probe: addresses -> {address: Answer}, within probes.PROBE_SECS.
        chance: () -> [0, 1).
        now: seconds, monotonic.
    """

    def __init__(
        self,
        peers: Mapping[str, str],
        join_secs: float,
        lost_secs: float,
        any_is_enough: bool = False,
        askers: int = 1,
        ways: Mapping[str, str] | None = None,
        probe: Callable[[list[str]], dict[str, Answer]] | None = None,
        chance: Callable[[], float] = random.random,
        now: float | None = None,
    ):
        self._join_secs, self._lost_secs = join_secs, lost_secs
        self._any_is_enough = any_is_enough
        self._probe = probe or probes.Prober(may_move=any_is_enough, ways=ways)
        self._every = every_secs(len(peers), askers)
        self._looked_at = began = time.monotonic() if now is None else now
        spread = self._every if self._every > 1 else 0
        self._peers = [
            _Peer(name, address, next_at=began + spread * chance(), failing_since=began)
            for name, address in peers.items()
        ]

    def look(self, clock: Callable[[], float] = time.monotonic) -> SilentPeer | None:
        """Asks the peers whose probe is due. Returns a peer that has been silent for too long, if there is one."""
        if not self._peers:
            return None
        began = clock()
        self._count_pause(began - self._looked_at)
        due = self._due(began)
        answers = self._probe([peer.address for peer in due])
        now = self._looked_at = clock()
        for peer in due:
            answer = answers[peer.address]
            peer.next_at = began + (self._every if answer is Answer.GREETS else RETRY_SECS)
            if answer is Answer.GREETS:
                peer.greets()
            elif answer is not Answer.NOT_ASKED:
                peer.fails(began, answer)
        self._count_pause(now - began - probes.PROBE_SECS)
        gone = [peer.gone(now) for peer in self._peers if self._is_gone(peer, now)]
        if self._any_is_enough and len(gone) < len(self._peers):
            return None
        return gone[0] if gone else None

    def _due(self, now: float) -> list[_Peer]:
        """The peers to ask now.

        Up to half of them are the peers that have failed most often, so that a lost peer is soon known, even if many
        are lost. The others are those that have waited longest.
        """
        due = sorted((peer for peer in self._peers if peer.next_at <= now), key=lambda peer: peer.next_at)
        failing = sorted((peer for peer in due if peer.ever_seen and peer.failures), key=lambda peer: -peer.failures)[
            : MOST_A_SECOND // 2
        ]
        chosen = {peer.name for peer in failing}
        others = [peer for peer in due if peer.name not in chosen]
        return failing + others[: MOST_A_SECOND - len(failing)]

    def _count_pause(self, secs: float) -> None:
        """`secs`: by how much a look came, or ended, later than it should."""
        if secs > PAUSE_SECS:
            for peer in self._peers:
                peer.begin_anew(secs)

    def _is_gone(self, peer: _Peer, now: float) -> bool:
        if peer.failures < FAILURES:
            return False
        most = self._lost_secs if peer.ever_seen else self._join_secs
        is_closed = peer.closed_since is not None and now - peer.closed_since >= CLOSED_SECS
        return peer.gone(now).secs >= most or (is_closed and not self._any_is_enough)

    def silences(self, now: float | None = None) -> dict[str, float]:
        """name -> seconds for which a peer has not answered; 0 for one that answers."""
        now = time.monotonic() if now is None else now
        return {peer.name: round(peer.gone(now).secs, 1) for peer in self._peers}

    def missing_now(self, clock: Callable[[], float] = time.monotonic) -> list[SilentPeer]:
        """The peers that do not answer at this moment."""
        missing, now = [], clock()
        for first in range(0, len(self._peers), MOST_A_SECOND):
            some = self._peers[first : first + MOST_A_SECOND]
            answers = self._probe([peer.address for peer in some])
            there = (Answer.GREETS, Answer.NOT_ASKED)
            missing += [peer.gone(now) for peer in some if answers[peer.address] not in there]
        return missing


class AwakeClock:
    """Seconds in which this process could run. Somebody has to read the clock at least every second.

    A process does not run while it is stopped (SIGSTOP), while its machine or its allocation is suspended, or while
    C code holds Python's global lock. It hears nothing meanwhile, and so it cannot say how long others were silent.
    The clock knows a pause by the gap between two readings: a gap longer than PAUSE_SECS counts as PAUSE_SECS.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock, self._lock = clock, threading.Lock()
        self._awake = self._read = clock()

    def __call__(self) -> float:
        with self._lock:
            now = self._clock()
            self._awake += min(now - self._read, PAUSE_SECS)
            self._read = now
            return self._awake
