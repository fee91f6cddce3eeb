"""The trainer: parse the flags, plan, load the job, run the task -> exit code."""

import logging
import os
import sys
import time
import traceback
from collections.abc import Sequence

from estimator_trainer import exit_codes, jobs
from estimator_trainer.config import checks, trainer_config, urls
from estimator_trainer.errors import DatasetError, UsageError
from estimator_trainer.jobs import suggestions
from estimator_trainer.lifecycle import ending
from estimator_trainer.monitoring import task_monitors
from estimator_trainer.run_dir import ownership
from estimator_trainer.this_process import allocator, log
from estimator_trainer.training import dry_run, messages, securing, task_process, what_failed
from estimator_trainer.training import plan as planning

_log = logging.getLogger('estimator_trainer')


def main(argv: Sequence[str], url: str = '') -> int:
    """Runs the trainer; returns its exit code. Prints one clear error for what the user can mend.

    Args:
        argv: the name of the program and the flags; or the flags alone.
        url: of the store of a run whose model_dir is a scratch folder.
    """
    argv, began = _with_program(argv), time.time()
    log.set_up()
    task = 'trainer'
    try:
        config, overrides = suggestions.parse(argv)
        plan = planning.make(config, os.environ)
        if urls.is_url(config.model_dir):
            return _train_in_store(argv, plan)
        task = str(plan.task or task)
        plan = securing.secured(plan, os.environ, url)
        memory = allocator.tune() if config.allocator == 'auto' else allocator.SYSTEM
        plan = planning.with_job(plan, early=True)
        plan = dry_run.with_job(plan) if config.dry_run else plan
        messages.warn_of_public_addresses(plan)
        lines = [*overrides, *messages.plan_lines(plan, memory)]
        if config.dry_run:
            print('\n'.join([*lines, *dry_run.lines(plan, url)]), flush=True)
            return exit_codes.OK
        for line in lines:
            _log.info('%s', line)
        securing.connect(plan, os.environ)
        with task_monitors.monitored(config, task, plan.is_chief, plan.writes_page) as ends:
            return ends(task_process.run(plan, began))
    except trainer_config.HelpRequested as help_requested:
        print(help_requested)
        return exit_codes.OK
    except (UsageError, jobs.JobError, ownership.TakenElsewhere, DatasetError, securing.CannotSecure) as error:
        print(f'error: {error}', file=sys.stderr)
        code = getattr(error, 'exit_code', exit_codes.USAGE)
        ending.record(ending.End(code, str(error)), task, None, os.environ)
        return code
    except Exception as error:  # of the job's, read early: its traceback is what the user needs
        traceback.print_exc()
        lines = tuple(traceback.format_exc().splitlines())
        end = ending.End(exit_codes.FAILED, what_failed.described(error), traceback=lines)
        ending.report(end, task, None, os.environ)
        return end.code
    except KeyboardInterrupt:
        _log.info('interrupted; the same command goes on from what is saved, if anything')
        return exit_codes.INTERRUPTED


def _with_program(argv: Sequence[str]) -> list[str]:
    """argv with the name of a program before the flags. Python calls a program without a file -c, -m or -."""
    begins_with_flag = bool(argv) and argv[0].startswith('-') and argv[0] not in ('-c', '-m', '-')
    return ['estimator_trainer', *argv] if begins_with_flag else [*argv]


def _train_in_store(argv: Sequence[str], plan: planning.Plan) -> int:
    """Another process trains, in a folder of this machine; this one fetches and sends."""
    from estimator_trainer.storage import share, stored_run

    config, mine = plan.config, share.of(plan)
    checks.refuse_pattern(urls.scratch_dir(config.model_dir, os.environ, config.scratch_dir), '--scratch_dir')
    arguments = [*argv[1:], *stored_run.trainer_flags(config, os.environ, mine)]
    if config.dry_run:
        return main([argv[0], *arguments], config.model_dir)
    return stored_run.run(arguments, config, os.environ, mine)
