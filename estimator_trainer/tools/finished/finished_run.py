"""The run of a model_dir, taken up for one of its checkpoints: what `evaluate` and `export` share.

Nothing is written into the run: its Estimator works in a folder of its own, and neither events nor metrics.jsonl grow.
"""

import contextlib
import dataclasses
import functools
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from estimator_trainer import exit_codes, jobs
from estimator_trainer.config import flags, urls
from estimator_trainer.config.declaration import flag
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.errors import BadExample, UsageError
from estimator_trainer.jobs import input_fns, job_data
from estimator_trainer.jobs.run_params import RunParams
from estimator_trainer.storage import needs
from estimator_trainer.this_process import log
from estimator_trainer.tools import command_line, local_copies
from estimator_trainer.tools.finished import chosen_checkpoint
from estimator_trainer.tools.migrate import loaded_run as runs


class Damaged(Exception):
    """The checkpoint cannot be read."""


ERRORS = {jobs.JobError: exit_codes.USAGE, Damaged: exit_codes.DAMAGED, BadExample: exit_codes.DAMAGED}

of_run = functools.partial(flag, group='The run')
of_data = functools.partial(flag, group='Data')


class Finished(NamedTuple):
    """A run for one of its checkpoints. TensorFlow is there.

    Attributes:
        prefix, step: of the checkpoint.
        job, dataset, params: the job, its data of jobs.job_data or None, and what both are given.
        evaluator: evaluation.evaluation.Evaluator.
        progress: of its evaluation.
    """

    prefix: str
    step: int
    job: jobs.Job
    dataset: Any
    params: RunParams
    evaluator: Any
    progress: Any


def command(argv, name: str, usage: str, config: type, work: Callable[[Any, local_copies.LocalCopies], Any]) -> int:
    """Runs `evaluate` or `export`. What `work` returns is all that is printed to stdout: text, or else JSON."""

    def run() -> int:
        values = flags.parse_with_folder(config, [name, *argv])
        if not values.model_dir:
            raise UsageError(f'--model_dir is missing: name the folder of a run, as in `{name} runs/first`.')
        log.set_up()
        with _stdout_for_the_result() as tell, local_copies.LocalCopies() as here:
            found = work(values, here)
            tell(found if isinstance(found, str) else json.dumps(found))
        return exit_codes.OK

    return command_line.run(argv, usage, config, run, ERRORS)


@contextlib.contextmanager
def taken_up(values, here: local_copies.LocalCopies, only_evaluates: bool) -> Iterator[Finished]:
    """The run of --model_dir for the checkpoint of --checkpoint_step.

    Args:
        values: the flags of the command; those of the same name take the place of the run's.
        only_evaluates: the training data are not looked at.

    Raises:
        UsageError, jobs.JobError, Damaged, DatasetError, BadExample, OSError.
    """
    need = needs.of_checkpoint(values.checkpoint_step)
    model_dir = os.path.abspath(os.path.expanduser(here.run(values.model_dir, '--model_dir', need)))
    config = _with_given(runs.read_config(model_dir), values)
    prefix, step = chosen_checkpoint.find(model_dir, values.checkpoint_step)
    trainer = _trainer_config(config, model_dir, only_evaluates)
    job = runs.job_of(model_dir, config, early=True)
    if job:  # what can be refused without TensorFlow
        config = _checked(model_dir, config, job, trainer, values)

    from estimator_trainer import compat
    from estimator_trainer.compat.patches import log_lines

    compat.bring_up()
    os.environ.pop('TF_CONFIG', None)  # an Estimator would wait for the other tasks that it names
    if job is None:
        job = runs.job_of(model_dir, config)
        assert job is not None
        config = _checked(model_dir, config, job, trainer, values)
    log_lines.show(config['job'])
    _check_checkpoint(prefix, trainer, here)
    with tempfile.TemporaryDirectory(prefix='estimator-trainer-') as folder:
        yield _finished(prefix, step, job, config, trainer, folder)


def _with_given(config: dict, values) -> dict:
    """config.json of the run, with the flags that are given here in place of those of the run."""
    names = {field.name for field in dataclasses.fields(TrainerConfig)} - {'model_dir'}
    given = {name: value for name, value in vars(values).items() if name in names and value not in (None, '')}
    if 'data_dir' in given and not urls.is_url(given['data_dir']):
        given['data_dir'] = os.path.abspath(os.path.expanduser(given['data_dir']))
    if 'batch_size' in given:
        given['eval_batch_size'] = given['batch_size']
    return {**config, 'dataset': given.get('dataset', config['dataset']), 'flags': {**config['flags'], **given}}


