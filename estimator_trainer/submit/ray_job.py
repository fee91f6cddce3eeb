"""Ray: a job for its own client, which runs `ray_driver` on the cluster. Imports no ray."""

import dataclasses
import os
import shlex
from collections.abc import Callable
from typing import Any

from estimator_trainer.submit.description import Description

JOB, SCRIPT = 'job.yaml', 'submit.sh'


def render(description: Description) -> dict:
    """{file name: text}: the description, as the driver reads it, and the command that submits it.

    Raises:
        UsageError: the roles make up no cluster, or a key asks for something that Ray does not have.
    """
    import yaml  # which the description came through

    description.check_roles()
    if description.time_limit_minutes:
        raise description.error(
            'time_limit_minutes', 'Ray has no time limits; leave it out, or give --max_secs in args'
        )
    if description.in_store and not description.scratch_dir:
        raise description.error(
            'scratch_dir', "is missing: name a folder of each node's own disk for the runs, such as /tmp/runs-of-me"
        )
    job = yaml.safe_dump(plain(description), sort_keys=False, width=110)
    needs = (
        [f'# The environment of the tasks needs estimator-trainer[{description.extra}].']
        if description.in_store
        else []
    )
    script = '\n'.join(
        ['#!/bin/sh', '# From the folder of this file.', *needs, shlex.join(_client(description, '.')), '']
    )
    return {JOB: job, SCRIPT: script}


def submit(description: Description, folder: str | os.PathLike[str], run: Callable) -> int:
    """Gives the folder to `ray job submit`, which shows the driver's log to its end. Its exit code."""
    return run(_client(description, str(folder))).returncode


def _client(description: Description, folder: str) -> list:
    address = [f'--address={description.ray.address}'] if description.ray.address else []
    return [
        'ray',
        'job',
        'submit',
        *address,
        f'--working-dir={folder}',
        '--',
        'python',
        '-m',
        'estimator_trainer.submit.ray_driver',
        JOB,
    ]


def plain(value: Any) -> Any:
    """A description as the YAML file has it, without the keys that have their defaults."""
    if dataclasses.is_dataclass(value):
        given = {
            field.name: getattr(value, field.name)
            for field in dataclasses.fields(value)
            if 'check' in field.metadata and getattr(value, field.name) != field.default
        }
        return {name: plain(one) for name, one in given.items()}
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        return {name: plain(one) for name, one in value}
    return [plain(one) for one in value] if isinstance(value, tuple) else value
