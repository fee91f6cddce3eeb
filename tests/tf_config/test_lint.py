import json
import pickle
import random

import pytest

from tf_config import STRATEGIES, Cluster, Task, TfConfigError, auto_strategy, check, from_environment, parse, render

CHIEF = {'type': 'chief', 'index': 0}
WORKER = {'type': 'worker', 'index': 0}


def text(cluster=None, task=None, **others):
    given = {'cluster': cluster, 'task': task, **others}
    return json.dumps({key: value for key, value in given.items() if value is not None})


def workers(*addresses, task=WORKER):
    return text({'worker': list(addresses)}, task)


def with_index(value):
    return workers('a:1', 'b:1', task={'type': 'worker', 'index': value})


def test_all_findings_at_once():
    wrong = text({'master': ['a:1'], 'workers': ['b', 'c:0'], 'ps': ['d:1']}, {'type': 'worker', 'index': 7})
    with pytest.raises(TfConfigError) as caught:
        parse(wrong, 'multi_worker_mirrored')
    assert [finding.key for finding in caught.value.findings] == [
        'cluster.workers',
        'cluster.workers[0]',
        'cluster.workers[1]',
        'task.index',
        'cluster.ps',
    ]
    assert len({finding.corrected for finding in caught.value.findings}) == 1
    parse(caught.value.findings[0].corrected, 'multi_worker_mirrored')
    assert str(caught.value).count('rule:') == 1  # index 7 is nobody's


def refused(given):
    with pytest.raises(TfConfigError) as caught:
        parse(given)
    return caught.value.findings


def test_roles_at_the_top_level_are_no_single_process():
    """Each task would train alone into one model_dir."""
    findings = refused('{"worker":["a:1","b:2"],"evaluator":["c:3"]}')
    assert [finding.key for finding in findings] == ['worker', 'evaluator', 'task']
    assert json.loads(findings[0].corrected)['cluster'] == {'worker': ['a:1', 'b:2'], 'evaluator': ['c:3']}
    assert findings[0].rule  # which task this is, nobody says


@pytest.mark.parametrize('task, meant', [('workerpool0', Task('chief', 0)), ('workerpool1', Task('worker', 0))])
def test_the_worker_pools_of_vertex_are_its_roles(task, meant):
    cluster = {'workerpool0': ['a:1'], 'workerpool1': ['b:1', 'c:1'], 'workerpool2': ['p:1'], 'workerpool3': ['e:1']}
    findings = refused(text(cluster, {'type': task, 'index': 0}, environment='cloud'))
    assert [finding.key for finding in findings] == [*(f'cluster.{name}' for name in cluster), 'task.type']
    parsed = parse(findings[0].corrected)
    assert parsed.cluster == Cluster(chief=('a:1',), worker=('b:1', 'c:1'), ps=('p:1',), evaluator=('e:1',))
    assert parsed.task == meant and not findings[0].rule


def test_no_host_is_lost_where_names_are_numbered():
    findings = refused(text({'worker0': ['a:1'], 'worker1': ['b:1']}, {'type': 'worker', 'index': 1}))
    assert parse(findings[0].corrected).cluster == Cluster(worker=('a:1', 'b:1'))


@pytest.mark.parametrize('more', [{'job': {'worker_count': '2'}}, {'master': ''}, {'trial': 'worker:1'}, {'tasks': 3}])
def test_what_stands_at_the_top_level_and_lists_no_task_is_nobodys_business(more):
    assert parse(json.dumps({'cluster': {'worker': ['a:1']}, 'task': WORKER, **more})).task == Task('worker', 0)


@pytest.mark.parametrize('blank', ['', '  \n', '{}', '{"cluster":{}}', '{"environment":"cloud"}'])
def test_nothing_is_the_empty_cluster(blank):
    parsed = parse(blank)
    assert (parsed.cluster, parsed.task, parsed.notes) == (Cluster(), None, ())


@pytest.mark.parametrize('role', ['chief', 'worker', 'master'])
def test_a_first_task_without_a_cluster_is_a_single_process(role):
    parsed = parse(text(task={'type': role, 'index': 0}))
    assert (parsed.cluster, parsed.task) == (Cluster(), None)
    assert 'single process' in parsed.notes[-1]


@pytest.mark.parametrize(
    'given, strategy',
    [
        (workers('a:1', 'b:1'), 'multi_worker_mirrored'),
        (workers('a:1'), 'none'),
        (workers('a:1'), 'mirrored'),
        (workers('[::1]:2222', '[fe80::1%eth0]:2222', 'my_pod-0.svc:65535'), 'auto'),
        (workers('127.0.0.1:1', 'localhost:2'), 'auto'),
        (text({'chief': ['a:1'], 'ps': ['b:1'], 'evaluator': ['c:1']}, CHIEF), 'parameter_server'),
        (text({'chief': ['a:1'], 'worker': [], 'ps': []}, CHIEF), 'none'),
        (text({'chief': ['a:1']}, CHIEF, environment='cloud', rpc_layer='grpc', job={}), 'auto'),
        (text({'chief': ['a:1']}, {'type': 'chief', 'index': 0, 'trial': 'x'}), 'auto'),
    ],
)
def test_accepted(given, strategy):
    assert parse(given, strategy).notes == ()


def test_an_index_may_be_a_string():
    assert parse(with_index('1')).task == Task('worker', 1)