def _trainer_config(config: dict, model_dir: str, only_evaluates: bool) -> TrainerConfig:
    trainer = runs.trainer_config(config, model_dir)
    if only_evaluates and trainer.train_files:  # they may be large, and elsewhere by now
        # What the training files allow says nothing of the order of these.
        trainer = dataclasses.replace(trainer, train_files=trainer.eval_files, shuffle='none')
    return trainer


def _checked(model_dir, config, job, trainer, values) -> dict:
    """config.json with all params of the job. Refuses a job that is not the run's any more, and data that are not
    there."""
    config = runs.with_params(model_dir, config, job)
    if trainer.loop != 'estimator' and job.make_model is None:
        raise UsageError(f'--model_dir={model_dir}: its job {config["job"]} no longer has the make_model of the run.')
    for name in ('dataset', 'data_dir'):
        if getattr(values, name, None) and (job.input_fn or job.file_spec):
            raise UsageError(f'--{name}={getattr(values, name)}: job {config["job"]} reads its own data, and not this.')
    if trainer.eval_files and job.file_spec and not job.input_fn:  # the flag to name, where train_files are the same
        from estimator_trainer.data.files import dataset

        dataset.listed('eval_files', trainer.eval_files, trainer.file_format)
    job_data.look_for(job, trainer)
    return config


def _check_checkpoint(prefix, trainer, here) -> None:
    from estimator_trainer.run_dir import checkpoints

    problem = checkpoints.damage(prefix)
    if problem:
        raise Damaged(f'{here.shown(prefix)} cannot be read ({problem}); --checkpoint_step names another one.')
    if checkpoints.is_of_objects(prefix) != (trainer.loop != 'estimator'):
        raise UsageError(
            f'--model_dir={here.shown(trainer.model_dir)}: {os.path.basename(prefix)} is not of --loop={trainer.loop}, '
            'which config.json names.'
        )


def _finished(prefix, step, job, config, trainer, folder) -> Finished:
    import tensorflow as tf

    from estimator_trainer.evaluation import estimator_evaluator, evaluation_journal, exact_evaluation, keras_evaluator

    if trainer.deterministic:
        tf.keras.utils.set_random_seed(trainer.seed)
        tf.config.experimental.enable_op_determinism()
    dataset = job_data.load(job, config['params'], trainer)
    params = runs.params_of(config, job, dataset, step)
    params = dataclasses.replace(params, batch_size=trainer.batch_of_evaluation)
    run_config = tf.estimator.RunConfig(folder, tf_random_seed=trainer.seed)
    needed_by = f'--loop={trainer.loop}' if trainer.loop != 'estimator' else ''
    input_fn = input_fns.data_sets_only(input_fns.by_name(job.input_fn or dataset.input_fn), lambda mode: needed_by)
    batches = exact_evaluation.input_fn(input_fn, params, run_config)
    evaluator: Any
    progress = evaluation_journal.EvaluationProgress(steps=trainer.eval_steps, warns_of_none=False)
    if trainer.loop == 'estimator':
        estimator = exact_evaluation.estimator_of(job, params, run_config, prefix)
        evaluator = estimator_evaluator.EstimatorEvaluator(estimator, batches, trainer.eval_steps, progress=progress)
    else:
        evaluator = keras_evaluator.KerasEvaluator(
            job, params.as_dict(), folder, batches, trainer.eval_steps, progress=progress
        )
    return Finished(prefix, step, job, dataset, params, evaluator, progress)


@contextlib.contextmanager
def _stdout_for_the_result() -> Iterator[Callable[[str], None]]:
    """What anybody prints meanwhile goes to stderr, also from C; the function prints to stdout."""
    stdout, descriptor = sys.stdout, os.dup(1)
    stdout.flush()
    os.dup2(2, 1)

    def give_back() -> None:
        os.dup2(descriptor, 1)

    def tell(text: str) -> None:
        give_back()
        print(text, file=stdout, flush=True)

    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield tell
    finally:
        give_back()
        os.close(descriptor)
