"""Holds decoded blocks in memory, and loads those that are needed soon. The log says once how much is held."""

import collections
import concurrent.futures
import logging
import os
import threading
import weakref
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

import numpy as np

Block = TypeVar('Block')
_log = logging.getLogger('estimator_trainer')
_caches: 'weakref.WeakSet[BlockCache[Any]]' = weakref.WeakSet()  # of this process


class BlockCache(Generic[Block]):
    """Loads blocks in threads of its own, and holds the last ones used.

    Args:
        load: (number of a block) -> the block.
        expected_bytes: the size of each block in memory, until it is loaded.
        most_bytes: the most bytes that are held. The newest block is held in any case.
        submit: (load, number) -> a Future of load(number) in another thread; None: one of two threads of the cache.
        size_of: (block) -> its size in memory, in bytes; None: the expected size.
    """

    def __init__(
        self,
        load: Callable[[int], Block],
        expected_bytes: Sequence[int] | np.ndarray,
        most_bytes: int,
        submit: 'Callable[[Callable[[int], Block], int], Future[Block]] | None' = None,
        size_of: Callable[[Block], int] | None = None,
    ) -> None:
        self._load, self._most, self._given_submit, self._size_of = load, most_bytes, submit, size_of
        self._submit = submit
        self._expected = expected_bytes
        self._loaded: dict[int, int] = {}  # the bytes of each block that has been loaded
        self._lock = threading.Lock()
        self._held: collections.OrderedDict[int, Future[Block]] = collections.OrderedDict()  # the last used one last
        self._needed: set[int] = set()  # blocks that are needed now and next, which are dropped last
        self._is_full = self._has_reported = False
        _caches.add(self)

    def get(self, number: int) -> Block:
        """A block. Raises the error of `load`, at each call."""
        return self._ask(int(number)).result()

    def load_ahead(self, numbers: Iterable[int], beside: Iterable[int] = ()) -> None:
        """Loads blocks that are needed soon, as many as there is room for.

        Args:
            numbers: the blocks, in the order in which they are needed.
            beside: the blocks that are needed now, and stay.
        """
        needed, ahead = set(map(int, beside)), []
        held = sum(map(self._size, needed))
        for number in map(int, numbers):
            held += 0 if number in needed else self._size(number)
            if held > self._most and needed:
                break
            needed.add(number)
            ahead.append(number)
        self._needed = needed
        for number in ahead:
            self._ask(number)

    @property
    def held_bytes(self) -> int:
        """The bytes of the blocks that are held now."""
        with self._lock:
            return sum(map(self._size, self._held))

    def _size(self, number: int) -> int:
        return int(self._loaded.get(number, self._expected[number]))

    def _ask(self, number: int) -> 'Future[Block]':
        with self._lock:
            future = self._held.get(number)
            if future is None or (future.done() and future.exception()):
                if self._submit is None:  # threads are started when a block is needed, because a fork has none
                    self._submit = concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix='blocks').submit
                self._held[number] = self._submit(self._measured, number)
                self._drop_old()
            self._held.move_to_end(number)
            return self._held[number]

    def _measured(self, number: int) -> Block:
        block = self._load(number)
        with self._lock:
            self._loaded[number] = self._size_of(block) if self._size_of else self._expected[number]
            self._drop_old()
            if self._is_full or len(self._loaded) == len(self._expected):
                self._report()
        return block

    def _drop_old(self) -> None:
        held, others = sum(map(self._size, self._held)), list(self._held)[:-1]
        for number in sorted(others, key=lambda number: number in self._needed):  # sorting is stable: the oldest first
            if held <= self._most:
                return
            del self._held[number]
            held -= self._size(number)
            self._is_full = True

    def begin_anew(self) -> None:
        """Forgets the blocks that were being loaded, in a forked process, which has none of the threads."""
        self._lock, self._submit = threading.Lock(), self._given_submit
        for number in [number for number, future in self._held.items() if not future.done()]:
            del self._held[number]

    def _report(self) -> None:
        if not self._has_reported:
            self._has_reported = True
            held = sum(self._size(number) for number in self._held if number in self._loaded)
            why = f'as --in_memory_mb allows ({self._most / 2**20:,.0f})' if self._is_full else 'all of the data'
            _log.info('data: decoded blocks take %s MiB of memory: %s', f'{held / 2**20:,.1f}', why)


def _all_begin_anew() -> None:
    for cache in list(_caches):
        cache.begin_anew()


os.register_at_fork(after_in_child=_all_begin_anew)
