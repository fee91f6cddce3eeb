"""The trainer: parse the flags, plan, load the job, run the task -> exit code."""

import contextlib
import logging
import os
import sys
import traceback

from estimator_trainer import exit_codes, jobs
from estimator_trainer.config import flags, trainer_config, urls
from estimator_trainer.data import prepared_sets
from estimator_trainer.errors import DatasetError, UsageError
from estimator_trainer.jobs import suggestions
from estimator_trainer.lifecycle import ending
from estimator_trainer.lifecycle import watchdog as watchdogs
from estimator_trainer.monitoring import task_monitors
from estimator_trainer.run_dir import ownership, protocol
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.this_process import allocator, forks, log
from estimator_trainer.training import dry_run, messages, what_failed
from estimator_trainer.training import plan as planning

_log = logging.getLogger('estimator_trainer')


def main(argv, url: str = '') -> int:
    """Runs the trainer; returns its exit code. Prints one clear error for what the user can mend.

    Args:
        argv: the name of the program and the flags; or the flags alone.
        url: of the store of a run whose model_dir is a scratch folder.
    """
    argv = _with_program(argv)
    log.set_up()
    task = 'trainer'
    try:
        config, overrides = _parse(argv)
        plan = planning.make(config, os.environ)
        if urls.is_url(config.model_dir):
            return _train_in_store(argv, plan)
        memory = allocator.tune() if config.allocator == 'auto' else allocator.SYSTEM
        task = str(plan.task or task)
        plan = _with_job_early(plan)
        messages.warn_of_public_addresses(plan)
        lines = [*overrides, *messages.plan_lines(plan, memory)]
        if config.dry_run:
            print('\n'.join([*lines, *dry_run.lines(plan, _sizes(plan), url)]), flush=True)
            return exit_codes.OK
        for line in lines:
            _log.info('%s', line)
        return task_monitors.run_with_monitors(lambda: _train(plan), config, task, plan.is_chief, plan.writes_page)
    except trainer_config.HelpRequested as help_requested:
        print(help_requested)
        return exit_codes.OK
    except (UsageError, jobs.JobError, ownership.TakenElsewhere, DatasetError) as error:
        print(f'error: {error}', file=sys.stderr)
        code = _code_of(error)
        ending.record(ending.End(code, str(error)), task, None, os.environ)
        return code
    except Exception as error:  # of the job's, read early: its traceback is what the user needs
        traceback.print_exc()
        lines = tuple(traceback.format_exc().splitlines())
        ending.report(
            ending.End(exit_codes.FAILED, what_failed.described(error), traceback=lines), task, None, os.environ
        )
        return exit_codes.FAILED
    except KeyboardInterrupt:
        _log.info('interrupted; the same command goes on from what is saved, if anything')
        return exit_codes.INTERRUPTED


def _with_program(argv) -> list[str]:
    """argv with the name of a program before the flags. Python calls a program without a file -c, -m or -."""
    begins_with_flag = bool(argv) and argv[0].startswith('-') and argv[0] not in ('-c', '-m', '-')
    return ['estimator_trainer', *argv] if begins_with_flag else [*argv]


def _code_of(error) -> int:
    if isinstance(error, DatasetError):
        return error.exit_code
    return exit_codes.MODEL_DIR_TAKEN if isinstance(error, ownership.TakenElsewhere) else exit_codes.USAGE


def _parse(argv) -> tuple[trainer_config.TrainerConfig, tuple[str, ...]]:
    """As config.parse_with_overrides; an unknown flag may be a param of the job."""
    try:
        return trainer_config.parse_with_overrides(argv)
    except flags.UnknownFlag as error:
        meant = _param_meant(error, argv)
        if meant:
            raise UsageError(f'{error.said}. {meant}') from None
        raise


def _param_meant(error: flags.UnknownFlag, argv) -> str:
    name, params = '', None
    with contextlib.suppress(Exception):  # whatever else is wrong: the unknown flag is told
        name = flags.parse_known(trainer_config.TrainerConfig, argv).job
        if name in jobs.BUILT_IN:  # code of a user is not run to word a message
            params = jobs.load(name).params
    if not name or (params is None and error.has_close):
        return ''
    return suggestions.param(error.unknown.name, error.unknown.text, name, params)


def _is_quick() -> bool:
    """Whether a supervisor has its flags checked, and has no time for TensorFlow: its tasks load the job anyway."""
    return bool(os.environ.get(protocol.QUICK_CHECK))


def _with_job_early(plan) -> planning.Plan:
    """The plan with its job, before TensorFlow is there. If the job imports it: without, but with it for --dry_run."""
    found = planning.with_job(plan, early=True)
    if found.job or not plan.config.dry_run or _is_quick():
        return found
    _log.info('%s imports TensorFlow: the dry run loads both, which takes some seconds', plan.config.job)
    from estimator_trainer import compat

    compat.bring_up()
    return planning.with_job(plan)


def _sizes(plan) -> prepared_sets.Sizes | None:
    """Of the data set; None if it is not prepared, or the job does not read one.

    Raises:
        DatasetError: there is no such data set.
    """
    config, job = plan.config, plan.job
    if job is None or job.input_fn or job.file_spec or urls.is_url(config.data_dir):
        return None
    found = prepared_sets.sizes(config.dataset, config.data_dir)
    if found is None and not _is_quick():
        _log.info('asks TFDS for the data set %s, which takes some seconds', config.dataset)
        from estimator_trainer import compat

        compat.bring_up()
        from estimator_trainer.data import sources

        found = sources.sizes(config.dataset, config.data_dir)
    return found


def _train_in_store(argv, plan) -> int:
    """Another process trains, in a folder of this machine; this one fetches and sends."""
    from estimator_trainer.storage import share, stored_run

    config, mine = plan.config, share.of(plan)
    arguments = [*argv[1:], *stored_run.trainer_flags(config, os.environ, mine)]
    return (
        main([argv[0], *arguments], config.model_dir)
        if config.dry_run
        else stored_run.run(arguments, config, os.environ, mine)
    )


def _train(plan) -> int:
    config = plan.config
    bounds = watchdogs.Bounds(config.step_timeout_secs, config.grace_secs)
    claim = ownership.claim(config.model_dir) if plan.is_chief else contextlib.nullcontext()
    with claim, watchdogs.Watchdog(str(plan.task or 'trainer'), bounds) as watchdog:
        try:
            from estimator_trainer import compat

            if plan.trains:
                watchdog.resumes_at(RunFolder(config.model_dir).named_step or 0)
            compat.bring_up()
            if plan.job is None:
                plan = planning.with_job(plan)
                _log.info('data: %s', plan.data)
            from estimator_trainer.compat.patches import job_lines
            from estimator_trainer.training.run_task import run_task

            job_lines.show(config.job)
            with forks.parent_only():
                end = run_task(plan, watchdog, compat.versions())
        except (UsageError, jobs.JobError, ownership.TakenElsewhere):
            raise
        except BaseException as error:  # SystemExit too: a task that ends says why
            from estimator_trainer.compat import lacks
            from estimator_trainer.training import failures

            lacking = lacks.refusal(error)
            refused = UsageError(lacking) if lacking else what_failed.in_traced_code(error, UsageError)
            if refused:
                raise refused from None
            end = failures.explain(error, plan, watchdog)
        if end is None:
            return exit_codes.OK
        watchdog.end(end)
        return end.code
