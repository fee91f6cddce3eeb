"""What `--job` is for the job of a call: its name, or a file for a Job that no module holds."""

import os
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import job_file
from estimator_trainer.jobs.job import Job
from estimator_trainer.run_dir import config_file


def value(job: Any, folder: str) -> str:
    """The value of --job.

    Args:
        job: a name, the path of a file, or a Job.
        folder: a folder of ours, in which a file may be written.

    Raises:
        UsageError: it is none of the three, or the Job cannot be written into a file.
    """
    if isinstance(job, (str, os.PathLike)):
        return os.fsdecode(job)
    if not isinstance(job, Job):
        raise UsageError(
            f"job={job!r}: give an estimator_trainer.Job, or a name such as 'mnist' or 'package.module:job'."
        )
    name = _name(job)
    if name:
        return name
    path = os.path.join(folder, config_file.JOB_FILE)
    job_file.write(job, path)
    return path


def _name(job: Job) -> str:
    """`module:attribute` if another process finds the job so; else ''."""
    for module_name, module in list(sys.modules.items()):
        if module_name == '__main__' or not isinstance(module, ModuleType):
            continue
        for attribute, candidate in list(vars(module).items()):
            if candidate is job and attribute.isidentifier() and _is_importable(module_name, module):
                return f'{module_name}:{attribute}'
    return ''


def _is_importable(name: str, module: ModuleType) -> bool:
    """Whether a new import of the name gives a module of the same file."""
    spec = getattr(module, '__spec__', None)
    parent = name.rpartition('.')[0]
    path = getattr(sys.modules.get(parent), '__path__', None) if parent else None
    if spec is None or not spec.origin or bool(parent) != (path is not None):
        return False
    for finder in sys.meta_path:
        candidate: ModuleSpec | None = finder.find_spec(name, path) if hasattr(finder, 'find_spec') else None
        if candidate is not None:
            return candidate.origin == spec.origin
    return False
