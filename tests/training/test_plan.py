"""Flags and TF_CONFIG -> the part that this process plays."""

import json
import os
import tempfile

import pytest

from estimator_trainer.config.trainer_config import parse
from estimator_trainer.errors import UsageError
from estimator_trainer.training import messages
from estimator_trainer.training import plan as planning

MODEL_DIR = os.path.join(tempfile.gettempdir(), 'no_such_model_dir')
ONE = {'worker': ['a:1']}
ONE_EVALUATED = {'worker': ['a:1'], 'evaluator': ['e:1']}
WORKERS = {'worker': ['a:1', 'b:1', 'c:1']}
CHIEF_WORKER = {'chief': ['a:1'], 'worker': ['b:1'], 'evaluator': ['e:1']}
PS = {'chief': ['a:1'], 'worker': ['b:1', 'c:1'], 'ps': ['p:1', 'q:1']}
PS_EVALUATED = {**PS, 'evaluator': ['e:1']}


def planned(cluster=None, task='', *argv):
    config = parse(['trainer', f'--model_dir={MODEL_DIR}', '--max_steps=5', '--batch_size=8', *argv])
    environ = {}
    if cluster is not None:
        role, _, index = task.partition(':')
        environ['TF_CONFIG'] = json.dumps({'cluster': cluster, 'task': {'type': role, 'index': int(index)}})
    return planning.make(config, environ)


TWO, MIRRORED, SYNC = '--num_replicas=2', '--strategy=mirrored', '--strategy=multi_worker_mirrored'


@pytest.mark.parametrize(
    'cluster, task, argv, strategy, role, tasks, index, replicas, has_evaluator',
    [
        (None, '', [], 'none', 'chief', 1, 0, 1, False),
        (None, '', ['--strategy=none'], 'none', 'chief', 1, 0, 1, False),
        (None, '', [TWO], 'mirrored', 'chief', 1, 0, 2, False),
        (None, '', [MIRRORED], 'mirrored', 'chief', 1, 0, 1, False),
        (None, '', [MIRRORED, '--num_replicas=3'], 'mirrored', 'chief', 1, 0, 3, False),
        (ONE, 'worker:0', [], 'none', 'chief', 1, 0, 1, False),
        (ONE, 'evaluator:0', [], 'none', 'evaluator', 1, 0, 1, True),  # outside of its cluster
        (ONE_EVALUATED, 'worker:0', [], 'none', 'chief', 1, 0, 1, True),
        (ONE_EVALUATED, 'evaluator:0', [], 'none', 'evaluator', 1, 0, 1, True),
        (ONE_EVALUATED, 'worker:0', [TWO], 'mirrored', 'chief', 1, 0, 2, True),
        (ONE_EVALUATED, 'worker:0', [SYNC], 'multi_worker_mirrored', 'chief', 1, 0, 1, True),
        (WORKERS, 'worker:0', [], 'multi_worker_mirrored', 'chief', 3, 0, 3, False),
        (WORKERS, 'worker:2', [], 'multi_worker_mirrored', 'worker', 3, 2, 3, False),
        (WORKERS, 'worker:1', [TWO], 'multi_worker_mirrored', 'worker', 3, 1, 6, False),
        (WORKERS, 'worker:1', [TWO, SYNC], 'multi_worker_mirrored', 'worker', 3, 1, 6, False),
        (CHIEF_WORKER, 'chief:0', [], 'multi_worker_mirrored', 'chief', 2, 0, 2, True),
        (CHIEF_WORKER, 'worker:0', [], 'multi_worker_mirrored', 'worker', 2, 1, 2, True),
        (CHIEF_WORKER, 'evaluator:0', [], 'multi_worker_mirrored', 'evaluator', 2, 0, 2, True),
        (PS, 'chief:0', [], 'parameter_server', 'chief', 3, 0, 1, False),
        (PS, 'worker:0', [], 'parameter_server', 'worker', 3, 1, 1, False),
        (PS, 'worker:1', ['--strategy=parameter_server'], 'parameter_server', 'worker', 3, 2, 1, False),
        (PS, 'ps:1', [], 'parameter_server', 'ps', 3, 0, 1, False),
        (PS, 'chief:0', ['--sync_ps'], 'parameter_server', 'chief', 3, 0, 3, False),
        (PS, 'worker:1', ['--sync_ps'], 'parameter_server', 'worker', 3, 2, 3, False),
        (PS_EVALUATED, 'chief:0', [], 'parameter_server', 'chief', 3, 0, 1, True),
        (PS_EVALUATED, 'evaluator:0', [], 'parameter_server', 'evaluator', 3, 0, 1, True),
    ],
)
def test_the_part_of_each_task(cluster, task, argv, strategy, role, tasks, index, replicas, has_evaluator):
    plan = planned(cluster, task, *argv)
    assert (plan.strategy, plan.role, plan.has_evaluator) == (strategy, role, has_evaluator)
    assert (plan.is_chief, plan.trains) == (role == 'chief', role in ('chief', 'worker'))
    assert (plan.num_training_tasks, plan.training_index) == (tasks, index)
    assert (plan.num_replicas, plan.global_batch_size) == (replicas, 8 * replicas)


