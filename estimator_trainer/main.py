"""The trainer: flags -> config -> plan -> TensorFlow -> loop -> exit code."""

import contextlib
import dataclasses
import logging
import os
import sys
import time
import traceback

from estimator_trainer import config as trainer_config
from estimator_trainer import exit_codes, forks, jobs, training
from estimator_trainer.errors import UsageError
from estimator_trainer.jobs import run_params
from estimator_trainer.lifecycle import ending, peers
from estimator_trainer.lifecycle import lifeline as lifelines
from estimator_trainer.run_dir import metrics_log, protocol, run_files
from estimator_trainer.training import plan as planning
from tf_config import addresses

_log = logging.getLogger('estimator_trainer')
_ENDED_BY = {'early_stopping': 'early stopping', 'max_secs': '--max_secs', 'end_of_data': 'end of data'}


def main(argv) -> int:
    """Runs the trainer; returns its exit code. Prints one clear error for what the user can mend."""
    _set_up_log()
    task = 'trainer'
    try:
        config = trainer_config.parse(argv)
        plan = planning.make(config, os.environ)
        task = str(plan.task or task)
        with forks.parent_only():
            job = jobs.load_early(config.job)
            params = _checked_params(job, config) if job else None
        if job:
            _check_loop(job, config)
            run_files.check(config.model_dir, run_files.resolved(plan, params, {}))
        for address in addresses.public_addresses(plan.cluster):
            _log.warning(
                'WARNING: %s is a public address: whoever reaches this port runs code in the '
                'task; see docs/security.md',
                address,
            )
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
        return _refused(exit_codes.USAGE, error, task)
    except run_files.TakenElsewhere as error:
        return _refused(exit_codes.MODEL_DIR_TAKEN, error, task)
    except Exception as error:  # of the job's, read early: its traceback is what the user needs
        traceback.print_exc()
        lines = traceback.format_exc().splitlines()
        ending.record(
            ending.End(exit_codes.FAILED, f'{type(error).__name__}: {error}', traceback=tuple(lines)),
            task,
            None,
            os.environ,
        )
        return exit_codes.FAILED
    except KeyboardInterrupt:
        _log.info('interrupted; the same command goes on from the last checkpoint')
        return exit_codes.INTERRUPTED


def _refused(code, error, task) -> int:
    print(f'error: {error}', file=sys.stderr)
    ending.record(ending.End(code, str(error)), task, None, os.environ)
    return code


def _train(plan, job) -> int:
    config = plan.config
    with contextlib.ExitStack() as stack:
        if plan.is_chief:
            stack.enter_context(run_files.claim(config.model_dir))
        lifeline = stack.enter_context(
            lifelines.Lifeline(
                str(plan.task or 'trainer'), lifelines.Bounds(config.step_timeout_secs, config.grace_secs)
            )
        )
        try:
            from estimator_trainer import compat

            compat.bring_up()
            with forks.parent_only():
                end = _run(plan, lifeline, job or jobs.load(config.job), compat.versions())
        except (UsageError, jobs.JobError, run_files.TakenElsewhere):
            raise
        except BaseException as error:  # SystemExit too: a task that ends says why
            from estimator_trainer.training import failures

            end = failures.explain(error, plan, lifeline)
        if end is None:
            return exit_codes.OK
        lifeline.end(end)
        return end.code


def _run(plan, lifeline, job, versions) -> ending.End | None:
    """Does this task's part. None when it is done; an End when it was stopped on the way."""
    from estimator_trainer.data import sources
    from estimator_trainer.evaluation import exporters
    from estimator_trainer.run_dir import checkpoints
    from estimator_trainer.sync import agreed_start
    from estimator_trainer.training import parameter_server, runtime

    config = plan.config
    job_params = _checked_params(job, config)
    _check_loop(job, config)
    initial_replicas = run_files.initial_replicas(plan, os.environ)
    resolved = run_files.resolved(plan, job_params, versions, initial_replicas)
    run_files.check(config.model_dir, resolved)

    runtime.set_devices(plan)
    if plan.role == 'ps':
        run_config = runtime.make_run_configs(plan, lifeline).own
        lifeline.watch_peers(_watched(plan))
        parameter_server.serve(run_config, plan.num_training_tasks, lifeline)
        return _stopped(lifeline, None)
    dataset = None
    if job.input_fn is None:
        dataset = sources.load(config.dataset, config.data_dir, config.in_memory_mb)
        _check_classes(dataset, job_params)
    params = _run_params(plan, job, job_params, dataset, initial_replicas)
    if plan.is_chief:  # before the port opens: who answers and has no board has another model_dir
        lifeline.keep_board(os.path.join(config.model_dir, protocol.TRAINING_FILE), params.max_steps)
    lifeline.watch_peers(_watched(plan))
    run_configs = runtime.make_run_configs(plan, lifeline)
    in_sync = plan.trains and plan.strategy == 'multi_worker_mirrored' and plan.num_training_tasks > 1
    if plan.is_chief:  # may take minutes: the others see by the open port that it lives
        checkpoints.set_aside_damaged(config.model_dir)
        checkpoints.remove_unfinished(config.model_dir)
        run_files.write(config.model_dir, resolved)
        if in_sync:
            agreed_start.announce(plan)
    if in_sync:
        params = dataclasses.replace(params, start_step=agreed_start.agree(plan))
    elif plan.trains:
        params = dataclasses.replace(params, start_step=checkpoints.last_step(config.model_dir))
    if plan.is_chief:
        lifeline.resumes_at(params.start_step)
    _say_start(plan, dataset, params, can_serve=job.serving_input_fn is not None)

    serving_input_fn = job.serving_input_fn and (lambda: job.serving_input_fn(params.as_dict()))
    if serving_input_fn is None and dataset is not None:
        serving_input_fn = exporters.raw_images(dataset.image_shape)
    started = float(os.environ.get(protocol.STARTED) or time.time())
    outcome = training.get(config.loop)(
        plan, lifeline, started, run_configs, job, params, job.input_fn or dataset.input_fn, serving_input_fn
    ).run()
    if outcome.stopped_by is None:
        _say_end(plan, outcome)
    return _stopped(lifeline, outcome.step)


