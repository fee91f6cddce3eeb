"""A Job as a file, which `--job=FILE.pkl` loads: how `train` of Python hands over a Job that no module holds.

The file is a pickle of cloudpickle's (job_pickle.py). To load it is to run it, so a file that another user could have
written is refused.
"""

import os
import pickle
import stat

from estimator_trainer.config.job_flags import JOB_FILE_SUFFIX
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs.job import Job, JobError
from estimator_trainer.run_dir import protocol
from estimator_trainer.this_process import isolate

# The owner of root's files in a user namespace without root, unless sysctl kernel.overflowuid names another one.
_NOBODY = 65534


def is_one(name: str) -> bool:
    """Whether a value of --job names such a file."""
    return name.endswith(JOB_FILE_SUFFIX)


def write(job: Job, path: str) -> None:
    """Writes a job into a new file, which its user alone can read.

    Raises:
        UsageError: it holds something that cannot be written.
        OSError: the file cannot be made.
    """
    from estimator_trainer.jobs import job_pickle  # cloudpickle takes a while

    try:
        content = job_pickle.dumps(job)
    except Exception as error:  # of any class of the job's
        raise UsageError(
            f'the Job cannot be handed over to the process that trains: {str(error) or type(error).__name__}. Write it '
            "into a module, and give train its name: 'module:job'."
        ) from error
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), 'wb') as file:
        file.write(content)


def load(path: str) -> Job:
    """The job of a file.

    Raises:
        JobError: there is no such file, it is none of a Job, or somebody else could have written it.
    """
    from estimator_trainer.jobs import job_pickle

    try:
        with open(path, 'rb') as file:
            _refuse_of_others(path, os.fstat(file.fileno()))
            content = file.read()
    except OSError as error:
        raise _unreadable(path, error) from error
    try:
        job = job_pickle.loads(content)
    except (pickle.UnpicklingError, EOFError) as error:
        raise JobError(f'--job={path}: is no file of a Job ({error}).') from error
    except ModuleNotFoundError as error:
        raise JobError(f'--job={path}: its job needs the module {error.name}; put its folder on PYTHONPATH.') from error
    except AttributeError as error:  # a name that its module no longer has
        from estimator_trainer.compat import cures  # which chooses Keras 2

        old = cures.advice_for_job(error)
        cure = f'{old}, and import the job from there.' if old else f'{error}.'
        raise JobError(f'--job={path}: its job cannot be put together again: {cure}') from error
    if not isinstance(job, Job):
        raise JobError(f'--job={path}: holds a {type(job).__name__}, not an estimator_trainer.Job.')
    return job


def check(name: str) -> None:
    """Refuses a file that somebody else could have written. Comes before this process, or one that it starts, moves
    into a user namespace, in which the files of root belong to nobody.

    Args:
        name: a value of --job.

    Raises:
        JobError: as `load`.
    """
    if is_one(name):
        path = os.path.abspath(os.path.expanduser(name))
        try:
            _refuse_of_others(path, os.stat(path))
        except OSError as error:
            raise _unreadable(name, error) from error


def _unreadable(name: str, error: OSError) -> JobError:
    return JobError(f'--job={name}: {error.strerror}; name a file that `train` of Python has written.')


def _refuse_of_others(path: str, status: os.stat_result) -> None:
    owners = {0, os.geteuid()}
    if isolate.has_moved or os.environ.get(protocol.ISOLATED) == '1':  # `check` has seen the file as root's
        owners.add(_NOBODY)
    if status.st_uid not in owners or status.st_mode & stat.S_IWOTH:
        raise JobError(
            f'--job={path}: another user could have written this file, and to load it is to run it. Make sure that it '
            'is yours: look at its owner, and run chmod o-w.'
        )


def brings_tensorflow(path: str) -> bool:
    """Whether the file names TensorFlow, as far as it can be seen without running it."""
    import pickletools

    from estimator_trainer.jobs import top_imports

    try:
        with open(path, 'rb') as file:
            texts = {text for _, text, _ in pickletools.genops(file.read()) if isinstance(text, str)}
    except (OSError, ValueError):
        return False
    return any(text.partition('.')[0] in top_imports.HEAVY for text in texts)
