"""Suggests what a wrong --job, or a param given as a flag, was probably meant to be. Runs no code of a user."""

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from estimator_trainer import jobs
from estimator_trainer.config import flags, trainer_config
from estimator_trainer.errors import UsageError

_OF_CLUSTER = ('workers', 'ps')
_JOB = re.compile(r'^(\w+)\s*(?::[^=\n]+)?=\s*(?:\w+\.)*Job\(', re.MULTILINE)


def job(name: str) -> str:
    """A suggestion such as 'did you mean --job=census:job?'; '' if there is no file that was probably meant.

    `name` may be `census`, `census.py`, `census.py:job`, `census.job` or `path/census.py`.
    """
    path, _, attribute = name.partition(':')
    for stem, rest in ((path.removesuffix('.py'), attribute), path.removesuffix('.py').rpartition('.')[::2]):
        file = f'{stem if "/" in stem else stem.replace(".", "/")}.py'
        if stem and os.path.isfile(file):
            return _meant(file, rest)
    return ''


def _meant(file: str, attribute: str) -> str:
    folder, base = os.path.split(file)
    source = _source(file)
    if not attribute and 'Job' not in source and 'tensorflow' in source:
        return (
            f'{file} holds no Job. `python -m estimator_trainer.compat run {file}` runs a program as it is; '
            'docs/recipes.md says how to turn it into a Job.'
        )
    attribute = attribute or _attribute(source)
    if folder and not all(part.isidentifier() for part in folder.split('/')):
        return f'did you mean --job={base[:-3]}:{attribute}, with {folder} on PYTHONPATH?'
    return f'did you mean --job={file[:-3].replace("/", ".")}:{attribute}?'


def _attribute(source: str) -> str:
    """The name of the first job in the source of a module; 'job' if there is none."""
    match = _JOB.search(source)
    return match[1] if match else 'job'


def _source(file: str) -> str:
    with contextlib.suppress(OSError), open(file, encoding='utf-8', errors='replace') as opened:
        return opened.read()
    return ''


def param(flag: str, value: str, job: str, params: Mapping[str, Any] | None) -> str:
    """A sentence that says how to set a param of the job, if an unknown flag is one; else ''.

    Args:
        flag: the name of the flag.
        value: its value.
        job: the name of the job.
        params: the params of the job; None if they are unknown.
    """
    if not flag.isidentifier():
        return ''
    written = f'--param={flag}={value or "VALUE"}'
    if params is None:
        return f'If it is a param of {job}, write {written}.'
    return f'It is a param of {job}: write {written}.' if flag in params else ''


def parse(argv: Sequence[str]) -> tuple[trainer_config.TrainerConfig, tuple[str, ...]]:
    """Does what trainer_config.parse_with_overrides does. The error for an unknown flag says so if it is a param of the
    job, or a flag of `cluster`."""
    try:
        return trainer_config.parse_with_overrides(argv)
    except flags.UnknownFlag as error:
        meant = _param_meant(error, argv)
        if meant:
            raise UsageError(f'{error.said}. {meant}') from None
        raise


def _param_meant(error: flags.UnknownFlag, argv: Sequence[str]) -> str:
    name, params = '', None
    with contextlib.suppress(Exception):  # whatever else is wrong, the unknown flag is reported
        name = flags.parse_known(trainer_config.TrainerConfig, argv).job
        if name in jobs.BUILT_IN:  # code of a user is not run to word a message
            params = jobs.load(name).params
    of_cluster = of_job = ''
    if error.unknown.name in _OF_CLUSTER:
        of_cluster = (
            'Several tasks on this machine are started by `python -m estimator_trainer cluster '
            f'--{error.unknown.name}=N -- FLAGS`; on several machines TF_CONFIG says who they are.'
        )
    if name and (params is not None or of_cluster or not error.has_close):
        of_job = param(error.unknown.name, error.unknown.text, name, params)
    return f'{of_cluster} {of_job}'.strip()