def _watched(plan) -> peers.PeerWatch:
    """A watch over the peers that begins now: data may have taken long to get here."""
    config = plan.config
    return peers.PeerWatch(
        plan.watched_peers(),
        config.join_timeout_secs,
        config.lost_peer_secs,
        any_is_enough=plan.role == 'ps',
        askers=plan.num_watchers,
    )


def _stopped(lifeline, step) -> ending.End | None:
    signum = lifeline.stopped_by
    if signum is None:
        return None
    whose = ' to another task' if lifeline.follows else ''
    saved = '' if step is None else f'; saved at step {step}, the same command resumes'
    return ending.End(128 + signum, f'stopped by {lifeline.name_of(signum)}{whose}{saved}', follows=lifeline.follows)


def _checked_params(job, config) -> dict:
    params = jobs.typed_params(job.params, config.param)
    if job.check is not None:
        try:
            job.check(params)
        except ValueError as error:
            raise UsageError(str(error)) from error
    return params


def _check_loop(job, config) -> None:
    if config.loop != 'estimator' and job.make_model is None:
        raise UsageError(
            f'--loop={config.loop}: job {config.job} has no make_model, only Estimator can '
            'train it; give it make_model and parts, or use --loop=estimator.'
        )


def _check_classes(dataset, params) -> None:
    if 'classes' in params and params['classes'] != dataset.num_classes:
        raise UsageError(f'--param=classes={params["classes"]}: {dataset.name} has {dataset.num_classes} classes.')


def _run_params(plan, job, job_params, dataset, initial_replicas) -> run_params.RunParams:
    """Of a run that starts at step 0; `start_step` is not yet known."""
    config = plan.config
    examples = dataset.num_train if dataset else job.num_train_examples
    return run_params.RunParams(
        job=job_params,
        batch_size=config.batch_size,
        num_replicas=plan.num_replicas,
        initial_replicas=initial_replicas,
        global_batch_size=plan.global_batch_size,
        max_steps=run_params.last_step(config.max_steps, config.epochs, examples, plan.global_batch_size),
        num_examples=examples,
        seed=config.seed,
        image_shape=dataset.image_shape if dataset else None,
    )


def _say_start(plan, dataset, params, can_serve) -> None:
    if not plan.trains:
        return
    if plan.is_chief and dataset is None and not can_serve and plan.config.export != ('none',):
        _log.info('no exports: the job has no serving_input_fn')
    start, end = params.start_step, params.max_steps
    if start >= end:
        _log.info('step %d: training has reached --max_steps or --epochs (step %d) already', start, end)
    elif start:
        _log.info('resumes at step %d of %d', start, end)
    else:
        _log.info('trains from step 0 to %d', end)
    if params.job.get('scale_rate_with_replicas'):
        replicas = params.initial_replicas
        now = '' if replicas == plan.num_replicas else f', with which the run began (now {plan.num_replicas})'
        _log.info('learning rate: scaled linearly, x %d replicas%s', replicas, now)
    if dataset is not None and not dataset.in_memory:
        _log.info(
            'data: streamed (over --in_memory_mb=%d): shuffled through a buffer; a resumed run '
            'starts a new pass, and the order depends on the number of workers',
            plan.config.in_memory_mb,
        )


def _say_end(plan, outcome) -> None:
    where = plan.config.model_dir
    metrics = f'{metrics_log.shown(outcome.metrics)}; ' if outcome.metrics else ''
    exports = f', exports in {where}/export' if outcome.metrics and outcome.exports else ''
    early = f' ({_ENDED_BY[outcome.why]})' if outcome.why in _ENDED_BY else ''
    _log.info('done at step %d%s: %scheckpoints in %s%s', outcome.step, early, metrics, where, exports)


class _LogHandler(logging.StreamHandler):
    """Writes lines above a progress bar, where there is one."""

    def emit(self, record):
        tqdm = sys.modules.get('tqdm')
        if tqdm is None:
            super().emit(record)
        else:
            try:
                tqdm.tqdm.write(self.format(record), file=sys.stderr)
            except Exception:  # nobody reads it any more
                self.handleError(record)


def _set_up_log() -> None:
    handler = _LogHandler(sys.stderr)
    handler.setFormatter(logging.Formatter('%(asctime)s %(message)s', '%H:%M:%S'))
    _log.handlers[:] = [handler]
    _log.setLevel(logging.INFO)
    _log.propagate = False
