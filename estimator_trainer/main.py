"""The trainer: parse the flags, plan, load the job, refuse what cannot work, run the task -> exit code."""

import contextlib
import logging
import os
import sys
import traceback

from estimator_trainer import config as trainer_config
from estimator_trainer import exit_codes, forks, jobs, log
from estimator_trainer.errors import UsageError
from estimator_trainer.lifecycle import ending
from estimator_trainer.lifecycle import lifeline as lifelines
from estimator_trainer.run_dir import config_file, ownership
from estimator_trainer.training import messages
from estimator_trainer.training import plan as planning

_log = logging.getLogger('estimator_trainer')


def main(argv) -> int:
    """Runs the trainer; returns its exit code. Prints one clear error for what the user can mend."""
    log.set_up()
    task = 'trainer'
    try:
        config = trainer_config.parse(argv)
        plan = planning.make(config, os.environ)
        task = str(plan.task or task)
        with forks.parent_only():
            ready = jobs.prepare(config, early=True)  # None: it has to wait for TensorFlow
        if ready:  # a usage error needs no TensorFlow; run_task looks again, once the model_dir is ours
            config_file.check(config.model_dir, config_file.resolved(plan, ready.params, {}))
        messages.say_plan(plan, own_data=bool(ready and ready.job.input_fn))
        if config.dry_run:
            _log.info('params %s', ready.params if ready else f'of {config.job} are read when it is loaded')
            return exit_codes.OK
        return _train(plan, ready)
    except trainer_config.HelpRequested as help_requested:
        print(help_requested)
        return exit_codes.OK
    except (UsageError, jobs.JobError, ownership.TakenElsewhere) as error:
        print(f'error: {error}', file=sys.stderr)
        taken = isinstance(error, ownership.TakenElsewhere)
        end = ending.End(exit_codes.MODEL_DIR_TAKEN if taken else exit_codes.USAGE, str(error))
    except Exception as error:  # of the job's, read early: its traceback is what the user needs
        traceback.print_exc()
        lines = tuple(traceback.format_exc().splitlines())
        end = ending.End(exit_codes.FAILED, f'{type(error).__name__}: {error}', traceback=lines)
    except KeyboardInterrupt:
        _log.info('interrupted; the same command goes on from the last checkpoint')
        return exit_codes.INTERRUPTED
    ending.record(end, task, None, os.environ)
    return end.code


def _train(plan, ready) -> int:
    config = plan.config
    bounds = lifelines.Bounds(config.step_timeout_secs, config.grace_secs)
    claim = ownership.claim(config.model_dir) if plan.is_chief else contextlib.nullcontext()
    with claim, lifelines.Lifeline(str(plan.task or 'trainer'), bounds) as lifeline:
        try:
            from estimator_trainer import compat

            compat.bring_up()
            with forks.parent_only():
                ready = ready or jobs.prepare(config)
                from estimator_trainer.training.run_task import run_task

                end = run_task(plan, ready.job, ready.params, lifeline, compat.versions())
        except (UsageError, jobs.JobError, ownership.TakenElsewhere):
            raise
        except BaseException as error:  # SystemExit too: a task that ends says why
            from estimator_trainer.training import failures

            end = failures.explain(error, plan, lifeline)
        if end is None:
            return exit_codes.OK
        lifeline.end(end)
        return end.code
