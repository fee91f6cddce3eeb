"""compat.horovod: ranks, here threads of one process, exchange arrays over TCP and in shared memory. No TensorFlow."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import socket
import subprocess
import sys

import numpy as np
import pytest

from estimator_trainer.compat.horovod import joining, packing, ranks
from estimator_trainer.compat.horovod.socket_mesh import SocketMesh
from estimator_trainer.this_process import shared_memory
from estimator_trainer.this_process.shared_memory import SharedMemory, TaskLost

BOUND_SECS = 120
ROOT = pathlib.Path(__file__).parents[3]


def of_all(function, items):
    """function(item) in a thread for each item, and their results."""
    with concurrent.futures.ThreadPoolExecutor(len(items)) as threads:
        return [future.result(BOUND_SECS) for future in [threads.submit(function, item) for item in items]]


def places(size):
    with contextlib.ExitStack() as stack:
        taken = [stack.enter_context(socket.create_server(('127.0.0.1', 0))) for _ in range(size)]
        addresses = tuple(f'127.0.0.1:{each.getsockname()[1]}' for each in taken)
    return [ranks.Place(rank, addresses) for rank in range(size)]


@pytest.fixture(params=['memory', 'network'])
def connected(request, monkeypatch):
    """connected(size) -> the transports of all ranks."""
    if request.param == 'network':
        monkeypatch.setattr(shared_memory, 'place', lambda: None)

    def connect(size):
        found = of_all(lambda place: joining.join(place, BOUND_SECS), places(size))
        assert {type(each) for each in found} == {SharedMemory if request.param == 'memory' else SocketMesh}
        return found

    return connect


@pytest.mark.parametrize('size', [2, 3, 4])
@pytest.mark.parametrize('operation', [packing.AVERAGE, packing.SUM, packing.MIN, packing.MAX, packing.PRODUCT])
def test_all_ranks_have_the_same_result(connected, size, operation):
    random = np.random.RandomState(1)
    given = [
        [random.normal(size=(3, 5)).astype('f'), random.randint(9, size=7), np.float32(rank), np.zeros((0, 2), 'f')]
        for rank in range(size)
    ]
    transports = connected(size)
    found = of_all(lambda rank: packing.reduced(transports[rank], 'x', given[rank], operation), range(size))
    function = {'Average': np.sum, 'Sum': np.sum, 'Min': np.min, 'Max': np.max, 'Product': np.prod}[operation]
    for index, (floats, whole) in enumerate([(True, False), (False, True), (True, False)]):
        expected = function([each[index] for each in given], axis=0)
        if operation == packing.AVERAGE:
            expected = np.trunc(expected / size) if whole else expected / size
        for each in found:
            assert each[index].dtype == given[0][index].dtype and each[index].shape == given[0][index].shape
            np.testing.assert_allclose(each[index], expected, rtol=1e-5)
            assert each[index].tobytes() == found[0][index].tobytes()
    assert found[0][3].shape == (0, 2)


def test_rows_of_all_ranks_follow_each_other(connected):
    transports = connected(3)
    given = [[np.full((rank, 2), rank, np.float32), np.arange(rank + 1)] for rank in range(3)]
    for floats, numbers in of_all(lambda rank: packing.gathered(transports[rank], 'x', given[rank]), range(3)):
        assert floats.tolist() == [[1, 1], [2, 2], [2, 2]] and floats.dtype == np.float32
        assert numbers.tolist() == [0, 0, 1, 0, 1, 2]


def test_the_arrays_of_the_root_go_to_all(connected):
    transports = connected(3)
    given = [[np.full((2, 2), rank, np.float32), np.int64(rank), np.array([rank > 0])] for rank in range(3)]
    for found in of_all(lambda rank: packing.broadcast(transports[rank], 'x', given[rank], 1, rank), range(3)):
        assert [each.tolist() for each in found] == [[[1, 1], [1, 1]], 1, [True]]


def test_several_texts_at_once_in_another_order_in_each_rank(connected):
    transports = connected(2)

    def task(rank):
        texts = ['a', 'b', 'c', 'd'][:: 1 if rank else -1]
        found = of_all(lambda text: packing.reduced(transports[rank], text, [np.full(1000, ord(text))], 'Sum'), texts)
        return {text: int(each[0][0]) for text, each in zip(texts, found)}

    assert of_all(task, range(2)) == [{text: 2 * ord(text) for text in 'abcd'}] * 2


def test_arrays_of_other_sizes_are_an_error(connected):
    transports = connected(2)

    def task(rank):
        with pytest.raises(ValueError, match='the same program'):
            packing.reduced(transports[rank], 'x', [np.zeros(100 + 100 * rank)], 'Sum')

    of_all(task, range(2))


def test_a_rank_that_leaves_is_lost(monkeypatch):
    monkeypatch.setattr(shared_memory, 'place', lambda: None)
    first, second = of_all(lambda place: joining.join(place, BOUND_SECS), places(2))
    second.leave()
    with pytest.raises(TaskLost, match='task 1'):
        packing.reduced(first, 'x', [np.zeros(3)], 'Sum')


def test_who_does_not_come_is_waited_for_with_a_bound_and_named():
    first, second = places(2)
    for place, missing in ((first, 'rank 1'), (second, 'rank 0')):
        with pytest.raises(TimeoutError, match=f'waited in vain for {missing}'):
            joining.join(place, 0.2)


STOPPED = """
import os, signal, sys
import numpy as np
from estimator_trainer.compat.horovod import packing, world
world.init()
if world.place().rank:
    os.kill(os.getpid(), signal.SIGSTOP)
