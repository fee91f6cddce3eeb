"""Every way in which a TF_CONFIG is refused, one row each."""

import json

import pytest

from tests.tf_config import refused_clusters
from tests.tf_config.refused_clusters import CHIEF, WORKER, Row, text, with_index, with_task, workers
from tf_config import TfConfigError, parse
from tf_config.cluster import OF_CLUSTERS

ROWS = {
    **refused_clusters.ROWS,
    'parameter_server, no chief, worker 1': Row(
        text({'worker': ['a:1', 'b:1'], 'ps': ['c:1']}, {'type': 'worker', 'index': 1}),
        'cluster.chief',
        'absent',
        'needs one chief',
        task='worker:0',
    ),
    'parameter_server, no chief, ps': Row(
        text({'worker': ['a:1'], 'ps': ['c:1']}, {'type': 'ps', 'index': 0}),
        'cluster.chief',
        'absent',
        'needs one chief',
        corrected={'chief': ['a:1'], 'ps': ['c:1']},
        task='ps:0',
    ),
    'nobody trains': Row(
        text({'evaluator': ['a:1']}, {'type': 'evaluator', 'index': 0}),
        'cluster',
        '{"evaluator": ["a:1"]}',
        'nobody trains',
        task='evaluator:0',
    ),
    'only ps': Row(
        text({'ps': ['chief-0.example:2222']}, {'type': 'ps', 'index': 0}),
        'cluster',
        '{"ps": ["chief-0.example:2222"]}',
        'nobody trains',
        task='ps:0',
    ),
    'type not in the cluster': Row(with_task(type='ps', index=0), 'task.type', '"ps"', 'no address', task='worker:0'),
    'chief of a worker-only cluster': Row(
        with_task(type='chief', index=0), 'task.type', '"chief"', 'no address', task='worker:0'
    ),
    'type unknown': Row(
        with_task(type='workers', index=1), 'task.type', '"workers"', 'did you mean "worker"?', task='worker:1'
    ),
    'type unlike any role': Row(with_task(type='xyz', index=1), 'task.type', '"xyz"', 'not a role', task='worker:0'),
    'type missing': Row(with_task(index=1), 'task.type', 'absent', 'not one of the roles'),
    'type a list': Row(with_task(type=[], index=1), 'task.type', '[]', 'not one of the roles'),
    'index missing': Row(with_task(type='worker'), 'task.index', 'absent', 'missing'),
    'index out of range': Row(with_index(2), 'task.index', '2', 'from 0 to 1'),
    'index negative': Row(with_index(-1), 'task.index', '-1', 'negative'),
    'index negative string': Row(with_index('-1'), 'task.index', '"-1"', 'negative'),
    'index a word': Row(with_index('one'), 'task.index', '"one"', 'not a whole number'),
    'index a bool': Row(with_index(True), 'task.index', 'true', 'not a whole number'),
    'index 1.5': Row(with_index(1.5), 'task.index', '1.5', 'not a whole number'),
    'index null': Row(with_index(None), 'task.index', 'null', 'not a whole number'),
    'index very long': Row(with_index('1' * 50), 'task.index', '"' + '1' * 50 + '"', 'not a whole number'),
    'second evaluator outside': Row(
        with_task(type='evaluator', index=1), 'task.index', '1', 'from 0 to 0', task='evaluator:0'
    ),
    'several evaluators': Row(
        text({'chief': ['a:1'], 'evaluator': ['b:1', 'c:1']}, {'type': 'evaluator', 'index': 1}),
        'cluster.evaluator',
        '["b:1", "c:1"]',
        'several evaluators',
        corrected={'chief': ['a:1'], 'evaluator': ['b:1']},
        task='evaluator:0',
    ),
    'task missing': Row(text({'worker': ['a:1', 'b:1']}), 'task', 'absent', 'missing', task='worker:0'),
    'task not an object': Row(text({'worker': ['a:1', 'b:1']}, 'worker:1'), 'task', '"worker:1"', 'not an object'),
    'task without a cluster': Row(
        text(task={'type': 'worker', 'index': 3}), 'cluster', 'absent', 'task worker:3 needs', task='worker:3'
    ),
    'evaluator without a cluster': Row(
        text(task={'type': 'evaluator', 'index': 0}), 'cluster', 'absent', 'evaluator:0 needs', task='evaluator:0'
    ),
    'wrong task without a cluster': Row(text(task={'type': 'xyz', 'index': 0}), 'task.type', '"xyz"', 'not a role'),
    'sparseCluster': Row(
        text(task={'type': 'worker', 'index': 2}, sparseCluster={'worker': {'2': 'c:1'}, 'ps': ['p:1']}),
        'sparseCluster',
        '{"worker": {"2": "c:1"}, "ps": ["p:1"]}',
        'same model_dir',
        task='worker:2',
    ),
    'parameter_server without ps': Row(
        text({'chief': ['a:1'], 'worker': ['b:1']}, WORKER),
        'cluster.ps',
        'absent',
        'at least one ps',
        'parameter_server',
        task='worker:0',
    ),
    'evaluator of a cluster without tasks': Row(
        text({'worker': []}, {'type': 'evaluator', 'index': 0}),
        'cluster',
        '{"worker": []}',
        'lists no task: task evaluator:0 needs',
        task='evaluator:0',
    ),
}
for strategy in OF_CLUSTERS:
    ROWS[f'{strategy} without a cluster'] = Row(
        '', 'cluster', 'absent', f'is missing: strategy {strategy} needs', strategy
    )
    ROWS[f'{strategy} without a cluster, but a task'] = Row(
        text(task=WORKER), 'cluster', 'absent', f'is missing: strategy {strategy} needs', strategy, task='worker:0'
    )
    for cluster in ({}, {'worker': []}, {'chief': [], 'worker': [], 'ps': []}):
        for task in (None, WORKER, CHIEF):
            ROWS[f'{strategy} with {cluster} for {task}'] = Row(
                text(cluster, task), 'cluster', json.dumps(cluster), 'lists no task', strategy
            )
