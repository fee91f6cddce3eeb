"""Finds the job of --job, and its params. Imports no TensorFlow.

A job may import TensorFlow at its top. That must not happen before `tf.estimator` has been brought back, and a usage
error should not cost the seconds of that import. So the trainer first looks into the source of the job
(`top_imports.py`). If the source imports TensorFlow, the trainer loads the job once TensorFlow is there. Otherwise it
loads the job early, and refuses an import of TensorFlow meanwhile. Only a job that needs TensorFlow and does not say so
in its source is run twice.
"""

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import inspect
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any

from estimator_trainer import own_code
from estimator_trainer.config import start_folder
from estimator_trainer.errors import UsageError, nearest
from estimator_trainer.jobs import job_file, param_values, suggestions, top_imports
from estimator_trainer.jobs.job import Job, JobError

BUILT_IN = {
    'mnist': 'estimator_trainer.jobs.mnist:job',
    'fashion_mnist': 'estimator_trainer.jobs.fashion_mnist:job',
    'wide_and_deep': 'estimator_trainer.jobs.wide_and_deep:job',
}
_OF_MODEL_FN = {'features', 'labels', 'mode'}

_importing = ''  # the job whose module is imported at the moment, in whatever thread


class JobNotFound(JobError):
    """The module of the job does not exist in the current folder or on PYTHONPATH."""


def load(name: str) -> Job:
    """Finds a job by its built-in name, by `package.module:attribute`, or by `FILE.pkl` (job_file.py).

    The attribute is a Job, or a function without arguments that returns one. The module may be in the current folder.

    Raises:
        JobError: there is no such job; the message offers the nearest name.
    """
    _look_in_current_folder()
    if job_file.is_one(name):
        with _imports(name):
            return job_file.load(name)
    path = BUILT_IN.get(name, name)
    module_name, colon, attribute = path.partition(':')
    if not all((colon, module_name, attribute)) or module_name.startswith('.') or module_name.endswith('.py'):
        meant = suggestions.job(name) or f'no built-in job has this name{nearest(name, BUILT_IN, repr)}.'
        raise JobError(
            f'--job={name}: {meant} Built in: {", ".join(sorted(BUILT_IN))}. Your own: --job=package.module:attribute'
        )
    try:
        with _imports(name):
            module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not (module_name + '.').startswith(error.name + '.'):
            _refuse_old_names(name, error)
            raise  # the job's module is there, and imports something that is not
        meant = suggestions.job(name)
        raise JobNotFound(
            f'--job={name}: no module named {error.name!r} in {os.getcwd()} or on PYTHONPATH. '
            + (meant or 'Start the command in the folder of the module, or put that folder on PYTHONPATH.')
        ) from error
    except SyntaxError as error:
        raise JobError(f'--job={name}: {error.filename}, line {error.lineno}: {error.msg}.') from error
    except (JobError, UsageError) as error:
        raise _with_place(name, error) from error
    except (AttributeError, ImportError) as error:
        _refuse_old_names(name, error)
        raise
    if not hasattr(module, attribute):
        raise JobError(
            f'--job={name}: module {module_name} has no attribute {attribute!r}'
            f'{nearest(attribute, vars(module), repr)}.'
        )
    job = getattr(module, attribute)
    if callable(job) and not isinstance(job, Job):
        _refuse_arguments(name, attribute, job)
        try:
            with _without_exit(name):
                job = job()
        except JobError as error:
            raise _with_place(name, error) from error
    if not isinstance(job, Job):
        raise JobError(f'--job={name}: {attribute} is a {type(job).__name__}, not an estimator_trainer.jobs.Job.')
    return job


def _refuse_arguments(name: str, attribute: str, function: Callable[..., Any]) -> None:
    """Raises JobError if a function cannot be called without arguments."""
    signature = inspect.signature(function)
    try:
        signature.bind()
    except TypeError as error:
        needed = [each.name for each in signature.parameters.values() if each.default is each.empty]
        problem = (
            f'--job={name}: names something to call that needs {", ".join(needed)}; --job takes a Job, or a function '
            'without arguments that returns one'
        )
        if _OF_MODEL_FN <= set(signature.parameters):
            problem += (
                f'. A model_fn goes into a Job: write job = Job(model_fn={attribute}, …) and give the name of that'
            )
        raise JobError(f'{problem}.') from error


@contextlib.contextmanager
def _without_exit(name: str) -> Iterator[None]:
    """Raises JobError where code of a job ends Python by sys.exit: a run that has trained nothing would end with 0."""
    try:
        yield
    except SystemExit as error:
        if error.code == 128 + signal.SIGTERM:  # of this process, and not of the job
            raise
        raise JobError(
            f'--job={name}: its module ends Python by sys.exit({error.code!r}) while it is loaded; put that call below '
            "`if __name__ == '__main__':`."
        ) from error


@contextlib.contextmanager
def _imports(name: str) -> Iterator[None]:
    """While it is entered, `refuse_while_importing` refuses. The module may change the current folder."""
    global _importing
    before, _importing = _importing, name
    try:
        with start_folder.remembered(), _without_exit(name):
            yield
    finally:
        _importing = before