with world.exchange('a sum') as transport:
    packing.reduced(transport, 'x', [np.zeros(3)], 'Sum')
"""


@contextlib.contextmanager
def two_ranks(program, bound):
    """Two processes, as a context that ends them, and whoever reads their stdin."""
    cluster = {'cluster': {'worker': list(places(2)[0].addresses)}}
    tasks = []
    for index in range(2):
        task = {'task': {'type': 'worker', 'index': index}}
        environ = {**os.environ, 'TF_CONFIG': json.dumps({**cluster, **task}), 'PYTHONPATH': str(ROOT)}
        environ['HOROVOD_STALL_SHUTDOWN_TIME_SECONDS'] = bound
        pipes = {'stdin': subprocess.PIPE, 'stderr': subprocess.PIPE, 'stdout': subprocess.DEVNULL}
        tasks.append(subprocess.Popen([sys.executable, '-c', program], env=environ, text=True, **pipes))
    try:
        yield tasks
    finally:
        for task in tasks:
            task.kill()
            task.communicate()


@pytest.mark.parametrize('bound, code, said', [('1', 195, 'rank 0 has waited'), ('x', 1, 'give a number of seconds')])
def test_a_rank_that_is_stopped_is_waited_for_with_a_bound(bound, code, said):
    with two_ranks(STOPPED, bound) as tasks:
        _, err = tasks[0].communicate(timeout=BOUND_SECS)
        assert (tasks[0].returncode, said in err) == (code, True), err


FORKED = """
import os, signal, sys
import numpy as np
from estimator_trainer.compat.horovod import packing, world
from estimator_trainer.this_process import shared_memory
shared_memory.place = lambda: None  # so they connect over TCP
world.init()
if world.place().rank:
    if os.fork():
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdin.read()
    os._exit(0)
with world.exchange('a sum') as transport:
    packing.reduced(transport, 'x', [np.zeros(3)], 'Sum')
"""


def test_a_rank_is_lost_although_a_child_of_it_lives_on():
    with two_ranks(FORKED, '60') as tasks:
        _, err = tasks[0].communicate(timeout=BOUND_SECS)
        assert (tasks[0].returncode, 'rank 1' in err) == (193, True), err


LEFT = """
import atexit, multiprocessing
pool = multiprocessing.get_context('fork').Pool(1)
from estimator_trainer.compat.horovod import world
from estimator_trainer.this_process.shared_memory import TaskLost
world.init()
atexit.register(print, 'said at the end')
with world.exchange('a sum'):
    raise TaskLost(0)
"""


def test_a_rank_that_has_lost_another_one_ends_as_python_does():
    command = [sys.executable, '-c', LEFT]
    environ = {**os.environ, 'PYTHONPATH': str(ROOT)}
    # A worker of the pool that stayed behind would keep the pipes open.
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=BOUND_SECS)
    assert (done.returncode, done.stdout) == (193, 'said at the end\n'), done.stderr


def test_a_stranger_at_the_port_is_no_rank():
    first, second = places(2)

    def stranger():
        while True:
            with contextlib.suppress(ConnectionRefusedError):
                host, _, port = first.addresses[0].rpartition(':')
                with socket.create_connection((host, int(port)), BOUND_SECS) as connected:
                    connected.sendall(b'GET / HTTP/1.1\r\nHost: x\r\n\r\n')
                    connected.recv(1000)
                return None

    with concurrent.futures.ThreadPoolExecutor(3) as threads:
        waits = threads.submit(joining.join, first, BOUND_SECS)
        threads.submit(stranger).result(BOUND_SECS)
        assert joining.join(second, BOUND_SECS).size == waits.result(BOUND_SECS).size == 2
