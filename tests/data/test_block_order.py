"""data.block_order: each example once an epoch, whatever the positions are asked for in."""

import numpy as np
import pytest

from estimator_trainer.data import block_order
from estimator_trainer.data.block_order import BlockOrder

SIZES = [[7], [1, 1, 1], [5, 0, 9, 3, 30], list(range(1, 60))]


@pytest.mark.parametrize('sizes', SIZES, ids=len)
def test_each_example_once_in_each_epoch(sizes):
    order = BlockOrder(sizes, np.ones(len(sizes)), seed=3)
    count = sum(sizes)
    found = order.examples(np.arange(3 * count)).reshape(3, count)
    for epoch in found:
        assert sorted(epoch) == list(range(count))
    if count > 20:
        assert list(found[0]) != list(found[1]) != list(found[2])


@pytest.mark.parametrize('sizes', SIZES, ids=len)
@pytest.mark.parametrize('batch', [1, 4, 100])
def test_a_position_has_its_example_however_it_is_asked_for(sizes, batch):
    positions = np.arange(3 * sum(sizes))
    whole = BlockOrder(sizes, np.ones(len(sizes)), seed=5).examples(positions)
    other = BlockOrder(sizes, np.ones(len(sizes)), seed=5)
    backwards = [other.examples(positions[first : first + batch]) for first in range(0, len(positions), batch)[::-1]]
    assert np.concatenate(backwards[::-1]).tolist() == whole.tolist()


def test_another_seed_is_another_order():
    sizes, positions = [10] * 30, np.arange(300)
    one, two = (BlockOrder(sizes, np.ones(30), seed=seed).examples(positions).tolist() for seed in (1, 2))
    assert one != two


def test_a_window_holds_so_many_blocks():
    count = 5 * block_order.WINDOW_BLOCKS
    order = BlockOrder([10] * count, np.ones(count), seed=1)
    for window in np.split(order.examples(np.arange(10 * count)) // 10, 5):
        assert len(set(window)) == block_order.WINDOW_BLOCKS


def test_a_window_holds_so_many_bytes():
    third = block_order.WINDOW_BYTES // 3
    order = BlockOrder([10] * 9, [third] * 9, seed=1)
    for window in np.split(order.examples(np.arange(90)) // 10, 3):
        assert len(set(window)) == 3


def test_a_block_that_is_too_large_is_a_window():
    order = BlockOrder([10] * 4, [2 * block_order.WINDOW_BYTES] * 4, seed=1)
    for window in np.split(order.examples(np.arange(40)) // 10, 4):
        assert len(set(window)) == 1


def test_the_blocks_that_come_next_are_those_of_the_next_window():
    count = 3 * block_order.WINDOW_BLOCKS
    order = BlockOrder([10] * count, np.ones(count), seed=1)
    of_window = 10 * block_order.WINDOW_BLOCKS
    for position in (0, of_window - 1, of_window, 2 * of_window + 5):  # the last one: of the next epoch
        next_window = (position // of_window + 1) * of_window
        comes = set(order.examples(np.arange(next_window, next_window + of_window)) // 10)
        assert set(order.blocks_after(position)) == comes


def test_the_order_is_the_one_it_was():
    """A run that is resumed by a later version goes on in the order in which it began."""
    found = BlockOrder([5, 5, 5], [1, 1, 1], seed=7).examples(np.arange(15))
    assert found.tolist() == [14, 12, 13, 6, 11, 4, 1, 7, 5, 0, 8, 10, 3, 2, 9]


def test_a_window_takes_no_more_than_it_may():
    order = BlockOrder([4] * 20, [10] * 20, seed=1, window_bytes=30)
    assert order.num_windows == 7
    for position in range(0, 80, 12):
        assert len(order.blocks_at(position)) <= 3
        assert set(order.examples(np.arange(position, min(position + 12, 80))) // 4) == set(order.blocks_at(position))


def test_the_digest_is_of_what_forms_the_windows():
    def order(sizes=(30, 15, 6, 40), num_bytes=(30, 15, 6, 40), window_bytes=50, seed=1):
        return BlockOrder(sizes, num_bytes, seed, window_bytes)

    digest = order().digest
    assert digest == order(num_bytes=(30.0, 15, 6, 40)).digest == order(seed=2).digest
    others = [order(window_bytes=52), order(num_bytes=(30, 16, 6, 40)), order(sizes=(30, 15, 7, 40))]
    assert len({digest, *(each.digest for each in others)}) == 4
    # Windows that only the number of blocks ends do not depend on bytes.
    assert order(window_bytes=91).digest == order(window_bytes=200).digest == order([30, 15, 6, 40], [1] * 4).digest


def test_orders_of_one_digest_are_one_order():
    random = np.random.RandomState(1)
    found = {}
    for window_bytes in range(60, 260, 10):
        for most in (3, 10, 12):
            order = BlockOrder([3] * 40, random.randint(1, most, 40), 1, window_bytes)
            found.setdefault(order.digest, set()).add(tuple(order.examples(np.arange(240))))
    assert all(len(orders) == 1 for orders in found.values()) and 1 < len(found) < 60
