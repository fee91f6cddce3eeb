"""Which example stands at position p, if neighbouring examples are read together. Imports no TensorFlow.

The examples lie in blocks: row groups of Parquet, whole compressed files, about a mebibyte of other files. In each
epoch the blocks are shuffled. Blocks that follow each other in this order form a window, and the examples of a window
are shuffled. So a reader holds the blocks of only one window at a time, and the order still depends on the seed and the
position alone.
"""

import functools

import numpy as np

WINDOW_BLOCKS = 16
WINDOW_BYTES = 256 * 2**20  # of decoded blocks at most; a window has one block at least


class BlockOrder:
    """The order of a data set, for ever: epoch follows epoch.

    Args:
        sizes: examples of each block, in the order of the files.
        num_bytes: decoded bytes of each block.
        window_bytes: of the blocks of a window.
    """

    def __init__(self, sizes, num_bytes, seed: int, window_bytes: int = WINDOW_BYTES):
        self._window_bytes = window_bytes
        self._sizes, self._bytes, self._seed = np.asarray(sizes), np.asarray(num_bytes), seed
        self._firsts = np.concatenate([[0], np.cumsum(self._sizes)])  # the first example of each block
        self.num_examples = int(self._firsts[-1])
        self._epoch = functools.lru_cache(2)(self._epoch)
        self._shuffled = functools.lru_cache(4)(self._shuffled)

    def examples(self, positions):
        """The examples at these positions, int64 of the same shape [n]."""
        epochs, inside = np.divmod(positions, self.num_examples)
        examples = np.empty(len(positions), np.int64)
        for epoch in np.unique(epochs):
            _, windows, firsts = self._epoch(int(epoch))
            here = np.flatnonzero(epochs == epoch)
            numbers = np.searchsorted(firsts, inside[here], 'right') - 1
            for number in np.unique(numbers):
                of_window = here[numbers == number]
                shuffled = self._shuffled(int(epoch), int(number))
                examples[of_window] = shuffled[inside[of_window] - firsts[number]]
        return examples

    @property
    def num_windows(self) -> int:
        """Of the first epoch."""
        return len(self._epoch(0)[1]) - 1

    def blocks_at(self, position: int):
        """The blocks of the window of this position."""
        epoch, inside = divmod(int(position), self.num_examples)
        blocks, windows, firsts = self._epoch(epoch)
        number = int(np.searchsorted(firsts, inside, 'right')) - 1
        return blocks[windows[number] : windows[number + 1]]

    def blocks_after(self, position: int):
        """The blocks of the window that follows the one of this position: they are needed next."""
        epoch, inside = divmod(int(position), self.num_examples)
        blocks, windows, firsts = self._epoch(epoch)
        number = int(np.searchsorted(firsts, inside, 'right'))
        if number == len(windows) - 1:
            (blocks, windows, _), number = self._epoch(epoch + 1), 0
        return blocks[windows[number] : windows[number + 1]]

    def _epoch(self, epoch):
        """-> the blocks in their order; where each window begins among them, and their end; the position at which
        each window begins."""
        blocks = _permutation(len(self._sizes), self._seed, epoch)
        windows, held = [0], 0
        for number, block in enumerate(blocks):
            full = number - windows[-1] == WINDOW_BLOCKS or held + self._bytes[block] > self._window_bytes
            if full and number > windows[-1]:
                windows.append(number)
                held = 0
            held += self._bytes[block]
        examples = np.concatenate([[0], np.cumsum(self._sizes[blocks])])
        return blocks, [*windows, len(blocks)], examples[windows]

    def _shuffled(self, epoch, number):
        """The examples of a window, in their order."""
        blocks, windows, _ = self._epoch(epoch)
        ours = blocks[windows[number] : windows[number + 1]]
        examples = np.concatenate([np.arange(self._firsts[block], self._firsts[block + 1]) for block in ours])
        return examples[_permutation(len(examples), self._seed, epoch, number + 1)]


def _permutation(count, *seeds):
    # RandomState: NumPy promises that it never changes, and promises nothing for its newer generators.
    return np.random.RandomState(list(seeds)).permutation(count)