@pytest.mark.parametrize(
    'cluster, tasks, writer',
    [
        (None, [''], ''),
        (ONE, ['worker:0', 'evaluator:0'], 'worker:0'),  # which does not know of the evaluator
        (WORKERS, ['worker:0', 'worker:1', 'worker:2'], 'worker:0'),
        (CHIEF_WORKER, ['chief:0', 'worker:0', 'evaluator:0'], 'evaluator:0'),
        (PS, ['chief:0', 'worker:0', 'worker:1', 'ps:0', 'ps:1'], 'chief:0'),
        (PS_EVALUATED, ['chief:0', 'evaluator:0'], 'evaluator:0'),
    ],
)
def test_one_task_writes_the_page(cluster, tasks, writer):
    assert [task for task in tasks if planned(cluster, task).writes_page] == [writer]


@pytest.mark.parametrize(
    'cluster, task, watchers, chief',
    [
        (None, '', 1, None),
        (WORKERS, 'worker:0', 1, WORKERS['worker'][0]),
        (WORKERS, 'worker:2', 2, WORKERS['worker'][0]),
        (CHIEF_WORKER, 'worker:0', 1, CHIEF_WORKER['chief'][0]),
        (CHIEF_WORKER, 'evaluator:0', 1, CHIEF_WORKER['chief'][0]),
        (PS, 'chief:0', 3, PS['chief'][0]),
        (PS, 'ps:1', 2, PS['chief'][0]),
    ],
)
def test_who_else_watches_the_same_peers(cluster, task, watchers, chief):
    plan = planned(cluster, task)
    assert plan.chief_address == chief
    assert plan.num_watchers == watchers or not plan.watched_peers()


@pytest.mark.parametrize(
    'task, argv, peers, watchers',
    [
        ('chief:0', [], ['ps:0', 'ps:1'], 3),
        ('worker:1', [], ['ps:0', 'ps:1'], 3),
        ('ps:0', [], ['chief:0', 'worker:0', 'worker:1'], 2),
        ('chief:0', ['--sync_ps'], ['ps:0', 'ps:1', 'worker:0', 'worker:1'], 3),
        ('worker:1', ['--sync_ps'], ['ps:0', 'ps:1', 'chief:0'], 3),
        ('ps:0', ['--sync_ps'], ['chief:0', 'worker:0', 'worker:1'], 2),
        ('evaluator:0', ['--sync_ps'], [], None),
    ],
)
def test_whom_a_task_beside_parameter_servers_watches(task, argv, peers, watchers):
    plan = planned(PS_EVALUATED, task, *argv)
    assert list(plan.watched_peers()) == peers
    assert watchers is None or plan.num_watchers == watchers


def test_blank_tf_config_is_a_process_of_its_own():
    config = planned().config
    assert planning.make(config, {'TF_CONFIG': ' '}) == planning.make(config, {})


MPI = {'OMPI_COMM_WORLD_RANK': '2', 'OMPI_COMM_WORLD_SIZE': '3', 'OMPI_COMM_WORLD_LOCAL_RANK': '0'}


def under_an_engine(environ, *argv):
    return planning.make(parse(['trainer', f'--model_dir={MODEL_DIR}', '--max_steps=5', *argv]), environ)


