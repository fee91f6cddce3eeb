"""How a run is, or how it ended, from its small files. Pure: it is told the time, and who holds the locks."""

import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

from estimator_trainer import exit_codes
from estimator_trainer.run_dir import status_file, training_file
from estimator_trainer.tools.report.words import day

DONE, PRUNED, STOPPED, FAILED = 'done', 'pruned', 'stopped', 'failed'
LOST, ALIVE, UNKNOWN = 'lost', 'alive', 'unknown'
FRESH_SECS = 30  # a chief that has written so lately lives, on another machine perhaps
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
class Alive:
    """Which processes hold the locks of the model_dir now."""

    trainer: bool = False
    cluster: bool = False
    evaluator: bool = False

    def __bool__(self):
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


def of(training: Mapping, status: Mapping, report: Mapping, alive: Alive, now: float, stop: Mapping = {}) -> Verdict:
    """Judges by training.json, status.json, report.json and eval/stop.json, which are {} where they are missing."""
    state = training.get('state')
    written = _time(training.get('time'))
    done = Verdict(DONE, f'is done: {_WHY.get(training.get("why"), "training has ended")}', exit_codes.OK)
    if training.get('why') == 'early_stopping' and stop.get('why'):  # decided from outside
        done = Verdict(PRUNED, f'was ended early at step {stop.get("step")}: {stop["why"]}', exit_codes.OK)
    told = None if alive.trainer else _of_supervisor(status, report, alive, done)
    if told and written <= _time(report.get('ended') or status.get('time')) + FRESH_SECS:
        return told
    if alive.cluster:
        return Verdict(ALIVE, status_file.DOING.get(status.get('state'), 'starts'))
    over = state in (training_file.ENDED, training_file.STOPPED, None) or exit_code(training) is not None
    if alive.trainer or (now - written < FRESH_SECS and not over):
        return Verdict(ALIVE, status_file.DOING.get(state, 'starts'))
    if state == training_file.ENDED:
        if alive.evaluator:
            return Verdict(ALIVE, 'evaluates and exports; training is over')
        return done
    code = exit_code(training)
    if state == training_file.STOPPED:
        told = code if type(code) is int else exit_codes.TERMINATED
        return Verdict(STOPPED, f'was told to stop, and saved; {_HOW_TO_GO_ON}', told)
    if type(code) is int:
        return Verdict(
            FAILED, f'failed with exit code {code} ({_meaning(code)}): {_phrase(training["exit"].get("message"))}', code
        )
    if state in training_file.STATES:
        text = f'is gone: no process has the model_dir, and training.json was last written at {day(written)}'
        why = 'It recorded no failure, so it was killed or its machine went down'
        return Verdict(LOST, f'{text}. {why}; {_HOW_TO_GO_ON}')
    return Verdict(UNKNOWN, 'has no training.json, so its files do not say how it ended')


def exit_code(training: Mapping) -> int | None:
    """With which the chief said that it ends; None while it lives, and where it was killed."""
    left = training.get('exit')
    code = left.get('code') if isinstance(left, dict) else None
    return code if type(code) is int else None


def _of_supervisor(status: Mapping, report: Mapping, alive: Alive, done: Verdict) -> Verdict | None:
    """It removes an old report.json when it begins, and writes a new one last. `done`: of a run that is."""
    code = report.get('exit_code')
    if type(code) is int:
        if code == exit_codes.OK:
            return done
        if report.get('attempts') and status.get('state') == 'stopped':
            return Verdict(STOPPED, f'was told to stop; {_HOW_TO_GO_ON}', code)
        return Verdict(FAILED, f'failed with exit code {code} ({_meaning(code)}){_cause(report)}', code)
    if status and not alive.cluster and status.get('state') not in ('done', 'stopped', 'failed'):
        text = f'is gone: its supervisor was killed; status.json was last written at {day(_time(status.get("time")))}'
        return Verdict(LOST, f'{text}; {_HOW_TO_GO_ON}')
    return None


def _cause(report: Mapping) -> str:
    attempts = report.get('attempts')
    last = attempts[-1] if isinstance(attempts, list) and attempts else {}
    cause = last.get('cause') if isinstance(last, dict) else None
    if not isinstance(cause, dict):
        return ''
    message, task = _phrase(cause.get('message')), cause.get('task')
    if not message:
        return f': {cause.get("text")}'
    return f'. {task} says: {message}' if task else f': {message}'


def _phrase(message) -> str:
    """What a task has said, without a full stop: the sentence goes on."""
    return str(message or '').rstrip('.')


def _meaning(code: int) -> str:
    return exit_codes.describe(code).partition(';')[0].removeprefix('failed: ')


def _time(value) -> float:
    return float(value) if type(value) in (int, float) else 0.0
