"""report.json in the model_dir: what happened in a run, after it. Pure: data in, JSON out.

A run may be started several times. All but `earlier_starts` is of the last start.

    start                     its number, from 1
    exit_code, meaning        of the run
    started, ended, secs      seconds since the epoch; duration
    restarts                  of the gang
    attempts                  a list, in order:
      attempt, generation, workers, addresses, log_dir, started, secs
      why                     done, failed, stalled, signalled, not drained
      signal                  the name of the one that we were told to stop with
      cause                   task, code, meaning, text, reported_by, message, traceback,
                              out_of_memory; null without
      step, max_steps, checkpoint_before, checkpoint_step, steps_lost
      ended_by                as `why` of run_dir/training_file.py; null: training has not ended
      tasks                   each end of each task, in the order they were seen:
                              name, life, code, signal, meaning, how, message; began_secs, secs:
                              when this life began and ended, since the gang was started
      decision, delay_secs    what followed a failure; null without
    earlier_starts            as in run_dir/run_starts.py

What is not known is null.
"""

from collections.abc import Mapping, Sequence

from estimator_trainer import exit_codes
from estimator_trainer.supervisor.policy.causes import TaskEnd
from estimator_trainer.supervisor.policy.restarts import Decision
from estimator_trainer.supervisor.reports import wording
from estimator_trainer.supervisor.reports.attempt import Attempt

REPORT_FILE = 'report.json'


def document(
    code: int,
    started: float,
    ended: float,
    pairs: Sequence[tuple[Attempt, Decision | None]],
    start: int = 1,
    earlier: Sequence[Mapping] = (),
) -> dict:
    """report.json. `start`: the number of this start; `earlier`: the starts before it."""
    return {
        'start': start,
        'exit_code': code,
        'meaning': exit_codes.describe(code),
        'started': started,
        'ended': ended,
        'secs': round(ended - started, 3),
        'restarts': max(0, len(pairs) - 1),
        'attempts': attempts(pairs),
        'earlier_starts': [*earlier],
    }


def attempts(pairs: Sequence[tuple[Attempt, Decision | None]]) -> list[dict]:
    """The attempts that have ended."""
    return [_attempt(attempt, decision) for attempt, decision in pairs]


def _attempt(attempt: Attempt, decision: Decision | None) -> dict:
    outcome, training = attempt.outcome, attempt.training
    return {
        'attempt': attempt.number,
        'generation': attempt.generation,
        'workers': attempt.workers,
        'addresses': dict(attempt.addresses),
        'log_dir': str(attempt.folder),
        'started': attempt.started,
        'secs': round(outcome.secs, 3),
        'why': outcome.end.kind.value,
        'signal': outcome.signum.name if outcome.signum else None,
        'cause': _cause(attempt),
        'step': attempt.step,
        'max_steps': training.max_steps if training else None,
        'ended_by': training.why if training else None,
        'checkpoint_before': attempt.checkpoint_before,
        'checkpoint_step': attempt.checkpoint,
        'steps_lost': attempt.steps_lost,
        'tasks': [_task(task) for task in outcome.ended],
        'decision': decision.reason.value if decision else None,
        'delay_secs': round(decision.delay, 3) if decision and decision.restart else None,
    }


def _cause(attempt: Attempt) -> dict | None:
    cause = attempt.outcome.end.cause
    if cause is None:
        return None
    error = cause.told_by.error if cause.told_by else None
    return {
        'task': cause.name or None,
        'code': cause.code,
        'meaning': exit_codes.describe(cause.code),
        'text': wording.cause(cause),
        'reported_by': cause.reporter.name if cause.reporter else None,
        'message': error.message if error else None,
        'traceback': list(error.traceback) if error else [],
        'out_of_memory': attempt.out_of_memory,
    }


def _task(task: TaskEnd) -> dict:
    return {
        'name': task.name,
        'life': task.life,
        'code': task.exit_code,
        'signal': wording.signal_name(-task.code) if task.code < 0 else None,
        'meaning': exit_codes.describe(task.exit_code),
        'began_secs': round(task.began, 3),
        'secs': round(task.secs, 3),
        'how': task.how.value,
        'message': task.error.message if task.error else None,
    }
