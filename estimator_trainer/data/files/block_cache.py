"""Holds decoded blocks in memory, and loads those that are needed soon. The log says once how much is held."""

import collections
import concurrent.futures
import logging
import os
import threading
import weakref

_log = logging.getLogger('estimator_trainer')
_caches: weakref.WeakSet = weakref.WeakSet()  # of this process


class BlockCache:
    """Loads blocks in threads of its own, and holds the last ones used.

    Args:
        load: (number of a block) -> its contents.
        expected_bytes: of each block, until it is loaded.
        most_bytes: that are held; the newest block is in any case.
        submit: (load, number) -> Future, which calls load(number) in another thread; None: in one of two here.
        size_of: contents -> what they take in memory; None: what was expected.
    """

    def __init__(self, load, expected_bytes, most_bytes: int, submit=None, size_of=None):
        self._load, self._most, self._given_submit, self._size_of = load, most_bytes, submit, size_of
        self._submit = submit
        self._expected, self._found = expected_bytes, {}  # number -> bytes
        self._lock = threading.Lock()
        self._held = collections.OrderedDict()  # number -> Future, the last used one last
        self._needed: set[int] = set()  # now and next: others go first
        self._is_full = self._said = False
        _caches.add(self)

    def get(self, number: int):
        """The contents of a block. Raises what `load` raises, each time."""
        return self._ask(int(number)).result()

    def load_ahead(self, numbers, beside=()) -> None:
        """These blocks are needed soon. As many are loaded as there is room for.

        Args:
            beside: the blocks that are needed now, and stay.
        """
        needed, wanted = set(map(int, beside)), []
        held = sum(map(self._size, needed))
        for number in map(int, numbers):
            held += 0 if number in needed else self._size(number)
            if held > self._most and needed:
                break
            needed.add(number)
            wanted.append(number)
        self._needed = needed
        for number in wanted:
            self._ask(number)

    @property
    def held_bytes(self) -> int:
        """Of the blocks that are held now."""
        with self._lock:
            return sum(map(self._size, self._held))

    def _size(self, number) -> int:
        return int(self._found.get(number, self._expected[number]))

    def _ask(self, number):
        with self._lock:
            future = self._held.get(number)
            if future is None or (future.done() and future.exception()):
                if self._submit is None:  # not before a block is needed: a fork has no threads
                    self._submit = concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix='blocks').submit
                self._held[number] = self._submit(self._measured, number)
                self._drop_old()
            self._held.move_to_end(number)
            return self._held[number]

    def _measured(self, number):
        found = self._load(number)
        with self._lock:
            self._found[number] = self._size_of(found) if self._size_of else self._expected[number]
            self._drop_old()
            if self._is_full or len(self._found) == len(self._expected):
                self._say()
        return found

    def _drop_old(self):
        held, others = sum(map(self._size, self._held)), list(self._held)[:-1]
        for number in sorted(others, key=lambda number: number in self._needed):  # the oldest first; it is stable
            if held <= self._most:
                return
            del self._held[number]
            held -= self._size(number)
            self._is_full = True

    def begin_anew(self) -> None:
        """A forked process has none of the threads: what they were loading is loaded again."""
        self._lock, self._submit = threading.Lock(), self._given_submit
        for number in [number for number, future in self._held.items() if not future.done()]:
            del self._held[number]

    def _say(self):
        if not self._said:
            self._said = True
            held = sum(self._size(number) for number in self._held if number in self._found)
            why = f'as --in_memory_mb allows ({self._most / 2**20:,.0f})' if self._is_full else 'all of the data'
            _log.info('data: decoded blocks take %s MiB of memory: %s', f'{held / 2**20:,.1f}', why)


def _all_begin_anew() -> None:
    for cache in list(_caches):
        cache.begin_anew()


os.register_at_fork(after_in_child=_all_begin_anew)
