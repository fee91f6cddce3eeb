"""Kubernetes: an Indexed Job, a JobSet or a TFJob, and the network that its pods may use.

What follows a failure is what the exit code says (exit_codes.py), and its border at 128 is all that the
objects know of it:

    job     a code below 128 fails the Job; any other pod is started again, each index as often as
            `max_restarts`. The whole set restarts, because every task ends when another is lost
    jobset  the same codes fail the JobSet; any other failure makes all pods anew, as often as
            `max_restarts`. An evaluator, or a worker beside parameter servers, is started again alone
    tfjob   `restartPolicy: ExitCode`, pod by pod; Kubeflow does not count how often
"""

import os
import re
from collections.abc import Callable
from typing import Any

from estimator_trainer import exit_codes
from estimator_trainer.submit import kubernetes_pods as pods
from estimator_trainer.submit.description import Description, RoleTasks
from estimator_trainer.supervisor.policy.causes import restarts_alone
from tf_config.resolvers import kubernetes as contract

NETWORK, JOB = 'network.yaml', 'job.yaml'
PERMANENT = tuple(code for code in range(1, 256) if not exit_codes.retryable(code))
_DISRUPTED = [{'type': 'DisruptionTarget', 'status': 'True'}]
_REPLICA_TYPES = {'chief': 'Chief', 'worker': 'Worker', 'ps': 'PS', 'evaluator': 'Evaluator'}


def render(description: Description) -> dict:
    """{file name: YAML}.

    Raises:
        UsageError: the description leaves out what Kubernetes needs, or asks for what the kind cannot do.
    """
    description.check_roles()
    _check(description)
    kinds = {'job': _job, 'jobset': _jobset, 'tfjob': _tfjob}
    kind = description.kubernetes.kind
    network = [pods.network_policy(description)]
    if kind == 'job':  # the controllers of the others make theirs
        network.append(pods.service(description))
    needs = f'# The image needs estimator-trainer[{description.extra}].\n' if description.in_store else ''
    return {NETWORK: _yaml(network), JOB: needs + _yaml([kinds[kind](description)])}


def submit(description: Description, folder: str | os.PathLike[str], run: Callable) -> int:
    """Lets kubectl apply the network and create the job, which must not be there yet. Its exit code."""
    code = run(['kubectl', 'apply', '-f', os.path.join(folder, NETWORK)]).returncode
    return code or run(['kubectl', 'create', '-f', os.path.join(folder, JOB)]).returncode


def _job(description: Description) -> dict:
    size = description.num_tasks
    (_, role), *_ = description.roles  # all alike
    return {
        'apiVersion': 'batch/v1',
        'kind': 'Job',
        'metadata': pods.metadata(description),
        'spec': {
            'completionMode': 'Indexed',
            'completions': size,
            'parallelism': size,
            **_by_index(description),
            'podFailurePolicy': {'rules': [_on_disruption('Ignore'), _on_permanent()]},
            'template': pods.template(
                description,
                role,
                _cluster_flags(description),
                {contract.SERVICE: description.name},
                subdomain=description.name,
                restartPolicy='Never',
            ),
        },
    }


def _jobset(description: Description) -> dict:
    return {
        'apiVersion': 'jobset.x-k8s.io/v1alpha2',
        'kind': 'JobSet',
        'metadata': pods.metadata(description),
        'spec': {
            'network': {'enableDNSHostnames': True, 'subdomain': description.name, 'publishNotReadyAddresses': True},
            'failurePolicy': {
                'maxRestarts': description.max_restarts,
                'restartStrategy': 'BlockingRecreate',  # no new task meets an old one
                'rules': [{'name': 'permanent', 'action': 'FailJobSet', 'onJobFailureReasons': ['PodFailurePolicy']}],
            },
            'replicatedJobs': [
                {
                    'name': name,
                    'replicas': 1,
                    'template': {
                        'metadata': {'labels': pods.labels(description, name)},
                        'spec': _child_job(description, name, role),
                    },
                }
                for name, role in description.roles
            ],
        },
    }


def _child_job(description: Description, name: str, role: RoleTasks) -> dict:
    """The Job of one role. The Job of a gang fails with its first pod; a task that can restart alone does so in it."""
    apart = restarts_alone(name, description.asynchronous)
    limits = _by_index(description) if apart else {'backoffLimit': 0}
    return {
        'completionMode': 'Indexed',
        'completions': role.count,
        'parallelism': role.count,
        **limits,
        'podFailurePolicy': {'rules': [_on_disruption('Ignore' if apart else 'Count'), _on_permanent()]},
        'template': pods.template(
            description,
            role,
            _cluster_flags(description),
            {contract.SERVICE: description.name, contract.ROLE: name},
            component=name,
            restartPolicy='Never',
        ),
    }


