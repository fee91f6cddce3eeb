"""Manifests: as text, by what they hold, and by the judgement of others' schemas and models."""

import json
import pathlib
import subprocess

import pytest

import tf_config
from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.submit import description as descriptions
from estimator_trainer.submit import kubernetes_objects
from tests.submit import kubernetes_pod

yaml = pytest.importorskip('yaml', reason='PyYAML, which reads job descriptions, is not installed')

DEPLOY = pathlib.Path(__file__).parents[2] / 'deploy' / 'kubernetes'
KINDS = ('job', 'jobset', 'tfjob')
PS = {'chief': {'cores': 2, 'memory_gib': 4}, 'worker': {'count': 2}, 'ps': {'gpus': 1}, 'evaluator': {}}


def describe(kind='job', roles=None, **changes):
    value = yaml.safe_load((DEPLOY / 'mnist.yaml').read_text())
    value['kubernetes']['kind'] = kind
    value['roles'] = roles or {'worker': {'count': 2, 'cores': 2, 'memory_gib': 4}}
    value['kubernetes'].update(changes.pop('kubernetes', {}))
    return descriptions.parse({**value, **changes})


def objects(description) -> dict:
    """kind -> object."""
    documents = [one for text in kubernetes_objects.render(description).values() for one in yaml.safe_load_all(text)]
    return {document['kind']: document for document in documents}


def templates(main) -> dict:
    """Pod templates by the role of the pods; '' where they have several."""
    spec = main['spec']
    if main['kind'] == 'Job':
        return {'': spec['template']}
    if main['kind'] == 'JobSet':
        return {job['name']: job['template']['spec']['template'] for job in spec['replicatedJobs']}
    return {name.lower(): replica['template'] for name, replica in spec['tfReplicaSpecs'].items()}


def main_object(description):
    found = objects(description)
    return next(found[kind] for kind in ('Job', 'JobSet', 'TFJob') if kind in found)


def example(kind):
    """The description of the example of a kind; an Indexed Job has no room for an evaluator of another size."""
    value = yaml.safe_load((DEPLOY / 'mnist.yaml').read_text())
    value['kubernetes']['kind'] = kind
    if kind == 'job':
        del value['roles']['evaluator']
    return descriptions.parse(value)


@pytest.mark.parametrize('kind', KINDS)
def test_text(kind):
    """The examples are what `render` writes, to the letter."""
    assert (
        ''.join(kubernetes_objects.render(example(kind)).values()) == (DEPLOY / 'examples' / f'{kind}.yaml').read_text()
    )


@pytest.mark.parametrize('roles', [None, PS], ids=['workers', 'parameter-servers'])
@pytest.mark.parametrize('kind', KINDS)
def test_pods_have_no_privilege(kind, roles):
    if kind == 'job' and roles:
        roles = {name: {'count': role.get('count', 1)} for name, role in roles.items()}
    for template in templates(main_object(describe(kind, roles))).values():
        pod, (container,) = template['spec'], template['spec']['containers']
        assert pod['automountServiceAccountToken'] is pod['enableServiceLinks'] is False
        assert pod['securityContext']['runAsNonRoot'] is True and pod['securityContext']['runAsUser'] != 0
        assert pod['securityContext']['seccompProfile'] == {'type': 'RuntimeDefault'}
        assert container['securityContext'] == {
            'allowPrivilegeEscalation': False,
            'readOnlyRootFilesystem': True,
            'capabilities': {'drop': ['ALL']},
        }
        assert not {'hostNetwork', 'hostPID', 'hostIPC'} & pod.keys()
        assert [volume.keys() - {'name'} for volume in pod['volumes']] == [{'persistentVolumeClaim'}, {'emptyDir'}]


@pytest.mark.parametrize('kind', KINDS)
def test_only_the_jobs_own_pods_reach_its_port(kind):
    found = objects(describe(kind, base_port=4444))
    assert all(
        document['metadata']['labels']
        == {'app.kubernetes.io/name': 'estimator-trainer', 'app.kubernetes.io/instance': 'mnist'}
        for document in found.values()
    )
    policy = found['NetworkPolicy']['spec']
    own = {'podSelector': {'matchLabels': found['NetworkPolicy']['metadata']['labels']}}
    peers = {'ports': [{'protocol': 'TCP', 'port': 4444}]}
    assert policy['podSelector'] == own['podSelector']
    assert policy['policyTypes'] == ['Ingress', 'Egress']
    assert policy['ingress'] == [{'from': [own], **peers}]
    assert policy['egress'] == [
        {'to': [own], **peers},
        {'ports': [{'protocol': 'UDP', 'port': 53}, {'protocol': 'TCP', 'port': 53}]},
    ]
    for template in templates(main_object(describe(kind, base_port=4444))).values():
        assert own['podSelector']['matchLabels'].items() <= template['metadata']['labels'].items()
        assert template['spec']['containers'][0]['ports'][0]['containerPort'] == 4444


