"""The data of a job that has no input_fn of its own: --dataset, or --train_files and --eval_files."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

from estimator_trainer.config import urls
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import run_params
from estimator_trainer.jobs.job import Job

if TYPE_CHECKING:
    from estimator_trainer.config.trainer_config import TrainerConfig
    from estimator_trainer.data.files.dataset import FileDataset
    from estimator_trainer.data.sources import ImageDataset

Dataset: TypeAlias = 'ImageDataset | FileDataset'


def load(job: Job, job_params: Mapping[str, Any], config: 'TrainerConfig') -> 'Dataset | None':
    """Loads the data set that the flags name; None for a job with an input_fn of its own.

    Args:
        job: the job.
        job_params: the job's own params.
        config: the flags.

    Raises:
        UsageError: the flags do not fit the data.
        DatasetError: the data do not exist or are damaged.
        BadExample: an example is damaged.
    """
    if job.input_fn is not None:
        return None
    if job.file_spec is not None:
        from estimator_trainer.data.files import source
        from estimator_trainer.data.files.dataset import FileDataset

        source.forget_all()
        return FileDataset(job.file_spec(dict(job_params)), config)
    from estimator_trainer.data import evaluation_data, sources
    from estimator_trainer.data.remote import cache as remote_cache

    cache = remote_cache.at(config.data_cache_dir, config.data_cache_mib)
    dataset = sources.load(config.dataset, config.data_dir, config.in_memory_mb, cache)
    dataset.evaluation_data = evaluation_data.described(dataset.name.replace('/', ' '), dataset.num_eval, config)
    if 'classes' in job_params and job_params['classes'] != dataset.num_classes:
        raise UsageError(f'--param=classes={job_params["classes"]}: {dataset.name} has {dataset.num_classes} classes.')
    return dataset


def look_for(job: Job, config: 'TrainerConfig') -> None:
    """Checks that the files exist, without TensorFlow. A data set of TFDS is looked for only if --data_dir is a URL.

    Raises:
        UsageError: the flags name no files and the job needs them, or name files that it does not read; a store cannot
            be used; or --epochs is given, and the job has an input_fn but no num_train_examples.
        DatasetError: there are no such files.
        DatasetUnavailable: the store does not answer.
    """
    if job.input_fn is not None and config.epochs is not None and job.num_train_examples is None:
        raise run_params.unknown_epochs(config.epochs)
    if job.input_fn is None and job.file_spec is None and urls.is_url(config.data_dir):
        from estimator_trainer.data.remote import tfds_sets

        tfds_sets.RemoteSet(config.dataset, config.data_dir)
    reads_files = job.input_fn is None and job.file_spec is not None
    for flag in ('train_files', 'eval_files'):
        given = getattr(config, flag)
        if given and not reads_files:
            raise UsageError(
                f'--{flag}={given}: job {config.job} does not read files that flags name; a job that does has a '
                'file_spec and no input_fn (docs/jobs.md).'
            )
        if reads_files and not given:
            raise UsageError(f"--{flag} is missing: job {config.job} reads files; name them, such as 'data/part-*'.")
        if given:
            from estimator_trainer.data.files import dataset

            dataset.listed(flag, given, config.file_format)