def _tfjob(description: Description) -> dict:
    # Kubeflow does not count: it restarts for ever, or never.
    policy = 'ExitCode' if description.max_restarts else 'Never'
    return {
        'apiVersion': 'kubeflow.org/v1',
        'kind': 'TFJob',
        'metadata': pods.metadata(description),
        'spec': {
            # None: parameter servers and the evaluator end by themselves, after the chief.
            'runPolicy': {'cleanPodPolicy': 'None'},
            'enableDynamicWorker': False,
            'tfReplicaSpecs': {
                _REPLICA_TYPES[name]: {
                    'replicas': role.count,
                    'restartPolicy': policy,
                    'template': pods.template(
                        description, role, ('--cluster_from=tf_config',), {}, component=name, container='tensorflow'
                    ),
                }
                for name, role in description.roles
            },
        },
    }


def _by_index(description: Description) -> dict:
    """Failures are counted for each pod, because the pause before a restart grows with their number, and
    all pods of a gang fail at once."""
    return {'backoffLimitPerIndex': description.max_restarts, 'maxFailedIndexes': 0}


def _cluster_flags(description: Description) -> tuple:
    return '--cluster_from=kubernetes', f'--roles={description.layout}', f'--base_port={pods.port(description)}'


def _on_disruption(action: str) -> dict:
    """The first rule: a pod that is evicted may end with any code."""
    return {'action': action, 'onPodConditions': [dict(condition) for condition in _DISRUPTED]}


def _on_permanent() -> dict:
    return {'action': 'FailJob', 'onExitCodes': {'operator': 'In', 'values': _Row(PERMANENT)}}


def _check(description: Description) -> None:
    settings = description.kubernetes
    if not description.image:
        raise description.error(
            'image', 'is missing: name the image that has the trainer; deploy/kubernetes/Dockerfile builds one'
        )
    if not settings.claim and not description.in_store:
        raise description.error(
            'kubernetes.claim',
            'is missing: name the PersistentVolumeClaim on which all pods keep the model_dir; a model_dir with a URL '
            'needs none',
        )
    if settings.claim and not settings.mount:
        raise description.error(
            'kubernetes.mount',
            'is missing: name the folder at which the claim is mounted, such as '
            f'{"/data" if description.in_store else os.path.dirname(description.model_dir)}',
        )
    _check_mounts(description)
    if settings.kind == 'job' and len({role.resources for _, role in description.roles}) > 1:
        raise description.error(
            'kubernetes.kind',
            'the pods of an Indexed Job are all alike, and the roles differ in '
            'cores, memory_gib or gpus: give them the same, or kind: jobset',
        )


def _check_mounts(description: Description) -> None:
    settings = description.kubernetes
    mount = os.path.normpath(settings.mount) if settings.claim and settings.mount else ''
    if mount in ('/', pods.TMP):
        raise description.error('kubernetes.mount', 'is taken; give a folder of its own, such as /models')
    if description.in_store:
        if os.path.normpath(pods.scratch_dir(description)) in ('/', pods.TMP, mount):
            raise description.error('scratch_dir', f'is taken; give a folder of its own, such as {pods.SCRATCH}')
    elif os.path.commonpath([mount, os.path.normpath(description.model_dir)]) != mount:
        raise description.error(
            'model_dir',
            f'is not on the volume: name a folder below kubernetes.mount={settings.mount}, which all pods share',
        )


# Text that Kubernetes, unlike PyYAML, reads as a number or a truth value if it has no quotes.
_NO_TEXT = re.compile(r'[-+]?(\d[\d_]*\.?\d*|\.\d+)([eE][-+]?\d+)?|0[oObBxX][\da-fA-F_]+|[yYnN]')


class _Row(tuple):
    """Values that are written on one line."""


def _yaml(documents: list) -> str:
    """YAML of the documents, always the same text for the same documents."""
    import yaml  # which the description came through

    class Dumper(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            return super().increase_indent(flow, False)

    Dumper.add_representer(
        _Row, lambda dumper, row: dumper.represent_sequence('tag:yaml.org,2002:seq', row, flow_style=True)
    )
    Dumper.add_representer(
        str,
        lambda dumper, text: dumper.represent_scalar(
            'tag:yaml.org,2002:str', text, style="'" if _NO_TEXT.fullmatch(text) else None
        ),
    )
    return yaml.dump_all(documents, Dumper=Dumper, sort_keys=False, width=110, explicit_start=True)
