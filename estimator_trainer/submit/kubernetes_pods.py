"""What the pods of a job have in common, whichever kind of object makes them; and who may talk to them."""

import math
from urllib.parse import urlsplit

from estimator_trainer.submit.description import TRAINER, Description, RoleTasks
from tf_config.resolvers.layout import BASE_PORT

USER = 1000  # any but root; the image's files are readable by all
# Pods of one set do not start together: a node is added, an image is pulled, a name gets into the DNS.
JOIN_TIMEOUT_SECS = 600
TMP = '/tmp'  # the only place to write to but the volumes; HOME too
SCRATCH = '/scratch'  # where the run works if its model_dir is in a store
HTTPS = 443
# Who gives a pod the credentials of its service account, by the extra of the store: addresses and ports on its own
# node. AWS: EKS Pod Identity; roles by web identity need HTTPS alone, as at Azure. Google: the metadata server of GKE.
_IDENTITY = {'s3': {'169.254.170.23/32': 80}, 'gcs': {'169.254.169.254/32': 80, '169.254.169.252/32': 988}, 'azure': {}}
_AZURE_IDENTITY = {'azure.workload.identity/use': 'true'}  # a pod without it gets no token
_DNS = ({'protocol': 'UDP', 'port': 53}, {'protocol': 'TCP', 'port': 53})


def labels(description: Description, role: str | None = None) -> dict:
    """The labels of all objects of the job; with `role`, those of the pods of that role."""
    common = {'app.kubernetes.io/name': 'estimator-trainer', 'app.kubernetes.io/instance': description.name}
    return {**common, 'app.kubernetes.io/component': role} if role else common


def port(description: Description) -> int:
    """The port, which is the same in every pod: each has an address of its own."""
    return description.base_port or BASE_PORT


def metadata(description: Description) -> dict:
    namespace = description.kubernetes.namespace
    return {'name': description.name, **({'namespace': namespace} if namespace else {}), 'labels': labels(description)}


def template(
    description: Description,
    role: RoleTasks,
    engine_flags: tuple,
    environ: dict,
    component: str | None = None,
    container: str = 'trainer',
    **spec: object,
) -> dict:
    """A pod template.

    Args:
        role: what each pod may use.
        engine_flags, environ: flags and variables that tell a task its place.
        component: the role of all these pods; None: they have several.
        spec: further keys of the pod.
    """
    settings, volumes = description.kubernetes, _volumes(description)
    scratch = (f'--scratch_dir={scratch_dir(description)}',) if description.in_store else ()
    python, *rest = description.command(*scratch, *engine_flags)
    # Before the flagfile and the job's own flags, which therefore win.
    ours = (f'--join_timeout_secs={JOIN_TIMEOUT_SECS}', f'--intra_op_threads={role.cores}')
    words = (*TRAINER, *ours, *rest[len(TRAINER) :])
    environ = {'HOME': TMP, 'PYTHONUNBUFFERED': '1', **dict(description.environment), **environ}
    main = {
        'name': container,
        'image': description.image,
        'command': [_literal(python)],
        'args': [_literal(word) for word in words],
        **({'workingDir': description.working_dir} if description.working_dir else {}),
        'env': [{'name': name, 'value': _literal(value)} for name, value in environ.items()],
        **({'envFrom': [{'secretRef': {'name': settings.secret}}]} if settings.secret else {}),
        'ports': [{'name': 'tfjob-port', 'containerPort': port(description), 'protocol': 'TCP'}],
        'resources': _resources(description, role),
        'volumeMounts': [{'name': name, 'mountPath': where} for name, (where, _) in volumes.items()],
        'securityContext': {
            'allowPrivilegeEscalation': False,
            'readOnlyRootFilesystem': True,
            'capabilities': {'drop': ['ALL']},
        },
    }
    minutes = description.time_limit_minutes
    identity = _AZURE_IDENTITY if settings.service_account and description.extra == 'azure' else {}
    return {
        'metadata': {'labels': {**labels(description, component), **identity}},
        'spec': {
            **spec,
            **({'serviceAccountName': settings.service_account} if settings.service_account else {}),
            'automountServiceAccountToken': False,
            'enableServiceLinks': False,
            'terminationGracePeriodSeconds': description.grace_secs,
            **({'activeDeadlineSeconds': 60 * minutes} if minutes else {}),
            'securityContext': {
                'runAsNonRoot': True,
                'runAsUser': USER,
                'runAsGroup': USER,
                'fsGroup': USER,
                'fsGroupChangePolicy': 'OnRootMismatch',
                'seccompProfile': {'type': 'RuntimeDefault'},
            },
            'containers': [main],
            'volumes': [{'name': name, **volume} for name, (_, volume) in volumes.items()],
        },
    }


