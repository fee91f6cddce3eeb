"""Suggests what a wrong --job, or a param given as a flag, was probably meant to be. Runs no code of a user."""

import contextlib
import os
import re
from collections.abc import Mapping
from typing import Any

from estimator_trainer import jobs
from estimator_trainer.config import flags, trainer_config
from estimator_trainer.errors import UsageError

_JOB = re.compile(r'^(\w+)\s*(?::[^=\n]+)?=\s*(?:\w+\.)*Job\(', re.MULTILINE)


def job(name: str) -> str:
    """'did you mean --job=census:job?' for `census`, `census.py`, `census.py:job`, `census.job` and `path/census.py`
    where there is such a file; else ''."""
    path, _, attribute = name.partition(':')
    for stem, rest in ((path.removesuffix('.py'), attribute), path.removesuffix('.py').rpartition('.')[::2]):
        file = f'{stem if "/" in stem else stem.replace(".", "/")}.py'
        if stem and os.path.isfile(file):
            return _meant(file, rest)
    return ''


def _meant(file: str, attribute: str) -> str:
    folder, base = os.path.split(file)
    found = attribute or _attribute(file)
    if folder and not all(part.isidentifier() for part in folder.split('/')):
        return f'did you mean --job={base[:-3]}:{found}, with {folder} on PYTHONPATH?'
    return f'did you mean --job={file[:-3].replace("/", ".")}:{found}?'


def _attribute(file: str) -> str:
    """The name of the first job of a module, as its source says it."""
    try:
        with open(file, encoding='utf-8', errors='replace') as opened:
            found = _JOB.search(opened.read())
    except OSError:
        return 'job'
    return found[1] if found else 'job'


def param(flag: str, value: str, job: str, params: Mapping[str, Any] | None) -> str:
    """What an unknown flag means if it is a param of the job; '' if it is none.

    Args:
        job: the name of the job.
        params: its params; None where they are not known.
    """
    if not flag.isidentifier():
        return ''
    shown = f'--param={flag}={value or "VALUE"}'
    if params is None:
        return f'If it is a param of {job}, write {shown}.'
    return f'It is a param of {job}: write {shown}.' if flag in params else ''


def parse(argv) -> tuple[trainer_config.TrainerConfig, tuple[str, ...]]:
    """As trainer_config.parse_with_overrides; an unknown flag may be a param of the job."""
    try:
        return trainer_config.parse_with_overrides(argv)
    except flags.UnknownFlag as error:
        meant = _param_meant(error, argv)
        if meant:
            raise UsageError(f'{error.said}. {meant}') from None
        raise


def _param_meant(error: flags.UnknownFlag, argv) -> str:
    name, params = '', None
    with contextlib.suppress(Exception):  # whatever else is wrong: the unknown flag is told
        name = flags.parse_known(trainer_config.TrainerConfig, argv).job
        if name in jobs.BUILT_IN:  # code of a user is not run to word a message
            params = jobs.load(name).params
    if not name or (params is None and error.has_close):
        return ''
    return param(error.unknown.name, error.unknown.text, name, params)
