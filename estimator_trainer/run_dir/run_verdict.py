"""How a run is, or how it ended, from its small files. Pure: it is told the time, and who holds the locks."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import status_file, training_file
from estimator_trainer.run_dir.protocol import real
from estimator_trainer.this_process.log import day

DONE, PRUNED, STOPPED, FAILED = 'done', 'pruned', 'stopped', 'failed'
LOST, ALIVE, UNKNOWN = 'lost', 'alive', 'unknown'
FRESH_SECS = 30  # a chief that has written so lately lives, on another machine perhaps, whose clock may be ahead
_WHY = {
    training_file.MAX_STEPS: 'all steps are trained',
    training_file.EARLY_STOPPING: 'it stopped early, because the metric no longer improved',
    training_file.MAX_SECS: '--max_secs were over',
    training_file.END_OF_DATA: 'the data had come to their end',
    training_file.STEP_STANDS: 'the data had come to their end, and the global step has never moved',
    training_file.HOOK: 'a hook of the job has stopped the training',
    training_file.LISTENER: "a listener of the job's checkpoints has stopped the training",
}
_HOW_TO_GO_ON = 'the same command resumes'


@dataclasses.dataclass(frozen=True)
class Holders:
    """Which processes hold a lock of the model_dir: who trains, who supervises the cluster, and who evaluates.

    `trainer_has_left`: who trained last was a process of this machine, and has ended.
    """

    trainer: bool = False
    cluster: bool = False
    evaluator: bool = False
    trainer_has_left: bool = False

    def __bool__(self) -> bool:
        return self.trainer or self.cluster or self.evaluator


class Verdict(NamedTuple):
    """How a run is.

    Attributes:
        kind: DONE, PRUNED (a sweep has ended it early), STOPPED, FAILED, LOST (its processes are gone and did not say
            why), ALIVE or UNKNOWN.
        text: the same in words, which follow the name of the run: 'is done: all steps are trained'.
        code: the exit code of the run; None where it is not known.
    """

    kind: str
    text: str
    code: int | None = None


def judge(
    training: Mapping[str, Any],
    status: Mapping[str, Any],
    report: Mapping[str, Any],
    holders: Holders,
    now: float,
    stop: Mapping[str, Any] = {},
) -> Verdict:
    """Judges by training.json, status.json, report.json and eval/stop.json, which are {} where they are missing.

    Args:
        now: seconds since the epoch.
    """
    state = training.get('state')
    written = _time(training.get('time'))
    done = Verdict(DONE, f'is done: {why(training.get("why"))}', exit_codes.OK)
    if training.get('why') == training_file.EARLY_STOPPING and stop.get('why'):  # decided from outside
        done = Verdict(PRUNED, f'was ended early at step {stop.get("step")}: {stop["why"]}', exit_codes.OK)
    by_supervisor = None if holders.trainer else _by_supervisor(status, report, holders, done)
    if by_supervisor and written <= _time(report.get('ended') or status.get('time')) + FRESH_SECS:
        return by_supervisor
    if holders.cluster:
        return Verdict(ALIVE, status_file.DOING.get(_text(status.get('state')), 'starts'))
    code = exit_code(training)
    is_over = state in (training_file.ENDED, training_file.STOPPED, None) or code is not None
    may_live = abs(now - written) < FRESH_SECS and not holders.trainer_has_left
    if holders.trainer or (may_live and not is_over):
        return Verdict(ALIVE, status_file.DOING.get(_text(state), 'starts'))
    if state == training_file.ENDED:
        if holders.evaluator:
            return Verdict(ALIVE, f'{status_file.DOING[status_file.EVALUATING]}; training is over')
        return done
    if state == training_file.STOPPED:
        stopped = exit_codes.TERMINATED if code is None else code
        return Verdict(STOPPED, f'was told to stop, and saved; {_HOW_TO_GO_ON}', stopped)
    if code is not None:
        message = _phrase(training['exit'].get('message'))
        return Verdict(FAILED, f'failed with exit code {code} ({_meaning(code)}): {message}', code)
    if state in training_file.STATES:
        text = f'is gone: no process has the model_dir, and training.json was last written at {day(written)}'
        because = 'It recorded no failure, so it was killed or its machine went down'
        return Verdict(LOST, f'{text}. {because}; {_HOW_TO_GO_ON}')
    return Verdict(UNKNOWN, 'has no training.json, so its files do not say how it ended')


def why(value: Any) -> str:
    """Why training has ended, in words. `value`: `why` of training.json, or what a damaged file has there."""
    return _WHY.get(_text(value), 'training has ended')


def exit_code(training: Mapping[str, Any]) -> int | None:
    """With which the chief said that it ends; None while it lives, and where it was killed."""
    entry = training.get('exit')
    code = entry.get('code') if isinstance(entry, dict) else None
    return code if type(code) is int else None


def _by_supervisor(
    status: Mapping[str, Any], report: Mapping[str, Any], holders: Holders, done: Verdict
) -> Verdict | None:
    """It removes an old report.json when it begins, and writes a new one last. `done`: of a run that is."""
    code = report.get('exit_code')
    if type(code) is int:
        if code == exit_codes.OK:
            return done
        if report.get('attempts') and status.get('state') == status_file.STOPPED:
            return Verdict(STOPPED, f'was told to stop; {_HOW_TO_GO_ON}', code)
        return Verdict(FAILED, f'failed with exit code {code} ({_meaning(code)}){_cause(report)}', code)
    if status and not holders.cluster and status.get('state') not in status_file.ENDS:
        text = f'is gone: its supervisor was killed; status.json was last written at {day(_time(status.get("time")))}'
        return Verdict(LOST, f'{text}; {_HOW_TO_GO_ON}')
    return None


def _cause(report: Mapping[str, Any]) -> str:
    attempts = report.get('attempts')
    last = attempts[-1] if isinstance(attempts, list) and attempts else {}
    cause = last.get('cause') if isinstance(last, dict) else None
    if not isinstance(cause, dict):
        return ''
    message, task = _phrase(cause.get('message')), cause.get('task')
    if not message:
        return f': {cause.get("text")}'
    return f'. {task} says: {message}' if task else f': {message}'


def _phrase(message: Any) -> str:
    """What a task has said, without a full stop: the sentence goes on."""
    return str(message or '').rstrip('.')


def _meaning(code: int) -> str:
    return exit_codes.describe(code).partition(';')[0].removeprefix('failed: ')


def _time(value: Any) -> float:
    return real(value) or 0.0


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ''