def test_a_cluster_from_an_engine():
    plan = under_an_engine(MPI, '--hosts=a,b,c', '--roles=chief:1,evaluator:1,worker:1', '--base_port=3000')
    assert (plan.role, plan.strategy, plan.num_training_tasks) == ('worker', 'multi_worker_mirrored', 2)
    assert plan.watched_peers() == {'chief:0': 'a:3000'} and plan.has_evaluator
    (note,) = plan.notes
    assert note.startswith('cluster from Open MPI')


def test_tf_config_comes_before_an_engine():
    environ = {**MPI, 'TF_CONFIG': json.dumps({'cluster': ONE, 'task': {'type': 'worker', 'index': 0}})}
    assert under_an_engine(environ).strategy == 'none'
    assert under_an_engine(environ, '--cluster_from=openmpi', '--hosts=a,b,c').num_training_tasks == 3


@pytest.mark.parametrize(
    'environ, argv, parts',
    [
        (MPI, [], ['--hosts', 'OMPI_COMM_WORLD_SIZE = 3']),
        (MPI, ['--hosts=a,b,c', '--roles=worker:2'], ['--roles = worker:2', 'makes 2', 'has 3']),
        (MPI, ['--hosts=a,b,c', '--roles=worker:2,ps:1'], ['cluster.chief', '--roles=chief:1,worker:1,ps:1']),
        (MPI, ['--hosts=a,b,c', '--strategy=none'], ['multi_worker_mirrored']),
        ({}, ['--roles=wroker:2'], ['--roles=wroker:2', 'did you mean "worker"?']),
        ({}, ['--base_port=0'], ['--base_port=0']),
        ({}, ['--cluster_from=slurm'], ['SLURM_JOB_ID', 'srun']),
        ({}, ['--cluster_from=tf_config', SYNC], [SYNC, 'needs a cluster', '--cluster_from']),
    ],
)
def test_refused_under_an_engine(environ, argv, parts):
    with pytest.raises(UsageError) as caught:
        under_an_engine(environ, *argv)
    assert all(part in str(caught.value) for part in parts), caught.value


def test_notes_of_tf_config_are_kept():
    (note,) = planned({'master': ['a:1']}, 'chief:0').notes
    assert 'master' in note and planned(ONE, 'worker:0').notes == ()


@pytest.mark.parametrize(
    'cluster, task, argv, parts',
    [
        (None, '', [SYNC], [SYNC, 'needs a cluster', 'TF_CONFIG', 'run_local_cluster.sh']),
        (
            None,
            '',
            ['--strategy=parameter_server'],
            ['--strategy=parameter_server', 'needs a cluster', 'TF_CONFIG', 'run_local_cluster.sh'],
        ),
        ({'worker': []}, 'worker:0', [SYNC], ['cluster = {"worker": []}', 'lists no task', 'multi_worker_mirrored']),
        ({}, 'worker:0', [SYNC], ['cluster = {}', 'lists no task', 'multi_worker_mirrored needs a cluster']),
        (
            {'chief': [], 'worker': [], 'ps': []},
            'chief:0',
            ['--strategy=parameter_server'],
            ['lists no task', 'parameter_server needs a cluster', 'corrected'],
        ),
        (None, '', [TWO, '--strategy=none'], [TWO, 'mirrored', 'the strategy is none']),
        (None, '', ['--sync_ps'], ['--sync_ps', 'parameter servers', 'the strategy is none']),
        (WORKERS, 'worker:1', ['--sync_ps'], ['--sync_ps', 'the strategy is multi_worker_mirrored']),
        (PS, 'worker:0', [TWO, '--sync_ps'], [TWO, 'the strategy is parameter_server']),
        (PS, 'worker:0', ['--accumulate_steps=3'], ['--accumulate_steps=3', 'no common step', '--sync_ps']),
        (PS, 'worker:0', [TWO], [TWO, 'the strategy is parameter_server']),
        (PS, 'worker:0', [TWO, '--strategy=parameter_server'], [TWO, 'the strategy is parameter_server']),
        (None, '', ['--eval_strategy=mirrored'], ['--eval_strategy=mirrored', '--num_replicas=1', '--num_replicas=2']),
        (WORKERS, 'worker:0', ['--eval_strategy=mirrored'], ['--eval_strategy=mirrored']),
        (WORKERS, 'worker:0', ['--strategy=none'], ['TF_CONFIG', 'multi_worker_mirrored', 'corrected']),
        (PS, 'worker:0', [SYNC], ['cluster.ps', 'parameter_server', 'corrected']),
        (WORKERS, 'worker:3', [], ['task.index', 'from 0 to 2', 'rule: ']),
        ({'workers': ['a:1']}, 'worker:0', [], ['cluster.workers', 'did you mean "worker"?', 'corrected']),
    ],
)
def test_refused(cluster, task, argv, parts):
    with pytest.raises(UsageError) as caught:
        planned(cluster, task, *argv)
    assert all(part in str(caught.value) for part in parts), caught.value


