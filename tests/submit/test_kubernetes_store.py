"""Manifests of runs whose model_dir is in an object store."""

import pytest

from estimator_trainer.errors import UsageError
from estimator_trainer.submit import description as descriptions
from estimator_trainer.submit import kubernetes_objects

yaml = pytest.importorskip('yaml', reason='PyYAML, which reads job descriptions, is not installed')
from tests.submit.test_kubernetes_objects import DEPLOY, KINDS, describe, main_object, objects, templates  # noqa: E402


def of_store(kind='jobset', model_dir='s3://bucket/runs/mnist', kubernetes=None, **changes):
    return describe(
        kind, model_dir=model_dir, kubernetes={'claim': None, 'mount': None, **(kubernetes or {})}, **changes
    )


def test_text_of_a_run_in_a_store():
    files = kubernetes_objects.render(descriptions.load(DEPLOY / 'mnist_in_store.yaml'))
    assert ''.join(files.values()) == (DEPLOY / 'examples' / 'jobset_in_store.yaml').read_text()


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