def test_the_service_of_a_job_names_pods_before_they_are_ready():
    found = objects(describe('job'))
    service, template = found['Service'], found['Job']['spec']['template']
    assert service['spec']['clusterIP'] == 'None' and service['spec']['publishNotReadyAddresses'] is True
    assert service['metadata']['name'] == template['spec']['subdomain']
    assert service['spec']['selector'].items() <= template['metadata']['labels'].items()


def test_the_controllers_of_the_others_make_their_services():
    assert 'Service' not in objects(describe('jobset')) and 'Service' not in objects(describe('tfjob'))
    network = objects(describe('jobset'))['JobSet']['spec']['network']
    assert network == {'enableDNSHostnames': True, 'subdomain': 'mnist', 'publishNotReadyAddresses': True}


def rules_of(job) -> list:
    return [(rule['action'], *sorted(rule.keys() - {'action'})) for rule in job['podFailurePolicy']['rules']]


def test_codes_below_128_are_permanent():
    job = main_object(describe('job'))['spec']
    codes = job['podFailurePolicy']['rules'][1]['onExitCodes']
    assert codes == {'operator': 'In', 'values': list(range(1, 128))}
    for code in exit_codes.MEANINGS:
        assert (code in codes['values']) == (code != 0 and not exit_codes.retryable(code))


def test_an_indexed_job_restarts_each_pod_as_often_as_the_gang():
    job = main_object(describe('job', max_restarts=5))['spec']
    assert (job['completionMode'], job['completions'], job['parallelism']) == ('Indexed', 2, 2)
    assert (job['backoffLimitPerIndex'], job['maxFailedIndexes']) == (5, 0)
    assert rules_of(job) == [('Ignore', 'onPodConditions'), ('FailJob', 'onExitCodes')]
    assert job['template']['spec']['restartPolicy'] == 'Never'


def test_a_jobset_restarts_as_a_whole():
    spec = main_object(describe('jobset', max_restarts=5))['spec']
    assert spec['failurePolicy'] == {
        'maxRestarts': 5,
        'restartStrategy': 'BlockingRecreate',
        'rules': [{'name': 'permanent', 'action': 'FailJobSet', 'onJobFailureReasons': ['PodFailurePolicy']}],
    }
    (replicated,) = spec['replicatedJobs']
    job = replicated['template']['spec']
    assert (replicated['replicas'], job['completions'], job['parallelism']) == (1, 2, 2)
    assert job['backoffLimit'] == 0 and 'backoffLimitPerIndex' not in job
    assert rules_of(job) == [('Count', 'onPodConditions'), ('FailJob', 'onExitCodes')]


def test_in_a_jobset_an_evaluator_and_asynchronous_workers_restart_alone():
    spec = main_object(describe('jobset', PS, max_restarts=5))['spec']
    jobs = {job['name']: job['template']['spec'] for job in spec['replicatedJobs']}
    assert {name: job.get('backoffLimitPerIndex') for name, job in jobs.items()} == {
        'chief': None,
        'worker': 5,
        'ps': None,
        'evaluator': 5,
    }
    assert rules_of(jobs['worker']) == [('Ignore', 'onPodConditions'), ('FailJob', 'onExitCodes')]


def test_a_tfjob_goes_by_the_same_border():
    spec = main_object(describe('tfjob', PS))['spec']
    assert list(spec['tfReplicaSpecs']) == ['Chief', 'Worker', 'PS', 'Evaluator']
    assert {replica['restartPolicy'] for replica in spec['tfReplicaSpecs'].values()} == {'ExitCode'}
    assert spec['runPolicy']['cleanPodPolicy'] == 'None'  # the evaluator still has to evaluate
    for template in templates({'kind': 'TFJob', 'spec': spec}).values():
        assert template['spec']['containers'][0]['name'] == 'tensorflow'
        assert template['spec']['containers'][0]['ports'][0]['name'] == 'tfjob-port'
    never = main_object(describe('tfjob', max_restarts=0))['spec']['tfReplicaSpecs']
    assert never['Worker']['restartPolicy'] == 'Never'


def test_resources_are_those_of_the_role():
    found = templates(main_object(describe('jobset', PS)))
    resources = {name: template['spec']['containers'][0]['resources'] for name, template in found.items()}
    assert resources['chief']['requests'] == resources['chief']['limits'] == {'cpu': '2', 'memory': '4096Mi'}
    assert resources['ps']['limits'] == {'cpu': '1', 'memory': '4096Mi', 'nvidia.com/gpu': '1'}
    assert '--intra_op_threads=2' in found['chief']['spec']['containers'][0]['args']


def test_a_pod_has_time_to_save():
    pod = templates(main_object(describe('job', grace_secs=90, time_limit_minutes=3)))['']['spec']
    assert pod['terminationGracePeriodSeconds'] == 90
    assert pod['activeDeadlineSeconds'] == 180
    assert '--grace_secs=85' in pod['containers'][0]['args']