def test_mirrored_evaluation_of_two_replicas():
    assert planned(None, '', '--num_replicas=auto', '--eval_strategy=mirrored').config.eval_strategy == 'none'
    assert planned(None, '', TWO, '--eval_strategy=mirrored').config.eval_strategy == 'mirrored'


@pytest.mark.parametrize(
    'cluster, task, argv, parts',
    [
        (
            None,
            '',
            ['--eval_throttle_secs=77'],
            [
                'strategy none; this process of 1 task(s)',
                '8 per replica x 1 replica(s) = 8 global',
                'evaluation: by this process',
                'every 77 s',
                'at the end',
            ],
        ),
        (None, '', [TWO], ['strategy mirrored', '8 per replica x 2 replica(s) = 16 global']),
        (
            WORKERS,
            'worker:0',
            [TWO],
            [
                'strategy multi_worker_mirrored; worker:0 (chief) of 3 task(s)',
                '8 per replica x 6 replica(s) = 48 global',
                'evaluation: by the chief, at the end',
            ],
        ),
        (WORKERS, 'worker:1', [], ['; worker:1 of 3 task(s)', 'evaluation: by the chief']),
        (
            CHIEF_WORKER,
            'chief:0',
            [],
            ['chief:0 (chief) of 3 task(s)', 'evaluation: by the evaluator task', 'always the last'],
        ),
        (ONE_EVALUATED, 'worker:0', [], ['strategy none', 'evaluation: by the evaluator task']),
        (ONE_EVALUATED, 'evaluator:0', [], ['evaluator:0 of 2', 'evaluation: by the evaluator task']),
        (
            PS,
            'ps:0',
            [],
            [
                'strategy parameter_server; ps:0 of 5 task(s)',
                'asynchronous: 3 workers',
                'one batch of 8',
                'evaluation: by the chief, at the end',
            ],
        ),
        (
            PS,
            'worker:0',
            ['--sync_ps'],
            [
                'strategy parameter_server in step (--sync_ps); worker:0 of 5',
                '8 per replica x 3 replica(s) = 24 global',
            ],
        ),
        ({'chief': ['a:1'], 'ps': ['p:1']}, 'chief:0', [], ['evaluation: by the chief, at the end']),
        (
            None,
            '',
            ['--job=my.module:job', '--dataset=cifar10'],
            [f'job my.module:job, model_dir {MODEL_DIR}'],  # what it reads is not known yet
        ),
    ],
)
def test_describe(cluster, task, argv, parts):
    lines = messages.describe(planned(cluster, task, *argv))
    assert all(any(part in line for line in lines) for part in parts), lines
    assert sum(line.startswith('evaluation: ') for line in lines) == 1


def test_describe_counts_an_evaluator_outside_of_its_cluster():
    assert 'evaluator:0 of 2 task(s)' in messages.describe(planned(ONE, 'evaluator:0'))[1]


@pytest.mark.parametrize('argv', [[], [TWO]])
def test_accumulated_batches_are_part_of_the_global_batch(argv):
    plan, plain = planned(WORKERS, 'worker:1', '--accumulate_steps=4', *argv), planned(WORKERS, 'worker:1', *argv)
    assert plan.num_replicas == plain.num_replicas and plan.batches_per_step == 4 * plain.num_replicas
    assert plan.global_batch_size == 4 * plain.global_batch_size
    said = f'batch: 8 per replica x {plan.num_replicas} replica(s) x 4 accumulated = {plan.global_batch_size} global'
    assert said in messages.describe(plan)
