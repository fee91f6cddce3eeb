"""The example at position p, if neighbouring examples are read together. Imports no TensorFlow.

The examples are in blocks: row groups of Parquet, whole compressed files, about a mebibyte of other files. In each
epoch the blocks are shuffled. Blocks that follow each other in this order form a window, and the examples of a window
are shuffled. So a reader holds the blocks of only one window at a time, and the order still depends on the seed and the
position alone.
"""

import functools
import hashlib
from collections.abc import Sequence

import numpy as np

WINDOW_BLOCKS = 16
WINDOW_BYTES = 256 * 2**20  # the most bytes of decoded blocks in a window, which has at least one block


class BlockOrder:
    """The endless order of a data set, epoch after epoch.

    Args:
        sizes: the number of examples of each block, in the order of the files.
        num_bytes: the number of decoded bytes of each block.
        seed: the seed of the run.
        window_bytes: the most bytes of the blocks of a window.
    """

    def __init__(
        self,
        sizes: Sequence[int] | np.ndarray,
        num_bytes: Sequence[int] | np.ndarray,
        seed: int,
        window_bytes: int = WINDOW_BYTES,
    ) -> None:
        self._window_bytes = window_bytes
        self._sizes, self._bytes, self._seed = np.asarray(sizes), np.asarray(num_bytes), seed
        self._firsts = np.concatenate([[0], np.cumsum(self._sizes)])  # the first example of each block
        self.num_examples = int(self._firsts[-1])
        self._epoch = functools.lru_cache(2)(self._make_epoch)
        self._shuffled = functools.lru_cache(4)(self._make_shuffled)

    def examples(self, positions: np.ndarray) -> np.ndarray:
        """The examples at these positions, int64 of the same shape [n]."""
        epochs, inside = np.divmod(positions, self.num_examples)
        examples = np.empty(len(positions), np.int64)
        for epoch in np.unique(epochs):
            _, windows, firsts = self._epoch(int(epoch))
            of_epoch = np.flatnonzero(epochs == epoch)
            numbers = np.searchsorted(firsts, inside[of_epoch], 'right') - 1
            for number in np.unique(numbers):
                of_window = of_epoch[numbers == number]
                shuffled = self._shuffled(int(epoch), int(number))
                examples[of_window] = shuffled[inside[of_window] - firsts[number]]
        return examples

    @property
    def num_windows(self) -> int:
        """The number of windows of the first epoch."""
        return len(self._epoch(0)[1]) - 1

    @property
    def digest(self) -> str:
        """Changes with the sizes of the blocks, and where bytes may end a window, with the bytes of both.

        Two orders with one digest and one seed have the same windows in each epoch.
        """
        digest = hashlib.sha256(self._sizes.astype(np.int64).tobytes())
        if np.sort(self._bytes)[-WINDOW_BLOCKS:].sum() > self._window_bytes:
            digest.update(np.append(self._bytes, self._window_bytes).astype(np.int64).tobytes())
        return digest.hexdigest()[:16]

    def blocks_at(self, position: int) -> np.ndarray:
        """The blocks of the window of this position, int64."""
        epoch, inside = divmod(int(position), self.num_examples)
        blocks, windows, firsts = self._epoch(epoch)
        number = int(np.searchsorted(firsts, inside, 'right')) - 1
        return blocks[windows[number] : windows[number + 1]]

    def blocks_after(self, position: int) -> np.ndarray:
        """The blocks of the window after the one of this position, int64. They are needed next."""
        epoch, inside = divmod(int(position), self.num_examples)
        blocks, windows, firsts = self._epoch(epoch)
        number = int(np.searchsorted(firsts, inside, 'right'))
        if number == len(windows) - 1:
            (blocks, windows, _), number = self._epoch(epoch + 1), 0
        return blocks[windows[number] : windows[number + 1]]

    def _make_epoch(self, epoch: int) -> tuple[np.ndarray, list[int], np.ndarray]:
        """The order of an epoch.

        Returns:
            The blocks in their order; for each window the place of its first block in this order, and at the end the
            number of blocks; for each window its first position in the epoch, and at the end the number of examples.
        """
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

    def _make_shuffled(self, epoch: int, number: int) -> np.ndarray:
        """The examples of a window, in their order."""
        blocks, windows, _ = self._epoch(epoch)
        of_window = blocks[windows[number] : windows[number + 1]]
        examples = np.concatenate([np.arange(self._firsts[block], self._firsts[block + 1]) for block in of_window])
        return examples[_permutation(len(examples), self._seed, epoch, number + 1)]


def _permutation(count: int, *seeds: int) -> np.ndarray:
    # NumPy promises that RandomState never changes. It promises nothing for its newer generators.
    return np.random.RandomState(list(seeds)).permutation(count)
