"""The run that is migrated, as its config.json tells it: job, params, and a batch to try it on."""

import dataclasses
import functools
import os
import shlex
from collections.abc import Callable
from typing import Any, NamedTuple

from estimator_trainer import jobs
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import input_fns, job_data, loading, run_params
from estimator_trainer.run_dir import config_file, file_names, protocol


class LoadedRun(NamedTuple):
    """`params` are the job's, with the run's; `features` is a batch of the evaluation, as arrays, for a job with
    make_model; `input_fn` is (mode, params, input_context) -> tf.data.Dataset."""

    job: jobs.Job
    params: dict
    features: Any
    config: dict
    input_fn: Callable


def read_config(model_dir: str) -> dict:
    """config.json of a run.

    Raises:
        UsageError: there is none, or it does not tell of a run.
    """
    if not os.path.isdir(model_dir):
        raise UsageError(f'--model_dir={model_dir}: there is no such folder; name the model_dir of a run.')
    try:
        config = protocol.read_object(os.path.join(model_dir, file_names.CONFIG))
        missing = config_file.KEYS - config.keys()
        if missing:
            raise ValueError(f'{", ".join(sorted(missing))} is not there')
    except OSError as error:
        raise UsageError(
            f'--model_dir={model_dir}: config.json: {error.strerror}; name the model_dir of a run of this trainer. If '
            'another program has written this one: compat run evaluates and exports it with that program, and a Job of '
            'the same model, trained in it, goes on from its checkpoint.'
        ) from error
    except ValueError as error:
        raise UsageError(
            f'--model_dir={model_dir}: its {file_names.CONFIG} cannot be read ({error}); mend it.'
        ) from error
    return config


def job_of(model_dir: str, config: dict, early: bool = False) -> jobs.Job | None:
    """The job of a run; as jobs.load_early, or as jobs.load.

    Raises:
        JobError: it cannot be found; the message says where the run had it.
    """
    name = config_file.job_of(model_dir, config)
    try:
        return jobs.load_early(name) if early else jobs.load(name)
    except loading.JobNotFound as error:
        file = config.get('job_file')
        if not isinstance(file, str):
            raise
        up = config['job'].partition(':')[0].count('.') + (os.path.basename(file) == '__init__.py')
        folder = os.path.dirname(file)
        for _ in range(up):
            folder = os.path.dirname(folder)
        cure = (
            f': put PYTHONPATH={shlex.quote(folder)} before the command' if os.path.exists(file) else ', which is gone'
        )
        raise jobs.JobError(f'{error} The run had it in {file}{cure}.') from error


def with_params(model_dir: str, config: dict, job: jobs.Job) -> dict:
    """config.json of a run with all params of its job. A built-in job may have got new ones since the run began: they
    have their defaults, as where training resumes.

    Raises:
        UsageError: the params of the job are no longer those of the run.
    """
    params = {**job.params, **config['params']} if config['job'] in loading.BUILT_IN else config['params']
    if set(params) != set(job.params):
        changed = sorted(set(params) ^ set(job.params))
        raise UsageError(
            f'--model_dir={model_dir}: the params of the job {config["job"]} have changed '
            f'since: {", ".join(changed)}. Use the job as it was.'
        )
    return {**config, 'params': params}


def trainer_config(config: dict, model_dir: str) -> TrainerConfig:
    """The flags of a run, whose model_dir may be elsewhere than when it was trained."""
    flags_of_run = config['flags']
    known = {field.name: flags_of_run.get(field.name, field.default) for field in dataclasses.fields(TrainerConfig)}
    decided = {name: config[name] for name in ('job', 'loop', 'seed', 'dataset')}
    return TrainerConfig(**{**known, **decided, 'model_dir': os.path.abspath(model_dir)})


def params_of(config: dict, job: jobs.Job, dataset, step: int) -> run_params.RunParams:
    """What the job was given in the run that config.json tells of.

    Args:
        dataset: of jobs.job_data; None for a job with an input_fn of its own.
        step: of the checkpoint that is taken up.
    """
    flags, replicas = config['flags'], config.get('num_replicas', 1)
    examples = (config.get('files') or {}).get('examples') or (dataset.num_train if dataset else job.num_train_examples)
    global_batch_size = config['global_batch_size']
    return run_params.RunParams(
        job=config['params'],
        batch_size=flags.get('batch_size', global_batch_size // replicas),
        num_replicas=replicas,
        initial_replicas=config.get('initial_replicas', replicas),
        global_batch_size=global_batch_size,
        max_steps=run_params.last_step(flags.get('max_steps'), flags.get('epochs'), examples, global_batch_size),
        num_examples=examples,
        seed=config['seed'],
        start_step=step,
        image_shape=dataset.image_shape if dataset else None,
    )


def config_for(config: dict, loop: str) -> dict:
    """config.json of the same run, for another loop."""
    return {**config, 'loop': loop, 'flags': {**config['flags'], 'loop': loop}}


def load(model_dir: str, start_step: int, data_dir: str = '') -> LoadedRun:
    """The run of a model_dir. `tf.estimator` is in place already.

    Args:
        start_step: of the checkpoint that is migrated.
        data_dir: TFDS's folder; '' for the one of the run.

    Raises:
        UsageError: the job has neither make_model nor make_estimator, its params are no longer those of the run, or it
            gives no batch.
    """
    import tensorflow as tf

    config = read_config(model_dir)
    job = job_of(model_dir, config)
    assert job is not None
    if job.make_model is None and job.make_estimator is None:
        raise UsageError(
            f'--model_dir={model_dir}: its job {config["job"]} has a model_fn; a job that is to be migrated gives '
            'make_model and parts (docs/jobs.md, A Keras model), or a canned Estimator in make_estimator.'
        )
    config = with_params(model_dir, config, job)
    trainer = trainer_config(config, model_dir)
    trainer = dataclasses.replace(trainer, data_dir=data_dir or trainer.data_dir)
    dataset = job_data.load(job, config['params'], trainer)
    params = params_of(config, job, dataset, start_step).as_dict()
    os.environ.pop('TF_CONFIG', None)  # a RunConfig would be of the task that it names
    run_config = tf.estimator.RunConfig(model_dir, tf_random_seed=config['seed'])
    input_fn = input_fns.by_name(job.input_fn or dataset.input_fn)
    input_fn = functools.partial(input_fns.data_sets_only(input_fn, lambda mode: 'migrate'), config=run_config)
    features = None
    if job.make_model is not None:
        features = first_features(input_fn(tf.estimator.ModeKeys.EVAL, dict(params), None), model_dir)
    return LoadedRun(job, params, features, config, input_fn)


def first_features(given: Any, model_dir: str) -> Any:
    """The features of the first batch, as arrays.

    Args:
        given: by the input_fn for evaluation.
        model_dir: of the run, for a message.

    Raises:
        UsageError: it is no data set, or has no batch.
    """
    import numpy as np
    import tensorflow as tf

    beginning = f'--model_dir={model_dir}: the input_fn of its job'
    if not isinstance(given, tf.data.Dataset):
        raise UsageError(
            f'{beginning} returns {input_fns.described(given)} for evaluation and no tf.data.Dataset, which is needed '
            'here: let it return one.'
        )
    batch = next(iter(given.take(1)), None)
    if batch is None:
        raise UsageError(
            f'{beginning} gives no batch for evaluation, on which predictions are compared: name its data, such as '
            'with --data_dir, or let its batches keep what is left at the end (drop_remainder=False).'
        )
    return tf.nest.map_structure(np.asarray, batch[0] if isinstance(batch, tuple) else batch)
