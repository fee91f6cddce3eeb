"""Which tasks a job has, and the cluster that they make up at given addresses."""

from collections.abc import Mapping

import tf_config
from estimator_trainer.submit.description import Description


def names(description: Description) -> list[str]:
    """Of all tasks, in the order of the roles: 'worker:0', …"""
    return [f'{name}:{index}' for name, role in description.roles for index in range(role.count)]


def cluster(description: Description, addresses: Mapping[str, str]) -> tf_config.Cluster:
    """`addresses`: 'host:port' by the name of the task.

    Raises:
        UsageError: such roles make up no cluster.
    """
    made = tf_config.Cluster(
        **{name: tuple(addresses[f'{name}:{index}'] for index in range(role.count)) for name, role in description.roles}
    )
    findings = tf_config.check(made, made.tasks[0], 'auto')
    if findings:
        raise description.error('roles', '; '.join(f'{finding.key} {finding.problem}' for finding in findings))
    return made


def check(description: Description) -> None:
    """Raises UsageError where the roles make up no cluster, wherever the tasks will be, or none for a store."""
    cluster(description, {name: f'host:{port}' for port, name in enumerate(names(description), 1024)})
    if description.in_store and 'ps' in dict(description.roles):
        raise description.error(
            'roles.ps',
            f'parameter servers of several machines cannot save into a store ({description.model_dir}); use a folder '
            'that all tasks share, or workers without ps tasks',
        )
