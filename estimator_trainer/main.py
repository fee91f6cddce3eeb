"""The trainer: flags -> config -> plan -> TensorFlow -> loop -> exit code."""

import logging
import math
import os
import sys
import traceback

from estimator_trainer import config as trainer_config
from estimator_trainer import exit_codes, jobs, run_files
from estimator_trainer.config import UsageError
from estimator_trainer.distribute import plan as planning
from estimator_trainer.hooks import metrics_log

_log = logging.getLogger('estimator_trainer')


def main(argv) -> int:
    """Runs the trainer; returns its exit code. Prints one clear error for what the user can mend."""
    _set_up_log()
    try:
        config = trainer_config.parse(argv)
        plan = planning.make(config, os.environ)
        job = jobs.load_early(config.job)
        params = _checked_params(job, config) if job else None
        if job:
            run_files.check(config.model_dir, run_files.resolved(plan, params, {}))
        for line in (*plan.notes, *plan.describe(own_data=bool(job and job.input_fn))):
            _log.info('%s', line)
        if config.dry_run:
            _log.info('params %s', params if job else f'of {config.job} are read when it is loaded')
            return exit_codes.OK
        return _train(plan, job)
    except trainer_config.HelpRequested as help_requested:
        print(help_requested)
        return exit_codes.OK
    except (UsageError, jobs.JobError) as error:
        print(f'error: {error}', file=sys.stderr)
        return exit_codes.USAGE
    except Exception:  # of the job's or of TensorFlow's: its traceback is what the user needs
        traceback.print_exc()
        return exit_codes.FAILED
    except KeyboardInterrupt:
        _log.info('interrupted; the same command goes on from the last checkpoint')
        return exit_codes.INTERRUPTED


def _train(plan, job) -> int:
    from estimator_trainer import compat
    from estimator_trainer.compat import quiet
    compat.prepare()
    tf = quiet.import_tensorflow()
    compat.install()
    quiet.silence_deprecations()
    from estimator_trainer.data.sources import DatasetError
    try:
        return _run(plan, job or jobs.load(plan.config.job), compat.versions())
    except DatasetError as error:
        print(f'error: {error}', file=sys.stderr)
        return exit_codes.NO_DATA
    except tf.estimator.NanLossDuringTrainingError:
        traceback.print_exc()
        print('error: the loss is not a number. Try a lower learning rate, or look for such values '
              f'in the data; the last checkpoint is in {plan.config.model_dir}.', file=sys.stderr)
        return exit_codes.FAILED


def _run(plan, job, versions) -> int:
    from estimator_trainer.data import sources
    from estimator_trainer.distribute import runtime
    from estimator_trainer.export import exporters
    from estimator_trainer.hooks import parameter_server
    from estimator_trainer.loops import estimator as loop
    config = plan.config
    params = _checked_params(job, config)
    resolved = run_files.resolved(plan, params, versions)
    run_files.check(config.model_dir, resolved)

    runtime.set_devices(plan)
    if plan.role == 'ps':
        parameter_server.serve(runtime.make_run_configs(plan).own, plan.num_training_tasks)
        return exit_codes.OK
    dataset = None
    if job.input_fn is None:
        dataset = sources.load(config.dataset, config.data_dir, config.in_memory_mb)
        _check_classes(dataset, params)
    params.update(_run_params(plan, job, dataset, loop.last_step(config.model_dir)))
    if plan.is_chief:
        run_files.write(config.model_dir, resolved)
    _say_start(plan, dataset, params, can_serve=job.serving_input_fn is not None)

    serving_input_fn = job.serving_input_fn and (lambda: job.serving_input_fn(params))
    if serving_input_fn is None and dataset is not None:
        serving_input_fn = exporters.raw_images(dataset.image_shape)
    outcome = loop.EstimatorLoop(
        plan, runtime.make_run_configs(plan), job, params, job.input_fn or dataset.input_fn,
        serving_input_fn).run()
    _say_end(plan, outcome)
    return exit_codes.OK


def _checked_params(job, config) -> dict:
    params = jobs.typed_params(job.params, config.param)
    if job.check is not None:
        try:
            job.check(params)
        except ValueError as error:
            raise UsageError(str(error)) from error
    return params


def _check_classes(dataset, params) -> None:
    if 'classes' in params and params['classes'] != dataset.num_classes:
        raise UsageError(f"--param=classes={params['classes']}: {dataset.name} has "
                         f'{dataset.num_classes} classes.')


def _run_params(plan, job, dataset, start_step) -> dict:
    config = plan.config
    examples = dataset.num_train if dataset else job.num_train_examples
    max_steps = config.max_steps
    if max_steps is None:
        if examples is None:
            raise UsageError(f'--epochs={config.epochs}: the job does not say how many examples it '
                             'has (Job.num_train_examples); use --max_steps.')
        max_steps = math.ceil(config.epochs * examples / plan.global_batch_size)
    return dict(
        batch_size=config.batch_size, num_replicas=plan.num_replicas,
        global_batch_size=plan.global_batch_size, max_steps=max_steps, seed=config.seed,
        steps_per_epoch=examples / plan.global_batch_size if examples else max_steps,
        start_step=start_step)


def _say_start(plan, dataset, params, can_serve) -> None:
    if not plan.trains:
        return
    if plan.is_chief and dataset is None and not can_serve and plan.config.export != ('none',):
        _log.info('no exports: the job has no serving_input_fn')
    start, end = params['start_step'], params['max_steps']
    if start >= end:
        _log.info('step %d: training has reached --max_steps or --epochs (step %d) already', start, end)
    elif start:
        _log.info('resumes at step %d of %d', start, end)
    else:
        _log.info('trains from step 0 to %d', end)
    if params.get('scale_rate_with_replicas'):
        _log.info('learning rate: scaled linearly, x %d replicas', plan.num_replicas)
    if dataset is not None and not dataset.in_memory:
        _log.info('data: streamed (over --in_memory_mb=%d): shuffled through a buffer; a resumed run '
                  'starts a new pass, and the order depends on the number of workers',
                  plan.config.in_memory_mb)


def _say_end(plan, outcome) -> None:
    where = plan.config.model_dir
    metrics = f'{metrics_log.shown(outcome.metrics)}; ' if outcome.metrics else ''
    exports = f', exports in {where}/export' if outcome.metrics and outcome.exports else ''
    _log.info('done at step %d: %scheckpoints in %s%s', outcome.step, metrics, where, exports)


class _LogHandler(logging.StreamHandler):
    """Writes lines above a progress bar, where there is one."""

    def emit(self, record):
        tqdm = sys.modules.get('tqdm')
        if tqdm is None:
            super().emit(record)
        else:
            tqdm.tqdm.write(self.format(record), file=sys.stderr)


def _set_up_log() -> None:
    handler = _LogHandler(sys.stderr)
    handler.setFormatter(logging.Formatter('%(asctime)s %(message)s', '%H:%M:%S'))
    _log.handlers[:] = [handler]
    _log.setLevel(logging.INFO)
    _log.propagate = False
