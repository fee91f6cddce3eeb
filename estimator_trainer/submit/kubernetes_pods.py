"""What the pods of a job have in common, whichever kind of object makes them; and who may talk to them."""

from estimator_trainer.submit.description import TRAINER, Description, Role
from tf_config.resolvers.layout import BASE_PORT

USER = 1000  # any but root; the image's files are readable by all
# Pods of one set do not start together: a node is added, an image is pulled, a name gets into the DNS.
JOIN_TIMEOUT_SECS = 600
TMP = '/tmp'  # the only place to write to but the volume; HOME too
_DNS = ({'protocol': 'UDP', 'port': 53}, {'protocol': 'TCP', 'port': 53})


def labels(description: Description, role: str | None = None) -> dict:
    """Of all objects of the job; with `role`, of that role's pods."""
    found = {'app.kubernetes.io/name': 'estimator-trainer', 'app.kubernetes.io/instance': description.name}
    return {**found, 'app.kubernetes.io/component': role} if role else found


def port(description: Description) -> int:
    """The same in every pod: each has an address of its own."""
    return description.base_port or BASE_PORT


def metadata(description: Description) -> dict:
    namespace = description.kubernetes.namespace
    return {'name': description.name, **({'namespace': namespace} if namespace else {}), 'labels': labels(description)}


def template(
    description: Description,
    role: Role,
    cluster_flags: tuple,
    environ: dict,
    component: str | None = None,
    container: str = 'trainer',
    **spec,
) -> dict:
    """A pod template.

    Args:
        role: what each pod may use.
        cluster_flags, environ: flags and variables that tell a task its place.
        component: the role of all these pods; None: they have several.
        spec: further keys of the pod.
    """
    python, *rest = description.command(*cluster_flags)
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
        'ports': [{'name': 'tfjob-port', 'containerPort': port(description), 'protocol': 'TCP'}],
        'resources': _resources(role),
        'volumeMounts': [
            {'name': 'model', 'mountPath': description.kubernetes.mount},
            {'name': 'tmp', 'mountPath': TMP},
        ],
        'securityContext': {
            'allowPrivilegeEscalation': False,
            'readOnlyRootFilesystem': True,
            'capabilities': {'drop': ['ALL']},
        },
    }
    minutes = description.time_limit_minutes
    return {
        'metadata': {'labels': labels(description, component)},
        'spec': {
            **spec,
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
            'volumes': [
                {'name': 'model', 'persistentVolumeClaim': {'claimName': description.kubernetes.claim}},
                {'name': 'tmp', 'emptyDir': {}},
            ],
        },
    }


def network_policy(description: Description) -> dict:
    """Nobody but the job's own pods reaches its port, and they reach nobody else but the DNS.

    The DNS at any address: where a cache runs on the node, no selector names it.
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
            'egress': [{'to': [own], 'ports': [peers]}, {'ports': [dict(rule) for rule in _DNS]}],
        },
    }


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


def _resources(role: Role) -> dict:
    """Asked for and bounded alike: tasks that wait for each other gain nothing from one that is faster."""
    what = {'cpu': str(role.cores), 'memory': f'{role.memory_mib}Mi'}
    gpus = {'nvidia.com/gpu': str(role.gpus)} if role.gpus else {}
    return {'requests': {**what, **gpus}, 'limits': {**what, **gpus}}


def _literal(text: str) -> str:
    """Text that Kubernetes, which replaces $(NAME) in a command, leaves as it is."""
    return text.replace('$', '$$')
