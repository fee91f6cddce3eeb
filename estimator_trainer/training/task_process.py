"""The process of a task, from its claim on the model_dir to its exit code. TensorFlow comes up in it."""

import contextlib
import logging

from estimator_trainer import exit_codes, jobs
from estimator_trainer.errors import UsageError
from estimator_trainer.lifecycle import watchdog as watchdogs
from estimator_trainer.run_dir import ownership
from estimator_trainer.run_dir.own_start import OwnStart
from estimator_trainer.run_dir.run_folder import RunFolder
from estimator_trainer.secure import entering
from estimator_trainer.this_process import forks
from estimator_trainer.training import messages, what_failed
from estimator_trainer.training import plan as planning

_log = logging.getLogger('estimator_trainer')


def run(plan: planning.Plan, began: float) -> int:
    """Does this task's part of a run.

    Args:
        began: when this process began, seconds since the epoch.

    Returns:
        Its exit code. Whatever the task fails with, its record says why.

    Raises:
        UsageError, JobError, TakenElsewhere: the user can mend it.
    """
    config = plan.config
    bounds = watchdogs.Bounds(config.step_timeout_secs, config.grace_secs)
    ended = entering.state.companion_has_ended if entering.state else lambda: False
    task, supervised = str(plan.task or 'trainer'), RunFolder(config.model_dir).holders.cluster
    own_start = OwnStart(config.model_dir if plan.is_chief and not supervised else None, task, began)
    patience = ownership.OF_CLUSTER_SECS if plan.task else ownership.ALONE_SECS
    claim = ownership.claim(config.model_dir, patience) if plan.is_chief else contextlib.nullcontext()
    with claim, watchdogs.Watchdog(task, bounds, companion_has_ended=ended, own_start=own_start) as watchdog:
        try:
            from estimator_trainer import compat

            if plan.trains:
                watchdog.resumes_at(RunFolder(config.model_dir).named_step or 0)
            compat.bring_up()
            if plan.job is None:
                plan = planning.with_job(plan)
                _log.info('data: %s', messages.data_of(plan))
            from estimator_trainer.compat.patches import log_lines
            from estimator_trainer.training.run_task import run_task

            log_lines.show(config.job)
            with forks.parent_only():
                end = run_task(plan, watchdog, compat.versions())
        except (UsageError, jobs.JobError, ownership.TakenElsewhere) as error:
            _refused(watchdog, error)
            raise
        except BaseException as error:  # SystemExit too: a task that ends says why
            from estimator_trainer.compat import lacks
            from estimator_trainer.training import failures

            sentence = lacks.refusal(error)
            if not sentence and watchdog.step is None and (changed := what_failed.refusal(error)):
                sentence = changed if RunFolder(config.model_dir).has_checkpoint else ''
            refused = UsageError(sentence) if sentence else what_failed.in_traced_code(error, UsageError)
            if refused:
                _refused(watchdog, refused)
                raise refused from None
            end = failures.explain(error, plan, watchdog)
        if end is None:
            watchdog.ends_with(exit_codes.OK, {})
            return exit_codes.OK
        watchdog.end(end)
        return end.code


def _refused(watchdog: watchdogs.Watchdog, error: BaseException) -> None:
    code = getattr(error, 'exit_code', exit_codes.USAGE)
    watchdog.ends_with(code, {'message': str(error), 'traceback': []})
