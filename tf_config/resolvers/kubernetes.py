"""The cluster of a job of Kubernetes, from the names of its pods.

The contract between a manifest and the trainer (`--cluster_from=kubernetes`, or `auto`):

    JOB_COMPLETION_INDEX       set by Kubernetes in every pod of an Indexed Job; a JobSet is made of them
    HOSTNAME                   set by Kubernetes: the pod's host name, `PREFIX-INDEX`
    ESTIMATOR_TRAINER_SERVICE  set by the manifest: the headless Service in which the pods have their names,
                               the `subdomain` of the pod template (of a JobSet: its `network.subdomain`,
                               which is the JobSet's name by default)
    ESTIMATOR_TRAINER_ROLE     set by the manifest where each role is a Job of its own, as in a JobSet with
                               one replicatedJob of one replica for each role, named like the role: this
                               pod's role. JOB_COMPLETION_INDEX is then the index in the role
    ESTIMATOR_TRAINER_JOB      set by the manifest only where HOSTNAME is not the pod's (hostNetwork): the
                               PREFIX; with ESTIMATOR_TRAINER_ROLE the name of the JobSet

The number of pods is nowhere in the environment: `--roles` gives it, and has to name every pod.

    Indexed Job   rank = JOB_COMPLETION_INDEX         address of rank R    PREFIX-R.SERVICE:PORT
    StatefulSet   rank = the number ending HOSTNAME   the same
    JobSet        task = ROLE:JOB_COMPLETION_INDEX    address of ROLE:I    JOBSET-ROLE-0-I.SERVICE:PORT

PORT is `--base_port` (2222), the same for all: each pod has an address of its own.
"""

import re
from collections.abc import Mapping

from tf_config.cluster import Task
from tf_config.resolvers.layout import BASE_PORT, Layout, Ranks, numbered, refusal

NAME = 'Kubernetes'
SERVICE = 'ESTIMATOR_TRAINER_SERVICE'
ROLE = 'ESTIMATOR_TRAINER_ROLE'
JOB = 'ESTIMATOR_TRAINER_JOB'
INDEX = 'JOB_COMPLETION_INDEX'


def is_pod(environ: Mapping[str, str]) -> bool:
    """Whether this process is in a pod whose manifest keeps the contract."""
    return bool(environ.get(SERVICE))


def resolve(environ: Mapping[str, str], layout: Layout) -> Ranks:
    """The ranks of this Job, JobSet or StatefulSet.

    Raises:
        ResolverError: the manifest does not keep the contract, or --roles does not name every pod.
    """
    service, role = environ.get(SERVICE), environ.get(ROLE)
    if not service:
        raise refusal(
            NAME,
            SERVICE,
            None,
            'the pods have no names for each other: set it to the name of a '
            'headless Service, which is the subdomain of the pod template',
        )
    if not layout.size:
        raise refusal(
            NAME,
            '--roles',
            None,
            'Kubernetes does not tell a pod how many others there are: give '
            'every role and its count, such as --roles=worker:2',
        )
    if role is not None and role not in dict(layout.roles):
        raise refusal(NAME, ROLE, role, f'is none of --roles={layout.given()["--roles"]}')
    index, variable = _index(environ)
    tasks = layout.tasks(layout.size)
    if role is None:
        prefix = _prefix(environ, f'-{index}')
        names = [f'{prefix}-{rank}' for rank in range(layout.size)]
        rank = index
    else:
        prefix = _prefix(environ, f'-{role}-0-{index}')
        names = [f'{prefix}-{task.role}-0-{task.index}' for task in tasks]
        if Task(role, index) not in tasks:
            raise refusal(NAME, variable, index, f'is no index of {role}: --roles={layout.given()["--roles"]}')
        rank = tasks.index(Task(role, index))
    addresses = numbered(NAME, [f'{name}.{service}' for name in names], layout.base_port or BASE_PORT)
    where = f'the pods {prefix}-* of service {service}'
    return Ranks(NAME, where, rank, variable, addresses)


def _index(environ: Mapping[str, str]) -> tuple[int, str]:
    """The index of this pod, and the variable that has it."""
    text, variable = environ.get(INDEX), INDEX
    if text is None:
        text, variable = environ.get('HOSTNAME', '').rpartition('-')[2], 'HOSTNAME'
    if not re.fullmatch('[0-9]{1,9}', text):
        raise refusal(
            NAME,
            variable,
            environ.get(variable),
            'has no index of this pod: run the pods as an '
            'Indexed Job, which sets JOB_COMPLETION_INDEX, or as a StatefulSet',
        )
    return int(text), variable


def _prefix(environ: Mapping[str, str], end: str) -> str:
    """The beginning of the names of all pods. The name of this pod ends with `end`."""
    if environ.get(JOB):
        return environ[JOB]
    hostname = environ.get('HOSTNAME', '')
    if not hostname.endswith(end) or hostname == end:
        raise refusal(
            NAME,
            'HOSTNAME',
            environ.get('HOSTNAME'),
            f'does not end in "{end}", as the name of this pod would: set {JOB} to what the names '
            'of the pods begin with',
        )
    return hostname.removesuffix(end)
