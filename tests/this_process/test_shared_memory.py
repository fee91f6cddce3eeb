"""this_process.shared_memory: tasks, here threads of one process, add up arrays. No TensorFlow."""

import concurrent.futures
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from estimator_trainer.this_process import mapped_memory, shared_memory

BOUND_SECS = 120


def of_all(function, items):
    """function(item) in a thread for each item, and their results."""
    with concurrent.futures.ThreadPoolExecutor(len(items)) as threads:
        return [future.result(BOUND_SECS) for future in [threads.submit(function, item) for item in items]]


def connected(size) -> list:
    listeners = [shared_memory.Listener() for _ in range(size)]
    addresses = [listener.address for listener in listeners]
    return of_all(lambda rank: listeners[rank].connect(rank, addresses, BOUND_SECS), range(size))


@pytest.fixture
def two():
    return connected(2)


@pytest.mark.parametrize('size', [2, 3, 5])
def test_all_tasks_have_the_same_sum(size):
    tasks = connected(size)
    arrays = [np.random.RandomState(rank).normal(size=(7, 1000)).astype(np.float32) for rank in range(size)]
    sums = of_all(lambda rank: tasks[rank].add_up(1, arrays[rank]), range(size))
    expected = arrays[0].copy()
    for array in arrays[1:]:
        expected += array
    assert all(total.tobytes() == expected.tobytes() and total.shape == (7, 1000) for total in sums)


@pytest.mark.parametrize(
    'array', [np.float32(3), np.zeros((0, 4), np.float32), np.ones(5, np.float64), np.ones(3)[::2]]
)
def test_every_shape_and_type(two, array):
    for total in of_all(lambda task: task.add_up(1, array), two):
        assert total.dtype == array.dtype and total.shape == array.shape
        assert np.array_equal(total, 2 * array)


def test_sums_of_one_key_follow_each_other_and_memory_is_used_again(two):
    def task(task):
        return [int(task.add_up(4, np.full(5000, step, np.float64))[-1]) for step in range(500)]

    assert of_all(task, two) == [[2 * step for step in range(500)]] * 2
    assert all(os.fstat(each._memory).st_blocks * 512 <= 4 * 40960 for each in two)


def test_sums_of_many_sizes_take_no_more_descriptors(two):
    """Python holds one for each mapping. The sizes here need 24 MiB, so two pieces."""
    of_all(lambda task: task.add_up(1, np.ones(1)), two)
    before = len(os.listdir('/proc/self/fd'))
    for size in range(1, 200):
        array = np.full([size * 300], 1.0, np.float32)
        assert all((total == 2).all() for total in of_all(lambda task, array=array: task.add_up(2, array), two))
    assert len(os.listdir('/proc/self/fd')) - before <= 4


def test_an_array_larger_than_a_piece(two):
    array = np.arange(9 * 2**20, dtype=np.float32)
    for _ in range(2):
        assert all((total == 2 * array).all() for total in of_all(lambda task: task.add_up(1, array), two))


@pytest.mark.parametrize(
    'where, num_bytes, room', [(0, 1, 0), (5, 2**24 - 5, 5), (5, 2**24, 2**24), (2**24, 2**24 + 1, 2**25)]
)
def test_a_region_lies_in_one_piece(where, num_bytes, room):
    assert mapped_memory.room(where, num_bytes) == room
    start, end = mapped_memory.piece(room)
    assert start <= room and room + num_bytes <= end


def test_several_keys_at_a_time_in_any_order(two):
    def sums(task_and_keys):
        task, keys = task_and_keys
        return dict(
            zip(keys, of_all(lambda key: [task.add_up(key, np.full(9, key + n))[0] for n in range(50)], list(keys)))
        )

    found = of_all(sums, [(two[0], range(6)), (two[1], range(5, -1, -1))])
    assert found[0] == found[1] == {key: [2 * (key + n) for n in range(50)] for key in range(6)}


@pytest.mark.parametrize('holds_up', [True, False])
def test_waits_for_others_are_counted(two, holds_up):
    with concurrent.futures.ThreadPoolExecutor(1) as thread:
        total = thread.submit(two[0].add_up, 1, np.ones(3), holds_up)
        until = time.monotonic() + BOUND_SECS
        while 1 not in two[0]._arrived[1]:  # it waits for the array of this key
            assert time.monotonic() < until
        under_way = two[0].waited_secs()
        two[1].add_up(1, np.ones(3))
        total.result(BOUND_SECS)
    waited = two[0].waited_secs()
    assert (waited > 0) == holds_up and 0 <= under_way <= waited == two[0].waited_secs()


def test_arrays_of_different_sizes_are_refused(two):
    def task(task):
        with pytest.raises(ValueError, match='the same flags'):
            task.add_up(1, np.ones(3 + two.index(task)))

    of_all(task, two)


def test_a_task_that_ends_is_lost(two):
    two[1]._close()
    with pytest.raises(shared_memory.TaskLost, match='task 1') as caught:
        two[0].add_up(1, np.ones(3))
    assert caught.value.rank == 1


CHILD = """
import os, sys, time
import numpy as np
from estimator_trainer.this_process import shared_memory

listener = shared_memory.Listener()
print(listener.address, flush=True)
task = listener.connect(1, [sys.argv[1], listener.address], 30)
if os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(600)
    os._exit(0)
task.add_up(1, np.ones(3))
time.sleep(600)
"""


def test_a_killed_task_is_lost_though_a_child_that_it_forked_lives():
    listener = shared_memory.Listener()
    with subprocess.Popen([sys.executable, '-c', CHILD, listener.address], stdout=subprocess.PIPE, text=True) as child:
        address, grandchild = child.stdout.readline().strip(), None
        try:
            task = listener.connect(0, [listener.address, address], BOUND_SECS)
            grandchild = int(child.stdout.readline())
            assert task.add_up(1, np.ones(3)).tolist() == [2, 2, 2]
            child.kill()
            with pytest.raises(shared_memory.TaskLost):
                task.add_up(1, np.ones(3))
        finally:
            child.kill()
            if grandchild:
                os.kill(grandchild, signal.SIGKILL)


def test_who_does_not_come_is_waited_for_with_a_bound():
    listener = shared_memory.Listener()
    with pytest.raises(OSError):
        listener.connect(0, [listener.address, ''], 0.05)


def test_a_place_is_the_same_for_processes_of_one_machine():
    program = 'from estimator_trainer.this_process import shared_memory; print(shared_memory.place())'
    output = subprocess.run([sys.executable, '-c', program], capture_output=True, text=True, timeout=BOUND_SECS).stdout
    assert output.strip() == shared_memory.place()


def test_needs_no_tensorflow():
    program = 'import sys, estimator_trainer.this_process.shared_memory; sys.exit("tensorflow" in sys.modules)'
    assert subprocess.run([sys.executable, '-c', program], timeout=BOUND_SECS).returncode == 0


@given(st.integers(1, 2**40))
def test_regions_are_little_larger_than_what_they_hold(num_bytes):
    region = mapped_memory.region_bytes(num_bytes)
    assert num_bytes <= region < num_bytes * 9 / 8 + mapped_memory.ALIGNMENT and region % mapped_memory.ALIGNMENT == 0
    assert mapped_memory.region_bytes(region) == region


def test_sizes_that_vary_have_few_regions():
    """Arrays of any size between two powers of two share eight."""
    assert len({mapped_memory.region_bytes(size) for size in range(2**14 + 1, 2**15 + 1)}) == 8