def refuse_while_importing(function: str) -> None:
    """Refuses a call that starts a process for a job, where the module of a job makes it while it is imported: that
    process would import the module as well, make the same call, and so on without end.

    Args:
        function: the name of the function that is called, such as 'train'.

    Raises:
        UsageError: the module of a job is imported at the moment.
    """
    if _importing:
        raise UsageError(
            f'{function}() is called while --job={_importing} is imported. Each process of the job imports its module, '
            "and would call it again: put the call below `if __name__ == '__main__':`, or into another file."
        )


def _with_place(name: str, error: JobError | UsageError) -> JobError | UsageError:
    """An error of the code of a job's module, with the line of it."""
    place = own_code.innermost(own_code.raised_at(error))
    where = f'{os.path.basename(place[0])}, line {place[1]}: ' if place else ''
    return type(error)(f'--job={name}: {where}{error}')


def _refuse_old_names(name: str, error: Exception) -> None:
    """Raises JobError if what is missing is a name of TensorFlow 1."""
    from estimator_trainer.compat import cures  # which chooses Keras 2

    cure = cures.advice_for_job(error)
    if cure:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise JobError(f'--job={name}: {os.path.basename(place.filename)}, line {place.lineno}: {cure}.') from error


def file_of(name: str) -> str | None:
    """The file of the module of a job that has been loaded; None if there is no file, or the job is a built-in one."""
    module = sys.modules.get(name.partition(':')[0])
    file = getattr(module, '__file__', None)
    return os.path.abspath(file) if file and name not in BUILT_IN else None


def _look_in_current_folder() -> None:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())


def load_early(name: str) -> Job | None:
    """Does what `load` does, before TensorFlow is imported. None: the modules of the job import TensorFlow.

    After None the caller calls `load` once `tf.estimator` is in place.
    """
    _look_in_current_folder()
    if job_file.is_one(name):
        needs_tensorflow = job_file.brings_tensorflow(name)
    else:
        needs_tensorflow = name not in BUILT_IN and top_imports.brings_tensorflow(name.partition(':')[0])
    if needs_tensorflow:
        return None
    before = set(sys.modules)
    guard = _NoTensorFlow()
    sys.meta_path.insert(0, guard)
    try:
        job = load(name)
    except Exception:
        if not guard.met:
            raise
    finally:
        sys.meta_path.remove(guard)
    if not guard.met:
        return job
    _forget(set(sys.modules) - before)  # they may have chosen to work without TensorFlow
    return None


def _forget(modules: Iterable[str]) -> None:
    """Makes Python import these modules anew, except its own ones and compiled packages, which cannot be."""
    kept = set(sys.stdlib_module_names)
    for name in modules:
        file = getattr(sys.modules[name], '__file__', None) or ''
        if file.endswith(tuple(importlib.machinery.EXTENSION_SUFFIXES)):
            kept.add(name.partition('.')[0])
    for name in modules:
        if name.partition('.')[0] not in kept:
            del sys.modules[name]


class _NoTensorFlow(importlib.abc.MetaPathFinder):
    """Refuses to import TensorFlow, and remembers in `met` that some code has tried to."""

    met = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition('.')[0] in top_imports.HEAVY:
            self.met = True
            raise ImportError(f'{fullname} is not to be imported yet', name=fullname)
        return None


def typed_params(defaults: Mapping[str, Any], overrides: Iterable[str]) -> dict[str, Any]:
    """The params of a job: the defaults, with the values of --param, which have the types of the defaults.

    Args:
        defaults: the params that the job declares.
        overrides: 'name=value' of each --param.

    Raises:
        JobError: an override is not `name=value`, its name is unknown (the message offers the nearest), or its value
            has another type than the default.
    """
    params = {name: param_values.own(value) for name, value in defaults.items()}
    for override in overrides:
        name, equals, text = override.partition('=')
        if not equals:
            raise JobError(f'--param={override}: write --param=name=value.')
        if name not in defaults:
            known = ', '.join(sorted(defaults)) or 'none'
            raise JobError(
                f'--param={override}: the job has no param {name!r}{nearest(name, defaults, repr)}. It has: {known}.'
            )
        try:
            params[name] = param_values.parse(text, defaults[name])
        except ValueError:
            raise JobError(
                f'--param={override}: {name} is {param_values.described(defaults[name])}, like its '
                f'default {param_values.own(defaults[name])!r}; got {text!r}.'
            ) from None
    return params


def checked_params(job: Job, overrides: Iterable[str]) -> dict[str, Any]:
    """The params of a job (`typed_params`), after the job's own check.

    Raises:
        JobError: as `typed_params`.
        UsageError: the job refuses them.
    """
    params = typed_params(job.params, overrides)
    if job.check is not None:
        try:
            job.check(params)
        except ValueError as error:
            raise UsageError(str(error)) from error
    return params
