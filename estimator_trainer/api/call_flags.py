"""The arguments of a call in Python -> the flags of a command.

words(TrainerConfig, {'max_steps': 5, 'export': ['best']}) -> ['--max_steps=5', '--export=best']
"""

import os
import sys
from collections.abc import Mapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from estimator_trainer.config import declaration, flags
from estimator_trainer.errors import UsageError, nearest
from estimator_trainer.jobs import job_file, param_values
from estimator_trainer.jobs.job import Job
from estimator_trainer.run_dir import config_file

FLAGFILE = 'flagfile'


def words(config: type, given: Mapping[str, Any], more: Mapping[str, str] | None = None) -> list[str]:
    """The flags that `given` names, judged as those of a command line.

    Args:
        config: the dataclass of the flags.
        given: name -> value: a bool, a number, a text or a path; a list for a flag that has several values. None: the
            flag is not given.
        more: name -> what is said as well of a name that is no flag.

    Raises:
        UsageError: there is no such flag, or it has another kind of value.
    """
    known = {one.name: one for one in declaration.declared(config)}
    argv: list[str] = []
    for name, value in given.items():
        if value is None:
            continue
        if name == FLAGFILE:
            argv += [f'--{FLAGFILE}={_text(name, each)}' for each in _values(value)]
        elif name not in known:
            meant = nearest(name, known, '{}=…'.format)
            raise UsageError(f'{name}={value!r}: there is no such flag{meant}{(more or {}).get(name, "")}.')
        elif known[name].repeated:
            argv += [f'--{name}={_text(name, each)}' for each in _values(value)]
        else:
            argv.append(f'--{name}={_one(known[name], value)}')
    flags.parse(config, ['call', *argv])
    return argv


def of_params(params: Mapping[str, Any] | None) -> list[str]:
    """--param for each param of a job.

    Raises:
        UsageError: a value is none of a param.
    """
    if not isinstance(params or {}, Mapping):
        raise UsageError(f"params={params!r}: give a dict, such as {{'learning_rate': 0.1}}.")
    return [f'--param={_param(name, value)}' for name, value in (params or {}).items()]


def _param(name: str, value: Any) -> str:
    value = _of_python(value)
    if isinstance(value, (list, tuple)):
        value = [_of_python(each) for each in value]
    problem = '' if value == [] else param_values.problem(value)
    if problem:
        raise UsageError(f'params: {name} is {problem}.')
    try:
        return f'{name}={param_values.text_of(value)}'
    except ValueError:
        raise UsageError(
            f'params: {name} is {value!r}; a string in a list has no comma, no blank at an end, and is not empty alone.'
        ) from None


def _of_python(value: Any) -> Any:
    return value.tolist() if hasattr(value, 'tolist') else value  # NumPy's arrays and numbers


def _values(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _one(flag: declaration.Flag, value: Any) -> str:
    if isinstance(value, (list, tuple)):
        if flag.type not in (str, tuple):
            raise UsageError(f'{flag.name}={value!r}: one value is needed, not a list.')
        texts = [_text(flag.name, each) for each in value]
        for text in texts:
            if ',' in text:
                raise UsageError(f'{flag.name}: {text!r} has a comma, which stands between the values of this flag.')
        return ','.join(texts)
    if isinstance(value, bool) and flag.type is not bool:
        raise UsageError(f'{flag.name}={value}: is no switch; give it a value.')
    return _text(flag.name, value)


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, (str, os.PathLike)):
        return os.fsdecode(value)
    if isinstance(value, (int, float)) or type(value).__module__ == 'numpy':
        return str(value)
    raise UsageError(f'{name}={value!r}: give a number, a text, True or False, or a list of them.')


def job_name(job: Any, folder: str) -> str:
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
    name = _importable_name(job)
    if name:
        return name
    path = os.path.join(folder, config_file.JOB_FILE)
    job_file.write(job, path)
    return path


def _importable_name(job: Job) -> str:
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