def test_an_evaluator_may_be_inside_or_outside():
    task = {'type': 'evaluator', 'index': 0}
    inside = parse(text({'chief': ['a:1'], 'evaluator': ['b:1']}, task))
    outside = parse(text({'chief': ['a:1']}, task))
    assert inside.task == outside.task == Task('evaluator', 0)
    assert inside.cluster.evaluator == ('b:1',)
    assert outside.cluster.evaluator == ()


def test_master_is_read_as_chief_with_one_note():
    parsed = parse(text({'master': ['a:1'], 'worker': ['b:1']}, {'type': 'master', 'index': 0}))
    assert parsed.cluster == Cluster(chief=('a:1',), worker=('b:1',))
    assert parsed.task == Task('chief', 0)
    assert len(parsed.notes) == 1 and 'master' in parsed.notes[0]


def test_a_likely_misspelling_is_a_note():
    (note,) = parse(workers('lcoalhost:1', 'lcoalhost:2')).notes
    assert 'lcoalhost' in note
    assert parse(workers('localhost:1', 'localhost4:1', 'local:1')).notes == ()


@pytest.mark.parametrize(
    'cluster, strategy',
    [
        (Cluster(), 'none'),
        (Cluster(worker=('a:1',)), 'none'),
        (Cluster(worker=('a:1',), evaluator=('b:1',)), 'none'),
        (Cluster(worker=('a:1', 'b:1')), 'multi_worker_mirrored'),
        (Cluster(chief=('a:1',), worker=('b:1',)), 'multi_worker_mirrored'),
        (Cluster(chief=('a:1',), ps=('b:1',)), 'parameter_server'),
    ],
)
def test_auto_strategy(cluster, strategy):
    assert auto_strategy(cluster) == strategy


def test_check_tells_what_depends_on_the_strategy():
    cluster = Cluster(worker=('a:1', 'b:1'))
    assert check(cluster, Task('worker', 1), 'multi_worker_mirrored') == ()
    assert [f.key for f in check(cluster, Task('worker', 1), 'parameter_server')] == ['cluster.chief', 'cluster.ps']
    assert check(Cluster(), None, 'mirrored') == ()


def test_an_unknown_strategy_is_no_finding():
    for given in ('', 'not JSON', workers('a:1')):
        with pytest.raises(ValueError, match='tpu') as caught:
            parse(given, 'tpu')
        assert not isinstance(caught.value, TfConfigError)


def test_the_message_is_printable_whatever_the_text():
    for wrong in ('\x1b[2J', '{"cluster":{"\\u001b[2J":["\\u001b:1"]}}', '{"a":\ud800}'):
        with pytest.raises(TfConfigError) as caught:
            parse(wrong)
        assert all(line.isprintable() for line in str(caught.value).split('\n'))


def test_deep_nesting_is_refused_as_anything_else():
    for depth in (*range(900, 1000), 100_000):
        nested = '[' * depth + ']' * depth
        for wrong in (nested, '{"task":{"type":' + nested + '}}'):
            with pytest.raises(TfConfigError) as caught:
                parse(wrong)
            parse(caught.value.findings[0].corrected)


def test_the_error_can_be_pickled():
    with pytest.raises(TfConfigError) as caught:
        parse('[]')
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_from_environment_reads_the_mapping_it_is_given():
    assert from_environment({}).task is None
    assert from_environment({'TF_CONFIG': with_index(1)}).task == Task('worker', 1)
    with pytest.raises(TfConfigError):
        from_environment({'TF_CONFIG': with_index(1)}, 'mirrored')


def test_random_clusters_pass_or_are_corrected():
    """Any JSON is either accepted and survives a round trip, or its corrected form is accepted."""
    pick = random.Random(0).choice
    addresses = [
        'a:1',
        'a:2',
        'A:1',
        'b',
        'b:x',
        'localhost:2222',
        '127.0.0.1:2222',
        ':1',
        7,
        None,
        'worker-0.example:2222',
        'chief-0.example',
        'a:65535',
        '::1:1',
        '',
    ]
    names = ['chief', 'worker', 'ps', 'evaluator', 'master', 'workers', 'workerpool1', 'xyz', '']
    values = [[], None, 'a:1', 'a:1,b:2', '', ',', ['a:1;b:1', ','], {}, {'0': 'c:1'}, 3]

    def some_value():
        return pick(values) if pick(range(5)) == 0 else [pick(addresses) for _ in range(pick(range(4)))]

    for _ in range(5000):
        document = {}
        if pick(range(10)):
            document['cluster'] = {pick(names): some_value() for _ in range(pick(range(5)))}
        if pick(range(10)):
            document['task'] = {'type': pick([*names, None]), 'index': pick([0, 0, 1, 2, '1', -1, 10**9, True])}
        if not pick(range(9)):
            document[pick([*names, 'Cluster', 'tasks', 'index'])] = pick([some_value(), {'worker': some_value()}, 1])
        strategy = pick(STRATEGIES)
        try:
            parsed = parse(json.dumps(document), strategy)
        except TfConfigError as error:
            parsed = parse(error.findings[0].corrected, strategy)
        if parsed.cluster:
            again = parse(render(parsed.cluster, parsed.task), strategy)
            assert (again.cluster, again.task) == (parsed.cluster, parsed.task), document
