import dataclasses
import itertools
import json

import pytest

from tf_config import STRATEGIES, Cluster, Task, check, for_tensorflow, make, number_of_tasks, parse, render

FULL = Cluster(chief=('c:1',), worker=('w:1', 'w:2'), ps=('p:1',), evaluator=('e:1',))
WORKERS = Cluster(worker=('w:1', 'w:2'))


def loaded(text):
    return json.loads(text)


def test_task_is_text_ordered_and_frozen():
    assert str(Task('worker', 1)) == 'worker:1'
    assert Task('chief', 0) < Task('worker', 0) < Task('worker', 1)
    with pytest.raises(dataclasses.FrozenInstanceError):
        Task('worker', 1).index = 2


def test_tasks_come_in_the_order_of_roles():
    assert [str(task) for task in FULL.tasks] == ['chief:0', 'worker:0', 'worker:1', 'ps:0', 'evaluator:0']
    assert [str(task) for task in FULL.training_tasks] == ['chief:0', 'worker:0', 'worker:1']


@pytest.mark.parametrize(
    'cluster, chief',
    [(FULL, Task('chief', 0)), (WORKERS, Task('worker', 0)), (Cluster(ps=('p:1',)), None), (Cluster(), None)],
)
def test_chief_task(cluster, chief):
    assert cluster.chief_task == chief


def test_a_cluster_without_tasks_is_false():
    assert not Cluster()
    assert Cluster(evaluator=('e:1',))


def test_addresses():
    assert FULL.addresses('worker') == ('w:1', 'w:2')
    assert FULL.address(Task('worker', 1)) == 'w:2'
    for task in (Task('worker', 2), Task('worker', -1), Task('master', 0)):
        with pytest.raises(KeyError):
            FULL.address(task)
    with pytest.raises(KeyError):
        FULL.addresses('master')


def test_render_is_compact_and_lists_only_what_the_cluster_lists():
    assert render(WORKERS, Task('evaluator', 0)) == (
        '{"cluster":{"worker":["w:1","w:2"]},"task":{"type":"evaluator","index":0}}'
    )
    assert loaded(render(FULL, Task('ps', 0)))['cluster']['evaluator'] == ['e:1']


def test_parse_reads_what_render_writes():
    for task in FULL.tasks:
        parsed = parse(render(FULL, task))
        assert (parsed.cluster, parsed.task) == (FULL, task)


@pytest.mark.parametrize('strategy', [name for name in STRATEGIES if name != 'auto'])
@pytest.mark.parametrize('cluster, chief', [(FULL, 'c:1'), (WORKERS, 'w:1')])
def test_an_evaluator_is_only_told_its_chief(strategy, cluster, chief):
    assert loaded(for_tensorflow(cluster, Task('evaluator', 0), strategy)) == {
        'cluster': {'chief': [chief]},
        'task': {'type': 'evaluator', 'index': 0},
    }


@pytest.mark.parametrize('strategy', ['none', 'mirrored'])
def test_one_training_process_needs_no_cluster(strategy):
    assert for_tensorflow(Cluster(worker=('w:1',)), Task('worker', 0), strategy) is None


def test_no_task_needs_no_cluster():
    assert for_tensorflow(Cluster(), None, 'multi_worker_mirrored') is None


def test_multi_worker_mirrored_sees_chief_and_workers():
    assert loaded(for_tensorflow(FULL, Task('worker', 1), 'multi_worker_mirrored')) == {
        'cluster': {'chief': ['c:1'], 'worker': ['w:1', 'w:2']},
        'task': {'type': 'worker', 'index': 1},
    }


def test_parameter_server_does_not_see_the_evaluator():
    assert loaded(for_tensorflow(FULL, Task('ps', 0), 'parameter_server')) == {
        'cluster': {'chief': ['c:1'], 'worker': ['w:1', 'w:2'], 'ps': ['p:1']},
        'task': {'type': 'ps', 'index': 0},
    }


@pytest.mark.parametrize(
    'cluster, task, strategy',
    [
        (FULL, Task('chief', 0), 'auto'),
        (FULL, Task('chief', 0), 'tpu'),
        (FULL, Task('ps', 0), 'multi_worker_mirrored'),
        (FULL, Task('worker', 2), 'parameter_server'),
        (Cluster(), Task('evaluator', 0), 'none'),
    ],
)
def test_for_tensorflow_refuses(cluster, task, strategy):
    with pytest.raises(ValueError):
        for_tensorflow(cluster, task, strategy)


def numbered():
    return (f'h:{port}' for port in itertools.count(1))


def test_make_without_ps_is_worker_only():
    assert make(2, 0, False, numbered()) == Cluster(worker=('h:1', 'h:2'))


def test_make_with_ps_has_a_chief():
    assert make(3, 2, True, numbered()) == Cluster(
        chief=('h:1',), worker=('h:2', 'h:3'), ps=('h:4', 'h:5'), evaluator=('h:6',)
    )


@pytest.mark.parametrize('workers', [1, 2, 5])
@pytest.mark.parametrize('ps', [0, 1, 3])
@pytest.mark.parametrize('evaluator', [False, True])
def test_make_is_never_refused(workers, ps, evaluator):
    cluster = make(workers, ps, evaluator, numbered())
    assert len(cluster.tasks) == number_of_tasks(workers, ps, evaluator)
    for task in cluster.tasks:
        assert check(cluster, task, 'auto') == ()


@pytest.mark.parametrize(
    'workers, ps, evaluator, addresses',
    [(0, 0, False, ['h:1']), (1, -1, False, ['h:1']), (2, 1, True, ['h:1', 'h:2', 'h:3'])],
)
def test_make_refuses(workers, ps, evaluator, addresses):
    with pytest.raises(ValueError):
        make(workers, ps, evaluator, addresses)
