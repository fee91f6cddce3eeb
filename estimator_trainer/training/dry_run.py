"""What --dry_run shows beside the plan of a run: all that the flags, the job and the model_dir say. TensorFlow comes up
only where the job or the data set cannot be read without it."""

import logging
import os

from estimator_trainer.config import urls
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.data import prepared_sets
from estimator_trainer.data.prepared_sets import Sizes
from estimator_trainer.evaluation import early_stopping
from estimator_trainer.jobs import Job
from estimator_trainer.run_dir import config_file, protocol
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.training import dues, early_stop_messages, params_of_run
from estimator_trainer.training import plan as planning

_log = logging.getLogger('estimator_trainer')

LATER = 'the examples are counted when the run starts'


def with_job(plan: planning.Plan) -> planning.Plan:
    """A plan with its job, if it had none because the job imports TensorFlow."""
    if plan.job or _is_quick():
        return plan
    _log.info('%s imports TensorFlow: the dry run loads both, which takes some seconds', plan.config.job)
    from estimator_trainer import compat

    compat.bring_up()
    return planning.with_job(plan)


def lines(plan: planning.Plan, url: str = '') -> list[str]:
    """One line for each thing that a run has resolved.

    Args:
        url: of the store, for a run that works in a scratch folder.

    Raises:
        UsageError: --epochs, and the job does not say how many examples it has.
        DatasetError: there is no such data set.
    """
    config, job, sizes = plan.config, plan.job, _sizes(plan)
    if job is None:
        return [f'seed {config.seed}', _checkpoints(config), f'params of {config.job} are read when it is loaded']
    examples = sizes.train if sizes else None
    if job.input_fn is not None:
        examples = job.num_train_examples
    steps = None
    if config.max_steps or examples or job.input_fn is not None:
        steps = params_of_run.end(plan, examples, RunFolder(config.model_dir).named_step or 0)
    return [
        _training(config, plan.global_batch_size, steps, examples),
        _data(config, job, sizes),
        _checkpoints(config),
        _evaluation(config),
        _early_stop(plan, steps),
        _exports(config, job),
        _start(plan, steps, url),
        f'params {plan.job_params}',
    ]


def _is_quick() -> bool:
    """Whether a supervisor has its flags checked, and has no time for TensorFlow: its tasks load the job anyway."""
    return bool(os.environ.get(protocol.QUICK_CHECK))


def _sizes(plan: planning.Plan) -> Sizes | None:
    """The sizes of the data set; None if it is not prepared, or the job does not read one."""
    config, job = plan.config, plan.job
    if job is None or job.input_fn or job.file_spec or urls.is_url(config.data_dir):
        return None
    sizes = prepared_sets.sizes(config.dataset, config.data_dir)
    if sizes is None and not _is_quick():
        _log.info('asks TFDS for the data set %s, which takes some seconds', config.dataset)
        from estimator_trainer import compat

        compat.bring_up()
        from estimator_trainer.data import sources

        sizes = sources.sizes(config.dataset, config.data_dir)
    return sizes


def _training(config: TrainerConfig, batch: int, steps: int | None, examples: int | None) -> str:
    if config.max_steps:
        epochs = f', {config.max_steps * batch / examples:.3g} epochs of {examples:,} examples' if examples else ''
        asked = f'{steps:,} steps{epochs}'
    else:
        known = f' of {examples:,} examples, {steps:,} steps' if steps else f'; {LATER}'
        asked = f'{config.epochs:g} epochs{known}'
    secs = f', at most {config.max_secs} s' if config.max_secs else ''
    same = ', repeatable bit for bit' if config.deterministic else ''
    return f'training: {asked}{secs}; seed {config.seed}{same}'


def _data(config: TrainerConfig, job: Job, sizes: Sizes | None) -> str:
    if job.input_fn is not None:
        count = job.num_train_examples
        return f"data: the job's input_fn; {f'{count:,} examples to train on' if count else 'it does not say how many'}"
    if job.file_spec is not None:
        from estimator_trainer.data.files import dataset

        flags = ('train_files', 'eval_files')
        train, evaluation = (len(dataset.listed(flag, getattr(config, flag), config.file_format)) for flag in flags)
        then = config_file.files(config.model_dir).get('examples')
        last = f' ({then:,} at the last start)' if then else ''
        return f'data: {train} file(s) to train on, {evaluation} to evaluate on; {LATER}{last}'
    if sizes is None:
        return f'data: {config.dataset}, which is not prepared yet; the run prepares it'
    return f'data: {config.dataset}, {sizes.train:,} examples to train on, {sizes.evaluation:,} to evaluate on'


def _checkpoints(config: TrainerConfig) -> str:
    kept = f'the newest {config.keep_checkpoints} are kept' if config.keep_checkpoints else 'all are kept'
    return f'checkpoints: {dues.save_rule(config)}, and at the end; {kept}'


def _evaluation(config: TrainerConfig) -> str:
    much = f'{config.eval_steps} batches' if config.eval_steps else 'the whole eval split'
    size = f', {config.eval_batch_size} examples a batch' if config.eval_batch_size else ''
    return f'evaluation data: {much}{size}'


def _early_stop(plan: planning.Plan, steps: int | None) -> str:
    if plan.stop_rule is None:
        return 'early stop: none'
    cannot = early_stop_messages.stop_warning(plan, steps)
    return f'early stop: {early_stop_messages.stop_rule(plan)}{f"; WARNING: {cannot}" if cannot else ""}'


def _exports(config: TrainerConfig, job: Job) -> str:
    if config.export == ('none',):
        return 'exports: none'
    if job.input_fn is not None and job.serving_input_fn is None:
        return 'exports: none, because the job has no serving_input_fn'
    best = f'best ({job.best_metric}, {job.best_mode})'
    return f'exports: {", ".join(best if kind == "best" else kind for kind in config.export)}'


def _start(plan: planning.Plan, steps: int | None, url: str) -> str:
    if url:
        return f'start: where {url} has come to; that is looked at when the run starts'
    model_dir, rule = plan.config.model_dir, plan.stop_rule
    step = RunFolder(model_dir).named_step
    if step is None:
        return 'start: at step 0; the model_dir holds no checkpoint'
    if steps is not None and step >= steps:
        return f'start: nothing is left to train; the checkpoint is of step {step:,}'
    stop = rule and early_stopping.decision(rule, model_dir)
    if stop:
        step = stop.get('step', step)
        other = ', on the evaluation files of that time' if plan.config.eval_files else ''
        return f'start: nothing is left to train; the run was stopped early by --stop_metric at step {step:,}{other}'
    return f'start: resumes at step {step:,}{"" if steps is None else f" of {steps:,}"}'
