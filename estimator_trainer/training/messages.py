"""What a task says before it does anything, as it begins to train, and as it is done. Imports no TensorFlow."""

import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any

from estimator_trainer.config import mixed_precision
from estimator_trainer.config.trainer_config import TrainerConfig
from estimator_trainer.data.files import dataset
from estimator_trainer.jobs import job_data
from estimator_trainer.jobs.run_params import RunParams
from estimator_trainer.run_dir import metrics_log, protocol, training_file
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.training import early_stop_messages
from estimator_trainer.training.plan import Plan
from tf_config import addresses

_log = logging.getLogger('estimator_trainer')
_ENDED_BY = {
    training_file.EARLY_STOPPING: 'early stopping',
    training_file.MAX_SECS: '--max_secs',
    training_file.END_OF_DATA: 'end of data',
    training_file.STEP_STANDS: 'end of data; the global step has never moved',
    training_file.HOOK: 'a hook of the job',
    training_file.LISTENER: "a listener of the job's checkpoints",
}


def warn_of_public_addresses(plan: Plan) -> None:
    if plan.inside:
        return
    for address in addresses.public_addresses(plan.cluster):
        _log.warning(
            'WARNING: %s is a public address: whoever reaches this port runs code in the task; see docs/security.md',
            address,
        )


def plan_lines(plan: Plan, memory: str) -> list[str]:
    """What this process is going to do. `memory`: its allocator."""
    precision = mixed_precision.sentence(plan.config.mixed_precision, plan.config.loop)
    xla = 'xla: compiles the forward and backward pass of a batch' if plan.config.xla else ''
    unused = [
        f'WARNING: {name} does nothing without --stop_metric: nothing stops the training early'
        for name in early_stop_messages.unused_flags(plan.config)
    ]
    return [*plan.notes, *describe(plan), *filter(None, (precision, xla)), *unused, f'memory: {memory}']


def describe(plan: Plan) -> list[str]:
    """What will happen, for the log and for --dry_run."""
    config = plan.config
    model_dir = f'model_dir {protocol.path_for_user(config.model_dir, os.environ)}'
    lines = [', '.join(filter(None, (f'job {config.short_job}', data_of(plan), model_dir)))]
    name = str(plan.task) if plan.task else 'this process'
    chief = ' (chief)' if plan.is_chief and plan.task else ''
    in_step = ' in step (--sync_ps)' if config.sync_ps else ''
    lines.append(f'loop {config.loop}, strategy {plan.strategy}{in_step}; {name}{chief} of {plan.num_tasks} task(s)')
    if plan.asynchronous:
        lines.append(
            f'asynchronous: {plan.num_training_tasks} workers, each step is one batch of {config.batch_size} on '
            'one of them; which worker trains which example is not repeatable'
        )
    else:
        accumulated = f' x {config.accumulate_steps} accumulated' if config.accumulate_steps > 1 else ''
        lines.append(
            f'batch: {config.batch_size} per replica x {plan.num_replicas} replica(s){accumulated} = '
            f'{plan.global_batch_size} global'
        )
    if plan.has_evaluator:
        lines.append('evaluation: by the evaluator task, every checkpoint it can and always the last')
    elif plan.num_training_tasks > 1 or plan.cluster.ps:
        lines.append('evaluation: by the chief, at the end (the cluster has no evaluator)')
    else:
        often = f'at most every {config.throttle_secs} s' if config.throttle_secs else 'of each checkpoint'
        lines.append(f'evaluation: by this process, {often}, and at the end')
    return lines


def data_of(plan: Plan) -> str:
    """What the job reads; '' before it is loaded."""
    if plan.job is None:
        return ''
    if plan.job.input_fn is not None:
        return "the job's own data"
    return f'data set {plan.config.dataset}' if plan.job.file_spec is None else f'files {plan.config.train_files}'


def say_start(
    plan: Plan, dataset: 'job_data.Dataset | None', params: RunParams, can_serve: bool, stopped: str | None = None
) -> None:
    """Before the first step.

    Args:
        stopped: the decision by which the run was stopped early, as one says it; None: there is none.
        params: jobs.run_params.RunParams.
        can_serve: the job has a serving_input_fn.
    """
    if not plan.trains:
        return
    if plan.is_chief and dataset is None and not can_serve and plan.config.export != ('none',):
        _log.info('no exports: the job has no serving_input_fn')
    if plan.is_chief and plan.job and (plan.job.input_fn or plan.job.file_spec):
        for name in ('dataset', 'data_dir'):
            value = getattr(plan.config, name)
            if value != getattr(TrainerConfig, name):
                unread = 'WARNING: --%s=%s: the job reads data of its own, whose path may be a --param'
                _log.warning(unread, name, value)
    if plan.is_chief and params.num_examples and params.num_examples < params.global_batch_size:
        _log.warning(
            'WARNING: there are %d training examples, and a step takes %d: it gets some of them several times, or '
            'fewer than it takes; give a smaller --batch_size',
            params.num_examples,
            params.global_batch_size,
        )
    start, end = params.start_step, params.max_steps
    if start >= end:
        _log.info('step %d: training has reached --max_steps or --epochs (step %d) already', start, end)
    elif stopped:
        _log.info('stopped early at step %d of %d: %s', start, end, stopped)
        _log.info('to go on, give a higher --stop_patience or another rule, or leave --stop_metric out')
    elif start:
        _log.info('resumes at step %d of %d', start, end)
    else:
        _log.info('trains from step 0 to %d', end)
    if plan.is_chief and plan.stop_rule and start < end and not stopped:
        _log.info('early stop: %s', early_stop_messages.stop_rule(plan))
        cannot = early_stop_messages.stop_warning(plan, end)
        if cannot:
            _log.warning('WARNING: %s', cannot)
    own_data = plan.job is not None and plan.job.input_fn is not None
    if params.position_shift:
        _log.info(
            'the steps until here have not trained a batch of this size each: %d examples have been trained, and the '
            'data go on there%s',
            start * params.global_batch_size + params.position_shift,
            ", if the input_fn reads params['position_shift'] (docs/recipes.md)" if own_data else '',
        )
    if params.job.get('scale_rate_with_replicas'):
        replicas = params.initial_replicas
        now = '' if replicas == params.num_replicas else f', with which the run began (now {params.num_replicas})'
        _log.info('learning rate: scaled linearly, x %d replicas%s', replicas, now)
    if dataset is not None and not dataset.in_memory:
        _log.info(
            'data: streamed (over --in_memory_mb=%d): shuffled through a buffer; a resumed run '
            'starts a new pass, and the order depends on the number of workers',
            plan.config.in_memory_mb,
        )