def scratch_dir(description: Description) -> str:
    return description.scratch_dir or SCRATCH


def _volumes(description: Description) -> dict:
    """name -> (where it is mounted, what it is)."""
    settings = description.kubernetes
    claim = {'model': (settings.mount, {'persistentVolumeClaim': {'claimName': settings.claim}})}
    scratch = {'scratch': (scratch_dir(description), {'emptyDir': {'sizeLimit': _scratch_size(description)}})}
    return {
        **(claim if settings.claim else {}),
        **(scratch if description.in_store else {}),
        'tmp': (TMP, {'emptyDir': {}}),
    }


def _scratch_size(description: Description) -> str:
    return f'{math.ceil(description.kubernetes.scratch_gib * 1024)}Mi'


def network_policy(description: Description) -> dict:
    """Nobody but the job's own pods reaches its port, and they reach nobody else but the DNS and the store.

    Both at any address: where a cache of the DNS runs on the node, no selector names it, and stores have names.
    """
    own = {'podSelector': {'matchLabels': labels(description)}}
    peers = {'protocol': 'TCP', 'port': port(description)}
    return {
        'apiVersion': 'networking.k8s.io/v1',
        'kind': 'NetworkPolicy',
        'metadata': metadata(description),
        'spec': {
            **own,
            'policyTypes': ['Ingress', 'Egress'],
            'ingress': [{'from': [own], 'ports': [peers]}],
            'egress': [
                {'to': [own], 'ports': [peers]},
                {'ports': [dict(rule) for rule in _DNS]},
                *(_to_the_store(description) if description.in_store else ()),
            ],
        },
    }


def _to_the_store(description: Description) -> list:
    settings = description.kubernetes
    ports = sorted({HTTPS, _endpoint_port(description)})
    identity = _IDENTITY[description.extra] if settings.service_account else {}
    return [
        {'ports': [{'protocol': 'TCP', 'port': port} for port in ports]},
        *(
            {'to': [{'ipBlock': {'cidr': address}}], 'ports': [{'protocol': 'TCP', 'port': port}]}
            for address, port in identity.items()
        ),
    ]


def _endpoint_port(description: Description) -> int:
    """The port of the server that the description names instead of AWS's."""
    given = dict(description.environment)
    name = next((name for name in ('AWS_ENDPOINT_URL_S3', 'AWS_ENDPOINT_URL') if given.get(name)), None)
    if name is None or description.extra != 's3':
        return HTTPS
    try:
        parts = urlsplit(given[name])
        return parts.port or {'https': HTTPS, 'http': 80}[parts.scheme]
    except (KeyError, ValueError):
        raise description.error(f'environment.{name}', 'give a URL such as http://minio.example:9000') from None


def service(description: Description) -> dict:
    """Gives the pods their names, before they are ready: they become so by finding each other."""
    return {
        'apiVersion': 'v1',
        'kind': 'Service',
        'metadata': metadata(description),
        'spec': {
            'clusterIP': 'None',
            'publishNotReadyAddresses': True,
            'selector': labels(description),
            'ports': [{'name': 'tfjob-port', 'port': port(description), 'protocol': 'TCP'}],
        },
    }


def _resources(description: Description, role: RoleTasks) -> dict:
    """Requests and limits, which are equal: tasks that wait for each other gain nothing from one that is faster.

    The size of the scratch volume bounds it already; to ask for it finds a node that has the room.
    """
    what = {'cpu': str(role.cores), 'memory': f'{role.memory_mib}Mi'}
    gpus = {'nvidia.com/gpu': str(role.gpus)} if role.gpus else {}
    room = {'ephemeral-storage': _scratch_size(description)} if description.in_store else {}
    return {'requests': {**what, **gpus, **room}, 'limits': {**what, **gpus}}


def _literal(text: str) -> str:
    """Text that Kubernetes, which replaces $(NAME) in a command, leaves as it is."""
    return text.replace('$', '$$')