def test_the_jobs_own_flags_win():
    args = templates(main_object(describe('job', args=['--join_timeout_secs=7'])))['']['spec']['containers'][0]['args']
    ours, theirs = args.index('--join_timeout_secs=600'), args.index('--join_timeout_secs=7')
    assert ours < args.index('--flagfile=configs/mnist_5k.flags') < theirs


def test_kubernetes_does_not_expand_what_is_the_jobs():
    description = describe('job', args=['--param=price=$(HOME) $$5'], environment={'PRICE': '$(HOME)'})
    pod = kubernetes_pod.Pod(main_object(description)['spec']['template'], {'HOME': 'expanded'})
    assert '--param=price=$(HOME) $$5' in pod.argv
    assert pod.environ['PRICE'] == '$(HOME)'


@pytest.mark.parametrize(
    'key, value, said',
    [
        ('image', None, 'image.*Dockerfile'),
        ('kubernetes', {'claim': None}, 'kubernetes.claim.*PersistentVolumeClaim'),
        ('kubernetes', {'mount': None}, 'kubernetes.mount.*/models/runs'),
        ('kubernetes', {'mount': '/tmp'}, 'kubernetes.mount=/tmp'),
        ('model_dir', '/elsewhere/mnist', 'model_dir=/elsewhere/mnist.*kubernetes.mount=/models'),
        ('model_dir', '/models/../elsewhere', 'model_dir'),
        ('roles', {'worker': {}, 'evaluator': {'cores': 4}}, 'kubernetes.kind=job.*kind: jobset'),
        ('roles', {'worker': {'count': 2}, 'ps': {}}, 'roles.*parameter_server'),
    ],
)
def test_what_cannot_work_is_refused_with_the_cure(key, value, said):
    with pytest.raises(UsageError, match=said):
        kubernetes_objects.render(describe('job', **{key: value}))


def test_submit_applies_the_network_and_creates_the_job(tmp_path):
    called = []

    def run(command):
        called.append(command)
        return subprocess.CompletedProcess(command, codes.pop(0))

    codes = [0, 1]
    assert kubernetes_objects.submit(describe('job'), tmp_path, run) == 1
    codes = [3]
    assert kubernetes_objects.submit(describe('job'), tmp_path, run) == 3
    network, job = (str(tmp_path / name) for name in ('network.yaml', 'job.yaml'))
    assert called == [
        ['kubectl', 'apply', '-f', network],
        ['kubectl', 'create', '-f', job],
        ['kubectl', 'apply', '-f', network],
    ]


# A model_dir in a store: nothing is shared.


# Who is who: from the manifest to the cluster that the trainer sees.


@pytest.mark.parametrize(
    'kind, hosts',
    [
        ('job', ['mnist-0.mnist', 'mnist-1.mnist', 'mnist-2.mnist', 'mnist-3.mnist', 'mnist-4.mnist']),
        (
            'jobset',
            [
                'mnist-chief-0-0.mnist',
                'mnist-worker-0-0.mnist',
                'mnist-worker-0-1.mnist',
                'mnist-ps-0-0.mnist',
                'mnist-evaluator-0-0.mnist',
            ],
        ),
    ],
)
def test_every_pod_finds_its_place(kind, hosts):
    roles = {name: {'count': role.get('count', 1)} for name, role in PS.items()}
    tasks = ['chief:0', 'worker:0', 'worker:1', 'ps:0', 'evaluator:0']
    pods = kubernetes_pod.pods(main_object(describe(kind, roles)))
    assert [pod.hostname for pod in pods] == [host.partition('.')[0] for host in hosts]
    for pod, task in zip(pods, tasks, strict=True):
        found = pod.cluster()
        assert str(found.task) == task
        assert [found.cluster.address(one) for one in found.cluster.tasks] == [f'{host}:2222' for host in hosts]


def test_what_kubeflow_writes_into_tf_config_is_understood():
    """As its controller of release 1.9 does, for the roles of the manifest."""
    replicas = main_object(describe('tfjob', PS))['spec']['tfReplicaSpecs']
    cluster = {
        name.lower(): [f'mnist-{name.lower()}-{index}.default.svc:2222' for index in range(replica['replicas'])]
        for name, replica in replicas.items()
    }
    for role, addresses in cluster.items():
        text = json.dumps(
            {'cluster': cluster, 'task': {'type': role, 'index': len(addresses) - 1}, 'environment': 'cloud'}
        )
        template = replicas[{'ps': 'PS'}.get(role, role.title())]['template']
        pod = kubernetes_pod.Pod(template, {'TF_CONFIG': text})
        found = pod.cluster()
        assert found.task == tf_config.Task(role, len(addresses) - 1)
        assert found.cluster.worker == tuple(cluster['worker'])


# The judgement of others.
