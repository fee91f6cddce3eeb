"""Holds decoded blocks in memory, and loads those that are needed soon."""

import collections
import concurrent.futures
import threading


class BlockCache:
    """Loads blocks in threads of its own, and holds the last ones used.

    Args:
        load: (number of a block) -> its contents.
        num_bytes: of each block; `most_bytes` of them are held, and the newest block in any case.
        submit: (load, number) -> Future, which calls load(number) in another thread; None: in one of two here.
    """

    def __init__(self, load, num_bytes, most_bytes: int, submit=None):
        self._load, self._bytes, self._most, self._submit = load, num_bytes, most_bytes, submit
        self._lock = threading.Lock()
        self._held = collections.OrderedDict()  # number -> Future, the last used one last

    def get(self, number: int):
        """The contents of a block. Raises what `load` raises, each time."""
        return self._ask(int(number)).result()

    def load_ahead(self, numbers) -> None:
        """These blocks are needed soon."""
        for number in numbers:
            self._ask(int(number))

    def _ask(self, number):
        with self._lock:
            future = self._held.get(number)
            if future is None or (future.done() and future.exception()):
                if self._submit is None:  # not before a block is needed: a fork has no threads
                    self._submit = concurrent.futures.ThreadPoolExecutor(2, thread_name_prefix='blocks').submit
                self._held[number] = self._submit(self._load, number)
                self._drop_old()
            self._held.move_to_end(number)
            return self._held[number]

    def _drop_old(self):
        held = sum(self._bytes[number] for number in self._held)
        while len(self._held) > 1 and held > self._most:
            oldest, _ = self._held.popitem(last=False)
            held -= self._bytes[oldest]