def say_precision(plan: Plan, has_gpu: bool, cpu_flags: str) -> None:
    """Warns where --mixed_precision makes nothing faster."""
    config = plan.config
    if warning := mixed_precision.warning(config.mixed_precision, config.loop, has_gpu, cpu_flags):
        _log.warning('WARNING: %s', warning)


def say_kept(by_savers: Iterable[int], flag: int | None) -> None:
    """Says that the number of checkpoints kept is the job's. Each number: how many are kept, 0 for all.

    Args:
        by_savers: of the job's own Savers.
        flag: --keep_checkpoints, or what a make_estimator has put in its place.
    """
    for number in sorted(set(by_savers) - {flag or 0}):
        kept = f'the newest {number} checkpoints' if number else 'all checkpoints'
        instead = f'the newest {flag}' if flag else 'all'
        _log.info("the job's own Saver keeps %s (max_to_keep), and not %s (--keep_checkpoints)", kept, instead)


def say_nothing_to_profile() -> None:
    """The answer of a task that does not train to a signal that asks for a profile."""
    _log.info('received SIGUSR2: this task trains no steps, so there is nothing to profile')


def say_changed_files(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> None:
    """Warns where a run goes on with other training files than those of its last start.

    Args:
        before, now: FileDataset.contents; None or {}: there were none.
    """
    differ = dataset.difference(before, now) if before and now else set()
    if differ and differ <= dataset.OF_WINDOWS:
        said = 'WARNING: --shuffle=blocks forms other windows of the training files than at the last start (%s); '
        _log.warning(f'{said}from here on the examples come in another order', dataset.WHY_OTHER_WINDOWS)
    elif before and now and differ:
        _log.warning(
            'WARNING: the training files have changed since the last start: %s file(s) with %s examples then, %s with '
            '%s now; from here on the examples come in another order',
            before.get('files'),
            before.get('examples'),
            now['files'],
            now['examples'],
        )


def say_other_tensorflow(model_dir: str, now: str | None) -> None:
    """Says where a run goes on with another TensorFlow than that of its last start.

    Args:
        now: its version here.
    """
    folder = RunFolder(model_dir)
    versions = folder.config.get('versions')
    before = versions.get('tensorflow') if isinstance(versions, dict) else None
    if folder.named_step and before and now and before != now:
        _log.info(
            'goes on with TensorFlow %s, after %s: from here on results may be rounded in another way', now, before
        )


def say_why_early(why: str, step: int, params: RunParams, batches: int) -> None:
    """Training has ended before --max_steps or --epochs, and the user should know why.

    Args:
        why: one of training_file.WHY.
        params: run_params.RunParams.
        batches: trained in this process.
    """
    batch, end = params.global_batch_size, params.max_steps
    if why == training_file.END_OF_DATA and not step:  # asynchronous tasks; others have failed
        _log.warning('WARNING: nothing was trained: %s', training_file.no_training_data(1))
    elif why == training_file.END_OF_DATA:
        trained = params.start_step * batch + params.position_shift + batches * batch
        _log.warning(
            'WARNING: the training data ended at step %d of %d, after at most %s examples. The input_fn has to repeat '
            "its data when mode is 'train': add repeat() to the data set",
            step,
            end,
            f'{trained:,}',
        )
    elif why == training_file.STEP_STANDS:
        _log.warning(
            'WARNING: the training data ended after %s batches, and none of them has moved the global step: %s',
            f'{batches:,}',
            training_file.CURE_OF_STEP_STANDS,
        )
    elif why == training_file.HOOK:
        _log.info('a hook of the job has stopped the training at step %d of %d', step, end)
    elif why == training_file.LISTENER:
        _log.info('a listener of the checkpoints of the job has stopped the training at step %d of %d', step, end)


def say_idle_rule(plan: Plan, max_steps: int) -> None:
    """Training has reached its end, and the rule by which it stops early had too few evaluations to do so."""
    evaluations = RunFolder(plan.config.model_dir).evaluation_lines
    said = early_stop_messages.too_few_evaluations(plan, evaluations, max_steps)
    if said:
        _log.warning('WARNING: %s', said)


def say_end(model_dir: str, step: int, why: str | None, metrics: Mapping[str, Any] | None, has_exports: bool) -> None:
    """After a part that was done, and not stopped by a signal.

    Args:
        why: what ended training; None for a task that does not train.
        metrics: of the last checkpoint; None where this task has not evaluated it.
    """
    results = f'{metrics_log.in_words(metrics)}; ' if metrics else ''
    model_dir = protocol.path_for_user(model_dir, os.environ)
    exports = f', exports in {model_dir}/export' if metrics and has_exports else ''
    early = f' ({_ENDED_BY[why]})' if why in _ENDED_BY else ''
    _log.info('done at step %d%s: %scheckpoints in %s%s', step, early, results, model_dir, exports)