for strategy in ('none', 'mirrored', 'multi_worker_mirrored'):
    ROWS[f'ps under {strategy}'] = Row(
        text({'chief': ['a:1'], 'ps': ['p:1']}, {'type': 'ps', 'index': 0}),
        'cluster.ps',
        '["p:1"]',
        f'strategy {strategy} has none',
        strategy,
        {'chief': ['a:1']},
        'chief:0',
    )
for strategy in ('none', 'mirrored'):
    ROWS[f'several train under {strategy}'] = Row(
        text({'chief': ['a:1'], 'worker': ['b:1']}, WORKER),
        'cluster.worker',
        '["b:1"]',
        'one model_dir',
        strategy,
        {'chief': ['a:1']},
        'chief:0',
    )
    ROWS[f'several workers train under {strategy}'] = Row(
        workers('a:1', 'b:1', task={'type': 'evaluator', 'index': 0}),
        'cluster.worker',
        '["a:1", "b:1"]',
        'one model_dir',
        strategy,
        {'worker': ['a:1']},
        'evaluator:0',
    )


@pytest.mark.parametrize('row', ROWS.values(), ids=ROWS)
def test_refused(row):
    with pytest.raises(TfConfigError) as caught:
        parse(row.text, row.strategy)
    (finding,) = caught.value.findings
    assert (finding.key, finding.seen) == (row.key, row.seen)
    assert row.problem in finding.problem

    message = str(caught.value)
    assert f'{row.key} = {row.seen}: ' in message
    assert row.problem in message
    corrected = finding.corrected
    assert message.endswith(f'\nrule: {finding.rule}' if finding.rule else f'\ncorrected: {corrected}')
    assert '\n' not in corrected + finding.rule

    parsed = parse(corrected, row.strategy)
    if row.corrected is not None:
        assert json.loads(corrected)['cluster'] == row.corrected
    if row.task is not None:
        assert str(parsed.task) == row.task


GUESSES = (  # the correction would be a task that another process may be
    *(
        'type not in the cluster',
        'chief of a worker-only cluster',
        'type unlike any role',
        'type missing',
        'type a list',
    ),
    *('index missing', 'index out of range', 'index negative', 'index negative string', 'index a word', 'index a bool'),
    *('index 1.5', 'index null', 'index very long', 'second evaluator outside', 'several evaluators', 'task missing'),
    *('task not an object', 'ps under none', 'ps under mirrored', 'ps under multi_worker_mirrored'),
    *('several train under none', 'several train under mirrored'),
    *('workers besides worker', 'a list with a string of two', 'the chief is this worker', 'chief and master'),
)
MADE_UP = (  # no cluster could be read: the addresses are an example
    *('not JSON', 'cut off', 'not an object', 'null', 'cluster not an object', 'unlike any role'),
    *('unknown role without addresses', 'wrong task without a cluster', 'sparseCluster'),
)


def test_a_correction_that_would_be_a_guess_or_an_example_is_not_shown():
    begins = {'which task this process is': set(GUESSES), 'a TF_CONFIG names a cluster': set(MADE_UP)}
    found = {begin: set() for begin in begins}
    for name, row in ROWS.items():
        with pytest.raises(TfConfigError) as caught:
            parse(row.text, row.strategy)
        rule = str(caught.value).partition('\nrule: ')[2]
        for begin in begins:
            if rule.startswith(begin):
                found[begin].add(name)
        assert bool(rule) == ('\ncorrected: ' not in str(caught.value))
    assert found == begins


def test_the_rule_names_the_command_that_makes_all_of_them():
    with pytest.raises(TfConfigError) as caught:
        parse(text({'chief': ['a:1'], 'worker': ['b:1'], 'ps': ['p:1']}, {'type': 'ps', 'index': 1}))
    assert 'make --workers=2 --ps=1` prints' in str(caught.value)
