"""data.files.block_cache: what is loaded, how often, and what is kept."""

import os
import signal
import threading

import pytest

from estimator_trainer.data.files.block_cache import BlockCache
from estimator_trainer.data.remote import threads

BOUND_SECS = 120


class Loads:
    """Counts them; may be held up."""

    def __init__(self):
        self.of, self.may_go_on = [], threading.Event()
        self.may_go_on.set()

    def __call__(self, number):
        assert self.may_go_on.wait(BOUND_SECS)
        self.of.append(number)
        return f'block {number}'


def test_a_block_is_loaded_once():
    loads = Loads()
    cache = BlockCache(loads, [10] * 5, most_bytes=100)
    assert [cache.get(number) for number in (3, 1, 3, 1)] == ['block 3', 'block 1', 'block 3', 'block 1']
    assert loads.of == [3, 1]


def test_what_was_used_last_is_kept():
    loads = Loads()
    cache = BlockCache(loads, [10] * 5, most_bytes=20)
    for number in (0, 1, 0, 2, 0):  # 2 takes the place of 1
        cache.get(number)
    assert loads.of == [0, 1, 2]
    cache.get(1)
    assert loads.of == [0, 1, 2, 1]


def test_the_newest_block_is_kept_however_large():
    loads = Loads()
    cache = BlockCache(loads, [10, 1000], most_bytes=20)
    for number in (0, 1, 1, 0):
        cache.get(number)
    assert loads.of == [0, 1, 0]


def test_what_is_held_is_measured_once_it_is_loaded():
    loads = Loads()
    cache = BlockCache(loads, [10] * 5, most_bytes=100, size_of=lambda content: 60)
    for number in (0, 1, 2):
        cache.get(number)
        assert cache.held_bytes == 60
    cache.get(2)
    assert loads.of == [0, 1, 2]


@pytest.mark.parametrize(
    'most, said',
    [(2 * 2**20, '2.0 MiB of memory: as --in_memory_mb allows (2)'), (9 * 2**20, '4.0 MiB of memory: all of the data')],
)
def test_the_log_says_once_how_much_is_held(most, said, caplog):
    caplog.set_level('INFO', 'estimator_trainer')
    cache = BlockCache(Loads(), [2**20] * 4, most_bytes=most)
    for number in (0, 1, 2, 3, 0, 1, 2, 3):
        cache.get(number)
    (line,) = caplog.messages
    assert line.startswith(f'data: decoded blocks take {said}')


def test_what_is_needed_now_stays_and_ahead_is_what_fits_beside_it():
    loads = Loads()
    cache = BlockCache(loads, [30] * 6, most_bytes=100)
    for _ in range(20):  # batches
        cache.load_ahead([2, 3], beside=[0, 1])
        assert [cache.get(number) for number in (0, 1)] == ['block 0', 'block 1']
    cache.load_ahead([4, 5], beside=[2, 3])
    assert [cache.get(number) for number in (2, 3)] == ['block 2', 'block 3']
    assert sorted(loads.of) == [0, 1, 2, 3, 4] and cache.held_bytes <= 100


def test_a_window_that_takes_all_room_is_loaded_once():
    loads = Loads()
    cache = BlockCache(loads, [60] * 4, most_bytes=100)
    for _ in range(20):
        cache.load_ahead([1], beside=[0])
        cache.get(0)
    assert loads.of == [0]


def test_loads_ahead_in_other_threads():
    loads = Loads()
    cache = BlockCache(loads, [10] * 5, most_bytes=100)
    loads.may_go_on.clear()
    cache.load_ahead([4, 2])  # returns at once
    loads.may_go_on.set()
    assert cache.get(2) == 'block 2'
    assert cache.get(4) == 'block 4'
    assert sorted(loads.of) == [2, 4]


def test_what_fails_is_tried_again():
    loads = Loads()

    def load(number):
        loads(number)
        if len(loads.of) == 1:
            raise OSError('not now')
        return number

    cache = BlockCache(load, [10], most_bytes=100)
    with pytest.raises(OSError, match='not now'):
        cache.get(0)
    assert cache.get(0) == 0


@pytest.mark.parametrize('submit', [None, threads.submit])
def test_a_forked_process_loads_what_its_parent_was_loading(submit):
    loads = Loads()
    loads.may_go_on.clear()
    cache = BlockCache(loads, [10] * 2, most_bytes=100, submit=submit)
    cache.load_ahead([0])
    child = os.fork()
    if not child:
        loads.may_go_on = threading.Event()  # a thread of the parent may have held the lock of the old one
        loads.may_go_on.set()
        signal.alarm(BOUND_SECS)
        os._exit(0 if cache.get(0) == 'block 0' and cache.get(1) == 'block 1' else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    loads.may_go_on.set()
    assert cache.get(0) == 'block 0' and loads.of == [0]
